"""Many processes on one environment: nothing is lost, nobody waits for ever, one order tells all.

Run as a program: ``python -m tests.engine.siege SECONDS [PROCESSES [LEAST]]``. Every
process applies, reverts and looks at patchsets, its own and shared ones, until
the time is over and it has committed LEAST transactions. Under the lock each
commit enters the tree's hash before and after in one log. The log is the serial
order: each entry begins where the one before it ended, and carried out by one
process alone in a fresh tree it ends in the same bytes and the same journal.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from patcher.changes import Change, Create, Link
from patcher.engine.codec import to_json
from patcher.engine.request import PatchsetChange, Request
from patcher.engine.stage import groups_named
from patcher.errors import LockHeld
from patcher.session import looking, writing
from patcher.status import State, status
from patcher.transaction import NoCaches
from tests.engine.helpers import Package, home_of, installed, patchset, replacing, snapshot

WORDS = [f"word{number:02}" for number in range(40)]
TEXT = "".join(f"{word}\n" for word in WORDS)
FILES = {f"demo/{folder}/{name}.h": TEXT for folder in "ab" for name in ("x", "y")}
SHARED = 4  # patchsets that every process works on, besides one of its own
SOUND = {State.APPLIED}  # what a look may see, besides nothing at all


def change(package: Package, number: int) -> PatchsetChange:
    """The patchset of a number: every file edited at one word, and new files for some."""
    word = WORDS[number]
    edits = {path: [replacing(TEXT, word, word.upper())] for path in FILES}
    new: list[Change] = [Create(f"demo/new{number}/n.h", word.encode()),
           Link(f"demo/link{number}", "a")] if number % 2 else []
    return patchset(package, f"p{number}", edits, new)


def tree_hash(package: Package) -> str:
    found = sorted(snapshot(package.root).items())
    return hashlib.sha256(repr(found).encode()).hexdigest()


def turn(package: Package, verb: str, number: int, log: Path | None) -> str | None:
    """One apply or revert as one transaction; the tree's hash after it, None when nothing to do."""
    home = home_of(package)
    with writing(home, NoCaches(), 60) as session:
        name = f"p{number}"
        if (verb == "apply") == (name in session.journal.patchsets):
            return None
        request = (Request((change(package, number),)) if verb == "apply"
                   else Request(drops=groups_named(session.journal, name)))
        before = tree_hash(package) if log else ""
        staged = session.stage(request, {package.name: package})
        assert not staged.refusals, staged.refusals
        session.commit(staged, NoCaches())
        after = tree_hash(package)
        if log:
            line = json.dumps([os.getpid(), verb, number, before, after])
            with log.open("a") as file:
                file.write(line + "\n")
        return after


def look(package: Package) -> int:
    """What ``status`` sees is of one moment: applied or not there, never anything between."""
    with looking(home_of(package)) as session:
        found = status(session, lambda _name: package)
    assert {one.state for one in found} <= SOUND, found
    return len(found)


def work(package: Package, number: int, log: Path, until: float, least: int) -> dict[str, int]:
    choose, done = random.Random(number), Counter[str]()
    while time.monotonic() < until or done["committed"] < least:
        mine = SHARED + number if choose.random() < 0.5 else choose.randrange(SHARED)
        verb = choose.choice(("apply", "revert", "look"))
        try:
            if verb == "look":
                look(package)
                done["looks"] += 1
            elif turn(package, verb, mine, log):
                done["committed"] += 1
            else:
                done["nothing to do"] += 1
        except LockHeld:
            done["refused"] += 1
    return dict(done)


@dataclass(frozen=True)
class Commit:
    """``before`` and ``after`` are hashes of the whole tree."""

    process: int
    verb: str
    number: int
    before: str
    after: str


@dataclass(frozen=True)
class Siege:
    seconds: float
    counts: list[dict[str, int]]  # by process
    order: list[Commit]


def siege(folder: Path, seconds: float, processes: int, least: int) -> Siege:
    """Let them all loose; raises AssertionError when a child fails or the order has a gap."""
    package, log = installed(folder / "site", FILES), folder / "log"
    start, first = time.monotonic(), tree_hash(package)
    children: dict[int, int] = {}
    for number in range(processes):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                done = work(package, number, log, start + seconds, least)
                (folder / f"counts-{number}").write_text(json.dumps(done))
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        children[child] = number
    failed = [children[child] for child in children if os.waitpid(child, 0)[1] != 0]
    assert not failed, f"processes {failed} failed"
    order = [Commit(*json.loads(line)) for line in log.read_text().splitlines()]
    explained(folder, package, first, order)
    counts = [json.loads((folder / f"counts-{n}").read_text()) for n in range(processes)]
    assert sum(one["committed"] for one in counts) == len(order)
    return Siege(time.monotonic() - start, counts, order)


def explained(folder: Path, package: Package, first: str, order: list[Commit]) -> None:
    """The order is one: no gap in it, and alone it leads to the same tree and journal."""
    here = first
    for commit in order:
        assert commit.before == here, "an update came in between, or was lost"
        here = commit.after
    assert tree_hash(package) == here
    alone = installed(folder / "alone" / "site", FILES)
    for commit in order:
        assert turn(alone, commit.verb, commit.number, None) == commit.after
    assert to_json(home_of(alone).journal()) == to_json(home_of(package).journal())


def main(seconds: float, processes: int = 16, least: int = 50) -> None:
    with tempfile.TemporaryDirectory() as folder:
        done = siege(Path(folder), seconds, processes, least)
    total = sum((Counter(one) for one in done.counts), Counter[str]())
    print(f"{len(done.counts)} processes, {done.seconds:.0f} s: "
          + ", ".join(f"{count} {what}" for what, count in sorted(total.items())))
    print("committed by each:", *sorted(one["committed"] for one in done.counts))
    print("one serial order explains the final tree and journal")


if __name__ == "__main__":
    main(float(sys.argv[1]), *map(int, sys.argv[2:]))
