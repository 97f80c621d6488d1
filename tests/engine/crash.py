"""Kill a transaction at every call that changes a disk, recover, and tell what came of it.

Run as a program: ``crash.py FOLDER SCENARIO [EVERY]``. It forks, so that each
victim is a real process and dies of a real SIGKILL. Prints one JSON line per
kill: what the target looked like before recovery and after it. The scenario
``foreign`` edits a file between the kill and the recovery; ``interrupt`` sends
SIGINT instead.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from patcher.caches.actions import Action, CacheAction
from patcher.caches.execute import execute
from patcher.caches.locks import ModuleLocks
from patcher.changes import Create, Link, Move
from patcher.engine.request import GroupChange, PatchChange, PatchsetChange
from patcher.session import writing
from tests.engine.helpers import (
    Package,
    apply,
    home_of,
    installed,
    patchset,
    replacing,
    revert,
    snapshot,
    states,
)
from tests.engine.watched import Watched

TEXT = "alpha\nbeta\ngamma\ndelta\nepsilon\n" * 40 + "one\ntwo\nthree\n"
PYTHON = "X = [9, 10]\n"
FILES = {"demo/a.py": PYTHON, "demo/b.cuh": TEXT, "demo/own.cuh": TEXT, "aot/m/m.so": "binary\n"}
THREE = {"one/jit/a.py": PYTHON, "one/b.cuh": TEXT, "two/c.py": PYTHON, "two/d.cuh": TEXT,
         "three/e.cuh": TEXT, "three/aot/m/m.so": "binary\n"}
MUTATING = ("replace", "rename", "unlink", "mkdir", "rmdir", "symlink", "fsync", "utime",
            "fchmod", "fchown", "open")


class ObjectCache:
    """One object of a JIT cache that any change makes stale."""

    def __init__(self, root: Path) -> None:
        self.object = root / "module" / "k.o"

    def plan(self, changed: Any) -> Sequence[CacheAction]:
        return [CacheAction("demo", str(self.object), Action.DELETE, "stale",
                            str(self.object.parent.parent))] if changed else []

    def locked(self, actions: Sequence[CacheAction]) -> AbstractContextManager[object]:
        return ModuleLocks(5)

    def execute(self, actions: Sequence[CacheAction]) -> None:
        with ModuleLocks(5) as locks:
            execute(actions, locks)


class Killer:
    """Counts calls that change the disk and dies at one: before, after, or half way a write."""

    def __init__(self, at: int, after: bool, number: signal.Signals = signal.SIGKILL) -> None:
        self.at, self.after, self.number, self.count = at, after, number, 0

    def strike(self) -> None:
        os.kill(os.getpid(), self.number)

    def arm(self) -> None:
        for name in MUTATING:
            setattr(os, name, self._wrapped(name, getattr(os, name)))
        opened = os.fdopen
        killer = self

        def fdopen(*arguments: Any, **options: Any) -> Any:
            file = opened(*arguments, **options)

            def half(data: bytes) -> int:
                if killer.hit():
                    file.write(data[:len(data) // 2] if killer.after else b"")
                    file.flush()
                    killer.strike()
                return int(file.write(data))

            return Watched(file, half)

        os.fdopen = fdopen

    def hit(self) -> bool:
        self.count += 1
        return self.count == self.at

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if name == "open" and not arguments[1] & os.O_CREAT:
                return real(*arguments, **options)
            hit = self.hit()
            if hit and not self.after:
                self.strike()
            try:
                return real(*arguments, **options)
            finally:
                if hit and self.after:
                    self.strike()

        return call


def prepare(folder: Path, scenario: str) -> tuple[Package, Callable[[], object]]:
    """A fresh package in the state before the scenario's change, and that change."""
    shutil.rmtree(folder, ignore_errors=True)
    if scenario.startswith("three"):
        return prepare_three(folder, scenario)
    package = installed(folder / "site", FILES)
    (package.root / "demo/linked.cuh").symlink_to("own.cuh")
    cache = ObjectCache(folder / "cache")
    first = patchset(package, "p", {
        "demo/a.py": [replacing(FILES["demo/a.py"], "10]", "12]")],
        "demo/b.cuh": [replacing(TEXT, "one", "ONE")],
        "demo/linked.cuh": [replacing(TEXT, "two", "TWO")],
    }, [Create("demo/new/deep/n.h", b"new\n"), Link("demo/lib64", "new"),
        Move("aot/m", "aot/m.aside")])
    other = patchset(package, "q", {"demo/b.cuh": [replacing(TEXT, "three", "THREE")]})
    if scenario in ("revert", "change"):
        apply(package, first)
    if scenario == "change":
        apply(package, other)
        first = patchset(package, "p", {"demo/b.cuh": [replacing(TEXT, "ne\ntw", "!")]},
                         digest="d2")
    cache.object.parent.mkdir(parents=True)
    cache.object.write_bytes(b"stale")
    (package.root / "demo/__pycache__").mkdir()
    (package.root / "demo/__pycache__/a.cpython-311.pyc").write_bytes(b"stale")
    if scenario == "revert":
        return package, lambda: revert(package, "p", caches=cache)
    return package, lambda: apply(package, first, caches=cache)


