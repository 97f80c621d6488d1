"""Disks that say no, other processes, and prepared folders: refused whole, nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from patcher.caches.actions import Action, CacheAction
from patcher.caches.locks import ModuleLocks
from patcher.engine.request import Request
from patcher.errors import Conflict, Exit, LockHeld, PatcherError, Refused
from patcher.locks import exclusive
from patcher.session import writing
from patcher.state import find_home
from patcher.status import State
from patcher.transaction import NoCaches
from tests.conftest import REPOSITORY
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

TEXT = "alpha\nbeta\ngamma\ndelta\nepsilon\n"
FILES = {"demo/a/one.h": TEXT, "demo/b/two.h": TEXT}
BETA = replacing(TEXT, "beta", "BETA")
BOTH = {path: [BETA] for path in FILES}


@pytest.fixture
def package(tmp_path: Path) -> Package:
    return installed(tmp_path / "site", FILES)


@pytest.fixture
def locked_folder(package: Package) -> Iterator[Path]:
    """The second file's folder, closed to writers; root needs the immutable flag for that."""
    folder = package.root / "demo/b"
    if os.geteuid() != 0:
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)
        return
    if subprocess.run(["chattr", "+i", folder], capture_output=True, check=False).returncode:
        pytest.skip("the file system has no immutable flag, and root ignores modes")
    yield folder
    subprocess.run(["chattr", "-i", folder], check=True)


def test_a_read_only_folder_stops_all(package: Package, locked_folder: Path) -> None:
    before = snapshot(package.root)
    with pytest.raises(Refused, match="as before") as refused:
        apply(package, patchset(package, "p", BOTH))
    assert refused.value.exit_code is Exit.REFUSED
    assert str(locked_folder) in str(refused.value)
    assert snapshot(package.root) == before
    assert sorted(os.listdir(home_of(package).path)) == ["lock", "originals"]
    assert os.listdir(home_of(package).path / "originals") == []


