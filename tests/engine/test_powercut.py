"""After a power cut at any time the tree is, after the next start, wholly old or wholly new."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.status import State
from tests.engine.crash import Killer, ObjectCache, in_child, prepare, recover
from tests.engine.helpers import Package, home_of, snapshot, states
from tests.engine.powercut import Cuts, Recorder, read_log

Tree = dict[str, tuple[str, int, bytes]]


def tree_of(package: Package) -> Tree:
    return {path: what for path, what in snapshot(package.root).items()
            if not path.endswith(("__pycache__", ".pyc"))}


def recorded(folder: Path, work: Callable[[], object], log: Path, kill: int = 0) -> bool:
    """Run in a recorded child; False when it was killed at its n-th change."""

    def armed() -> None:
        Recorder(folder, log).arm()
        if kill:  # around the recorder, which has to note what the victim still did
            Killer(kill, after=True).arm()
        work()

    return in_child(armed)


class Scene:
    """A scenario carried out once, its log, and what is right before and after."""

    def __init__(self, tmp_path: Path, scenario: str, kill: int = 0) -> None:
        self.folder, self.start = tmp_path / "x", tmp_path / "start"
        self.package, change = prepare(self.folder, scenario)
        shutil.rmtree(self.start, ignore_errors=True)
        shutil.copytree(self.folder, self.start, symlinks=True)
        self.old, self.old_states = tree_of(self.package), states(self.package)
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        self.whole = recorded(self.folder, change, log, kill)
        killed_at = 0
        if not self.whole:
            killed_at = len(read_log(log))
            assert recorded(self.folder, lambda: recover(self.package), log)
        self.final, self.final_states = tree_of(self.package), states(self.package)
        self.cuts = Cuts(read_log(log), self.start, self.folder, first=killed_at)

    def check(self, number: int, new: Tree) -> bool:
        """Start again on what the cut left: the tree is old or new, and all else agrees."""
        recover(self.package)
        tree = tree_of(self.package)
        assert tree in (self.old, new), number
        is_new = tree == new
        home = home_of(self.package)
        assert set(os.listdir(home.path)) <= {"journal.json", "lock", "originals"}, number
        if is_new:
            assert not ObjectCache(self.folder / "cache").object.exists(), number
            assert not list(self.package.root.rglob("*.pyc")), number
        assert states(self.package) == (_other(self.old_states) if is_new else self.old_states)
        for key, entry in home.journal().files.items():  # every original is there, to the byte
            assert not entry.base.sha256 or home.original(entry.base.sha256) is not None, key
        return is_new


def _other(old: dict[str, State]) -> dict[str, State]:
    return {} if old else {"p": State.APPLIED}


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody cuts the power of this machine: barriers are counted, not waited for."""
    monkeypatch.setattr(os, "fsync", lambda _handle: None)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["three", "three-revert"])
def test_a_power_cut_leaves_all_old_or_all_new(
        tmp_path: Path, scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    scene = Scene(tmp_path, scenario)
    assert scene.whole
    new, seen, last = scene.final, Counter[bool](), 0
    assert new != scene.old
    for number, _ in scene.cuts:
        seen[scene.check(number, new)] += 1
        last = number
    cuts = scene.cuts
    with capsys.disabled():
        print(f"\n{scenario}: {last} cuts, {cuts.exhaustive} with every part of what was pending, "
              f"{cuts.sampled} sampled (seed {cuts.seed}); {seen.total()} different disks: "
              f"{seen[False]} old again, {seen[True]} new", end="")
    assert min(seen.values()) > 5


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["three", "three-revert"])
def test_a_power_cut_while_a_kill_is_recovered(
        tmp_path: Path, scenario: str, capsys: pytest.CaptureFixture[str]) -> None:
    new, total, kill, disks = Scene(tmp_path, scenario).final, 0, 0, 0
    while True:
        kill += 7
        scene = Scene(tmp_path, scenario, kill)
        if scene.whole:
            break
        for number, _ in scene.cuts:
            scene.check(number, new)
            disks += 1
        total += 1
    with capsys.disabled():
        print(f"\n{scenario}: {disks} different disks of cuts around {total} kills", end="")
    assert total > 5