def prepare_three(folder: Path, scenario: str) -> tuple[Package, Callable[[], object]]:
    """One group over three packages: texts, a create, a link, a module set aside."""
    one = installed(folder / "site", THREE)
    two, three = replace(one, name="two"), replace(one, name="three")
    cache = ObjectCache(folder / "cache")
    python = (replacing(PYTHON, "10]", "12]"),)
    text = (replacing(TEXT, "one", "ONE"), replacing(TEXT, "three", "THREE"))
    group = GroupChange("main", (
        PatchChange("first", one, {"one/jit/a.py": python, "one/b.cuh": text}),
        PatchChange("second", two, {"two/c.py": python, "two/d.cuh": text},
                    (Create("two/new/deep/n.h", b"new\n"), Link("two/lib64", "new"))),
        PatchChange("third", three, {"three/e.cuh": text},
                    (Move("three/aot/m", "three/aot/m.aside"),)),
    ))
    change = PatchsetChange("p", "d1", (group,), frozenset({"main"}))
    if scenario == "three-revert":
        apply(one, change, others=(two, three))
    cache.object.parent.mkdir(parents=True)
    cache.object.write_bytes(b"stale")
    for stem in ("one/jit/a", "two/c"):
        compiled = (one.root / stem).parent / "__pycache__"
        compiled.mkdir()
        (compiled / f"{Path(stem).name}.cpython-311.pyc").write_bytes(b"stale")
    if scenario == "three-revert":
        return one, lambda: revert(one, "p", caches=cache, others=(two, three))
    return one, lambda: apply(one, change, caches=cache, others=(two, three))


def in_child(work: Callable[[], object]) -> bool:
    """Run in a fork; False when it was killed. Anything else than these two is an error."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            if code:
                traceback.print_exc()
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return False
    assert os.WEXITSTATUS(status) == 0, f"the child failed: {status}"
    return True


def recover(package: Package) -> None:
    with writing(home_of(package), ObjectCache(package.root.parent / "cache")):
        pass


def killed(at: int, after: bool, work: Callable[[], object],
           number: signal.Signals = signal.SIGKILL) -> bool:
    """Run the work in a child that dies at its n-th change; False when it never came to that."""

    def armed() -> None:
        Killer(at, after, number).arm()
        try:
            work()
        except KeyboardInterrupt:
            # it was interrupted and has cleaned up; die now, so that the parent can tell
            os.kill(os.getpid(), signal.SIGKILL)

    return not in_child(armed)


def report(package: Package, raw: dict[str, Any], **point: Any) -> None:
    home = home_of(package).path
    print(json.dumps({
        **point, "raw": raw, "final": readable(package.root),
        "states": {name: state.value for name, state in states(package).items()},
        "object": ObjectCache(package.root.parent / "cache").object.exists(),
        "home": sorted(path.name for path in home.iterdir()),
    }))


def readable(root: Path) -> dict[str, list[Any]]:
    return {path: [kind, mode, data.decode("utf-8", "replace")]
            for path, (kind, mode, data) in sorted(snapshot(root).items())}


def main(folder: Path, scenario: str, every: int) -> None:
    """Plain kills first; with ``every`` also kill the recovery of each n-th of them."""
    number = signal.SIGINT if scenario == "interrupt" else signal.SIGKILL
    for after in (False, True):
        at = 0
        while True:
            at += 1
            package, change = prepare(folder, scenario)
            if not killed(at, after, change, number):
                break
            if scenario == "foreign":
                (package.root / "demo/b.cuh").write_text("theirs\n")
            raw = readable(package.root)
            recover(package)
            report(package, raw, at=at, after=after)
            if every and at % every == 0:
                again(folder, scenario, at, after)
        report(package, readable(package.root), at=None, after=after)


def again(folder: Path, scenario: str, at: int, after: bool) -> None:
    second = 0
    while True:
        second += 1
        package, change = prepare(folder, scenario)
        killed(at, after, change)
        if not killed(second, not after, partial(recover, package)):
            return
        raw = readable(package.root)
        recover(package)
        report(package, raw, at=at, after=after, second=second)


if __name__ == "__main__":
    # a killed process loses nothing that the kernel has: counted as a call, but not waited for
    os.fsync = lambda _descriptor: None  # type: ignore[assignment]
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 0)