def test_an_immutable_file_rolls_back_what_was_written(package: Package) -> None:
    """The folder takes new files, but the last rename is refused."""
    file = package.root / "demo/b/two.h"
    if subprocess.run(["chattr", "+i", file], capture_output=True, check=False).returncode:
        pytest.skip("needs root and a file system with an immutable flag")
    try:
        before = snapshot(package.root)
        with pytest.raises(Refused, match="as before"):
            apply(package, patchset(package, "p", BOTH))
        assert snapshot(package.root) == before
        assert states(package) == {}
    finally:
        subprocess.run(["chattr", "-i", file], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("free", range(0, 140, 4))
def test_a_full_disk_leaves_everything_as_before(small_disk: Path, free: int) -> None:
    """With any amount of free space (KiB) it is done, or it is as before: never in between."""
    text = TEXT * 1000  # 31 kB each: two files, their copies and originals do not fit
    package = installed(small_disk / "site", {"demo/a.h": text, "demo/b.h": text})
    before = snapshot(package.root)
    edit = replacing(text + "last\n", "last", "")  # an edit at the very end
    edit = type(edit)(type(edit.span)(len(text), len(text)), b"new\n")
    change = patchset(package, "p", {"demo/a.h": [edit], "demo/b.h": [edit]})
    with (small_disk / "ballast").open("wb") as ballast:
        stat = os.statvfs(small_disk)
        ballast.write(b"x" * max(0, stat.f_bavail * stat.f_frsize - free * 1024))
    try:
        apply(package, change)
    except Refused:
        assert snapshot(package.root) == before
    else:
        assert (package.root / "demo/b.h").read_text() == text + "new\n"
    (small_disk / "ballast").unlink()
    expected = {"p": State.APPLIED} if snapshot(package.root) != before else {}
    assert states(package) == expected
    revert(package, "p")
    assert snapshot(package.root) == before


def test_a_file_that_changes_between_plan_and_write_stops_all(package: Package) -> None:
    with writing(home_of(package), NoCaches()) as session:
        staged = session.stage(Request((patchset(package, "p", BOTH),)), {"demo": package})
        (package.root / "demo/b/two.h").write_text("theirs\n")
        with pytest.raises(Conflict, match="changed while"):
            session.commit(staged, NoCaches())
    assert (package.root / "demo/a/one.h").read_text() == TEXT
    assert (package.root / "demo/b/two.h").read_text() == "theirs\n"
    assert states(package) == {}


def test_a_plan_for_other_bytes_is_refused(package: Package) -> None:
    from patcher.journal import FileKey

    home = home_of(package)
    expected = {FileKey(home.key(package.root), "demo/a/one.h"): "0" * 64}
    with writing(home, NoCaches()) as session:
        staged = session.stage(Request((patchset(package, "p", BOTH),), expected=expected),
                               {"demo": package})
    assert "changed while it was planned" in staged.refusals[0].reason


def test_keep_going_writes_whole_groups(package: Package) -> None:
    (package.root / "demo/a/one.h").unlink()
    adds = (patchset(package, "p", {"demo/a/one.h": [BETA]}),
            patchset(package, "q", {"demo/b/two.h": [BETA]}))
    with writing(home_of(package), NoCaches()) as session:
        request = Request(adds)
        staged = session.stage(request, {"demo": package})
        assert staged.refused == {("p", "main")}
        session.commit(session.stage(request.without(staged.refused), {"demo": package}),
                       NoCaches())
    assert states(package) == {"q": State.APPLIED}


class BusyCache:
    """A module that another process is building."""

    def __init__(self, lock: Path) -> None:
        self.action = CacheAction("demo", str(lock.parent / "k.o"), Action.DELETE, "stale",
                                  str(lock.parent), str(lock))

    def plan(self, changed: object) -> list[CacheAction]:
        return [self.action]

    def locked(self, actions: object) -> ModuleLocks:
        locks = ModuleLocks(0.1)
        locks.take([self.action])
        return locks

    def execute(self, actions: object) -> None:
        raise AssertionError("nothing may be executed")


def test_a_held_lock_is_refused_before_any_write(package: Package, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    before = snapshot(package.root)
    with exclusive(tmp_path / "cache/module.lock"), pytest.raises(LockHeld) as held:
        apply(package, patchset(package, "p", BOTH), caches=BusyCache(
            tmp_path / "cache/module.lock"))
    assert held.value.exit_code is Exit.REFUSED
    assert snapshot(package.root) == before
    home = home_of(package)
    with exclusive(home.lock), pytest.raises(LockHeld), writing(home, NoCaches(), 0.1):
        pass


def test_who_waited_for_a_home_that_went_starts_over(tmp_path: Path) -> None:
    """The home is removed and made anew while one waits: it holds the lock of the new one."""
    path = tmp_path / "lock"
    waits, done = threading.Event(), threading.Event()

    def wait() -> None:
        with exclusive(path, 10):
            waits.set()
            done.wait(10)

    with exclusive(path):
        waiter = threading.Thread(target=wait)
        waiter.start()
        time.sleep(0.3)  # it has opened the file by now
        path.unlink()
        path.touch()
    assert waits.wait(10)
    with pytest.raises(LockHeld), exclusive(path, 0.1):
        pass
    done.set()
    waiter.join()
    with exclusive(path, 0.1):
        pass


class UnwillingCache(BusyCache):
    """A stale object that cannot be deleted, until it can."""

    willing = False

    def locked(self, actions: object) -> ModuleLocks:
        return ModuleLocks(0.1)

    def execute(self, actions: object) -> None:
        if not self.willing:
            raise PermissionError(13, "Permission denied", self.action.path)
        Path(self.action.path).unlink()


def test_a_cache_that_fails_after_the_commit_is_told_and_done_later(package: Package,
                                                                    tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/k.o").write_text("stale")
    cache = UnwillingCache(tmp_path / "cache/module.lock")
    with pytest.raises(Refused, match="files are written"):
        apply(package, patchset(package, "p", BOTH), caches=cache)
    # it is applied, and reading says so without waiting for the rest
    assert (package.root / "demo/a/one.h").read_text() == TEXT.replace("beta", "BETA")
    assert states(package) == {"p": State.INTERRUPTED}
    cache.willing = True
    with writing(home_of(package), cache) as session:
        assert session.recovered is not None
        assert session.recovered.forward
    assert not (tmp_path / "cache/k.o").exists()
    assert states(package) == {"p": State.APPLIED}


def test_many_processes_at_once_leave_a_whole_composition(package: Package) -> None:
    words = TEXT.split()
    program = textwrap.dedent("""
        import sys
        from pathlib import Path
        from tests.engine.helpers import Package, apply, patchset, replacing, revert
        package, word = Package(Path(sys.argv[1])), sys.argv[2]
        text = sys.argv[3]
        for round in range(4):
            edit = replacing(text, word, word.upper())
            files = {p: [edit] for p in ("demo/a/one.h", "demo/b/two.h")}
            assert apply(package, patchset(package, word, files)).changed
            if round < 3:
                assert revert(package, word).changed
    """)
    children = [subprocess.Popen([sys.executable, "-c", program, package.root, word, TEXT],
                                 cwd=REPOSITORY) for word in words]
    assert [child.wait(timeout=60) for child in children] == [0] * len(words)
    for path in FILES:
        assert (package.root / path).read_text() == TEXT.upper()
    revert(package, *words)
    for path in FILES:
        assert (package.root / path).read_text() == TEXT


def test_a_home_that_others_may_write_is_refused(package: Package) -> None:
    apply(package, patchset(package, "p", BOTH))
    home = home_of(package)
    for place in (home.path, home.path / "originals", home.path.parent):
        place.chmod(0o777)
        for use in (lambda: states(package), lambda: revert(package, "p")):
            with pytest.raises(Refused, match="others may write"):
                use()
        place.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(home.path, 12345, 12345)
        with pytest.raises(Refused, match="owned by user 12345"):
            states(package)
        os.chown(home.path, 0, 0)
    assert states(package) == {"p": State.APPLIED}


def test_a_home_that_is_a_link_or_somebody_elses_is_refused(package: Package,
                                                            tmp_path: Path) -> None:
    apply(package, patchset(package, "p", BOTH))
    home = home_of(package)
    other = installed(tmp_path / "other", FILES)
    shared = find_home(prefix=None, root=other.root, state=str(home.path))
    with pytest.raises(Refused, match="another environment"):
        shared.journal()
    home.path.rename(tmp_path / "elsewhere")
    home.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="not a plain folder"):
        states(package)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 99}', "{]", '{"version": 1}'])
def test_a_damaged_journal_is_one_clear_error(package: Package, text: str) -> None:
    apply(package, patchset(package, "p", BOTH))
    (home_of(package).path / "journal.json").write_text(text)
    with pytest.raises(PatcherError):
        states(package)


def test_a_prefix_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "share").write_text("a file where a folder should be")
    with pytest.raises(Refused, match="cannot keep state"):
        find_home(prefix=tmp_path, root=None, state=None).create()
