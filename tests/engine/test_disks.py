"""Real disks that give out under one change to three packages: all old or all new.

A full file system, one that turns read-only half way, folders closed to the
user, and a folder that is gone half way.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from patcher.errors import PatcherError
from patcher.status import State
from tests.engine.crash import Killer, prepare, recover
from tests.engine.helpers import Package, home_of, states
from tests.engine.test_installers import NOBODY, as_user
from tests.engine.test_io_errors import BUG, DONE, REFUSED, Tree, both_ends, tree_of

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def mount(*words: str | Path) -> None:
    if subprocess.run(["mount", *words], capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted here")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", place)
    yield place
    subprocess.run(["umount", "-R", place], check=True)


def attempt(work: Callable[[], object]) -> bool:
    """True when it went through; a refusal is the only other end allowed."""
    try:
        work()
    except PatcherError:
        return False
    return True


@pytest.mark.parametrize("scenario", ["three", "three-revert"])
def test_a_disk_that_is_full_at_any_point(disk: Path, scenario: str) -> None:
    old, new = both_ends(disk / "x", scenario)
    ended = set()
    for free in range(0, 120, 4):  # KiB, in pages of tmpfs
        package, change = prepare(disk / "x", scenario)
        with (disk / "ballast").open("wb") as ballast:
            stat = os.statvfs(disk)
            ballast.write(b"x" * max(0, stat.f_bavail * stat.f_frsize - free * 1024))
        done = attempt(change)
        full = tree_of(package)
        (disk / "ballast").unlink()
        recover(package)
        assert tree_of(package) == full == (new if done else old), free
        ended.add(done)
    assert ended == {True, False}


class Struck(Killer):
    """At one call the world changes, or as soon after as it can, and the call goes on in it."""

    def __init__(self, at: int, blow: Callable[[], bool]) -> None:
        super().__init__(at, False)
        self.blow, self.struck = blow, False

    def hit(self) -> bool:
        self.count += 1
        return self.count >= self.at and not self.struck

    def strike(self) -> None:
        self.struck = self.blow() or self.struck  # folders are synced by several threads


def struck(at: int, work: Callable[[], object], blow: Callable[[], bool]) -> tuple[int, bool]:
    """How a child ended, and whether it came to the blow."""
    child = os.fork()
    if child == 0:
        code, killer = BUG, Struck(at, blow)
        try:
            killer.arm()
            work()
            code = DONE
        except PatcherError:
            code = REFUSED
        finally:
            os._exit(code + (128 if killer.struck else 0))
    code = os.WEXITSTATUS(os.waitpid(child, 0)[1])
    return code % 128, code >= 128


def every_point(folder: Path, scenario: str, blow: Callable[[Package], bool],
                check: Callable[[Package, int, Tree, Tree], None]) -> int:
    old, new = both_ends(folder, scenario)
    at, reached = 0, True
    while reached:
        at += 1
        package, change = prepare(folder, scenario)
        code, reached = struck(at, change, partial(blow, package))
        assert code in (DONE, REFUSED), at
        if code == DONE and not reached:
            assert tree_of(package) == new
        check(package, at, old, new)
    return at


@needs_root
@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["three", "three-revert"])
def test_a_disk_that_turns_read_only_at_any_point(disk: Path, scenario: str) -> None:
    site = disk / "x/site"  # a mount of its own: a lock that is held would keep it writable
    site.mkdir(parents=True)
    mount("--bind", site, site)

    def set_mode(mode: str) -> bool:
        # refused while a file is open for writing: then it happens at the next call
        return not subprocess.run(["mount", "-o", f"remount,bind,{mode}", site],
                                  capture_output=True, check=False).returncode

    def check(package: Package, at: int, old: Tree, new: Tree) -> None:
        set_mode("rw")
        recover(package)
        final = tree_of(package)
        assert final in (old, new), at
        ends.add(final == new)

    ends: set[bool] = set()
    points = every_point(disk / "x", scenario, lambda _package: set_mode("ro"), check)
    assert points > 40
    assert ends == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["three", "three-revert"])
def test_a_folder_that_is_gone_at_any_point(tmp_path: Path, scenario: str) -> None:
    """What still stands is all old or all new, and the rest is never called whole."""
    aside = tmp_path / "aside"

    def take(package: Package) -> bool:
        if not (home_of(package).path / "intent.json").exists():
            return False  # before that it is a package that was never there
        # by another program: a rename here would be counted
        return not subprocess.run(["mv", package.root / "two", aside],
                                  capture_output=True, check=False).returncode

    def check(package: Package, at: int, old: Tree, new: Tree) -> None:
        if not aside.exists():
            return
        recover(package)
        assert _without(tree_of(package), "two") in (_without(old, "two"), _without(new, "two")), at
        subprocess.run(["rm", "-rf", package.root / "two"], check=True)
        aside.rename(package.root / "two")  # as it was when it went
        recover(package)
        whole, state = _content(tree_of(package)), states(package).get("p")
        if whole not in (_content(old), _content(new)):
            assert state in (State.DRIFTED, State.PARTIAL), (at, state)
        seen.add(state)

    seen: set[State | None] = set()
    assert every_point(tmp_path / "x", scenario, take, check) > 40
    assert seen >= {None, State.PARTIAL}


def _without(tree: Tree, top: str) -> Tree:
    return {path: what for path, what in tree.items() if path.split("/")[0] != top}


def _content(tree: Tree) -> Tree:
    """Files and links; a folder taken away keeps what was prepared there: it is no content."""
    return {path: what for path, what in tree.items()
            if what[0] != "folder" and ".smp-" not in path}


@needs_root
@pytest.mark.parametrize("closed", ["one", "two/new", "three/aot", "two", "three"])
def test_a_folder_closed_to_the_user_stops_all(closed: str) -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        top = Path(name)
        top.chmod(0o755)
        package, change = prepare(top / "x", "three")
        (package.root / "two/new").mkdir()
        for path in [top, *top.rglob("*")]:
            os.chown(path, NOBODY, NOBODY)
        place = package.root / closed
        place.chmod(0o555)
        before = tree_of(package)
        as_user(lambda: _refused(change))
        assert tree_of(package) == before
        assert home_of(package).journal().files == {}
        place.chmod(0o755)
        as_user(lambda: _done(change))
        assert tree_of(package) != before


def _refused(change: Callable[[], object]) -> None:
    with pytest.raises(PatcherError):
        change()


def _done(change: Callable[[], object]) -> None:
    change()

