"""A disk that answers EIO to any call of a transaction, once or from then on.

A failed call may have done its work all the same, so each is tried both ways.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from errno import EIO
from pathlib import Path

import pytest

from patcher.errors import PatcherError
from tests.engine.crash import Killer, ObjectCache, prepare, recover
from tests.engine.helpers import Package, home_of, snapshot

DONE, REFUSED, BUG = 0, 3, 70
Tree = dict[str, tuple[str, int, bytes]]


class Failing(Killer):
    """Fails in place of dying; ``lasting`` fails every later call too."""

    def __init__(self, at: int, after: bool, lasting: bool) -> None:
        super().__init__(at, after)
        self.lasting = lasting

    def strike(self) -> None:
        raise OSError(EIO, os.strerror(EIO))

    def hit(self) -> bool:
        self.count += 1
        return self.count >= self.at if self.lasting else self.count == self.at


def attempt(at: int, after: bool, lasting: bool, work: Callable[[], object],
            log: Path) -> tuple[int, bool]:
    """How a child with that disk ended, and whether the disk came to fail."""
    child = os.fork()
    if child == 0:
        code, failing = BUG, Failing(at, after, lasting)
        try:
            failing.arm()
            work()
            code = DONE
        except PatcherError:
            code = REFUSED
        finally:
            if code == BUG:
                log.write_text(traceback.format_exc())
            os._exit(code + (128 if failing.count >= at else 0))
    code = os.WEXITSTATUS(os.waitpid(child, 0)[1])
    return code % 128, code >= 128


def tree_of(package: Package) -> Tree:
    """What stands there; compiled copies are not restored, as Python makes them anew."""
    return {path: what for path, what in snapshot(package.root).items()
            if "__pycache__" not in path}


def both_ends(folder: Path, scenario: str) -> tuple[Tree, Tree]:
    package, change = prepare(folder, scenario)
    old = tree_of(package)
    change()
    return old, tree_of(package)


@pytest.mark.slow
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from-then-on"])
@pytest.mark.parametrize("after", [False, True], ids=["undone", "done"])
@pytest.mark.parametrize("scenario", ["apply", "revert", "change", "three", "three-revert"])
def test_an_io_error_leaves_all_old_or_all_new(tmp_path: Path, scenario: str, after: bool,
                                               lasting: bool) -> None:
    old, new = both_ends(tmp_path / "x", scenario)
    assert old != new
    at, reached, seen = 0, True, set()
    while reached:
        at += 1
        package, change = prepare(tmp_path / "x", scenario)
        code, reached = attempt(at, after, lasting, change, tmp_path / "log")
        assert code in (DONE, REFUSED), f"{at}: {(tmp_path / 'log').read_text()}"
        if not lasting:  # one error: it has cleaned up after itself
            assert tree_of(package) in (old, new), at
        if code == DONE:  # what it says holds, also where it could shrug the error off
            assert tree_of(package) == new, at
        recover(package)
        final = tree_of(package)
        assert final in (old, new), at
        if final == new:
            assert not ObjectCache(tmp_path / "x/cache").object.exists(), at
        assert set(os.listdir(home_of(package).path)) <= {"journal.json", "lock", "originals"}
        seen.add((code, final == new))
    assert at > 40
    assert {(REFUSED, False), (REFUSED, True), (DONE, True)} <= seen
