"""Apply and revert on plain folders: the exact bytes, any order, nothing half done."""

from __future__ import annotations

import os
import time
from itertools import permutations
from pathlib import Path

import pytest

from patcher.changes import Change, Create, Link, Move
from patcher.engine.request import Why
from patcher.status import State
from tests.engine.helpers import (
    Package,
    apply,
    full_status,
    home_of,
    installed,
    patchset,
    replacing,
    revert,
    snapshot,
    states,
)

TEXT = "alpha\nbeta\ngamma\ndelta\nepsilon\n"
FILES = {"demo/a.py": "X = [9, 10]\nY = 1\n", "demo/inc/b.cuh": TEXT, "demo/lib/k.so": "binary\n"}


@pytest.fixture
def package(tmp_path: Path) -> Package:
    return installed(tmp_path / "site", FILES)


def test_three_patchsets_leave_in_any_order(tmp_path: Path) -> None:
    words = {"p": "alpha", "q": "gamma", "r": "epsilon"}
    for number, order in enumerate(permutations(words)):
        package = installed(tmp_path / str(number), FILES)
        before = snapshot(package.root)
        for name, word in words.items():
            edit = replacing(TEXT, word, word.upper() * 2)
            assert apply(package, patchset(package, name, {"demo/inc/b.cuh": [edit]})).changed
        for gone in range(len(order)):
            revert(package, order[gone])
            left = TEXT
            for name in order[gone + 1:]:
                left = left.replace(words[name], words[name].upper() * 2)
            assert (package.root / "demo/inc/b.cuh").read_text() == left
        assert snapshot(package.root) == before
        assert not home_of(package).journal().files


def test_equal_edits_are_owned_together(package: Package) -> None:
    edit = replacing(TEXT, "beta", "BETA")
    apply(package, patchset(package, "p", {"demo/inc/b.cuh": [edit]}))
    second = apply(package, patchset(package, "q", {"demo/inc/b.cuh": [edit]}))
    assert not second.changed
    revert(package, "p")
    assert "BETA" in (package.root / "demo/inc/b.cuh").read_text()
    revert(package, "q")
    assert (package.root / "demo/inc/b.cuh").read_text() == TEXT


def test_touching_edits_of_two_patchsets_are_refused(package: Package) -> None:
    apply(package, patchset(package, "p", {"demo/inc/b.cuh": [replacing(TEXT, "beta", "B")]}))
    before = snapshot(package.root)
    clash = apply(package, patchset(package, "q",
                                    {"demo/inc/b.cuh": [replacing(TEXT, "\ngamma", "\nG")]}))
    (refusal,) = clash.refusals
    assert refusal.why is Why.CONFLICT
    assert refusal.groups == {("q", "main")}
    assert "p/main/patch" in refusal.reason
    assert snapshot(package.root) == before


def test_a_changed_patchset_replaces_its_edits(package: Package) -> None:
    path = "demo/inc/b.cuh"
    apply(package, patchset(package, "p", {path: [replacing(TEXT, "beta", "B")]}))
    apply(package, patchset(package, "p", {path: [replacing(TEXT, "eta\ngam", "E")]}, digest="d2"))
    assert (package.root / path).read_text() == TEXT.replace("eta\ngam", "E")
    assert home_of(package).journal().patchsets["p"].digest == "d2"
    revert(package, "p")
    assert (package.root / path).read_text() == TEXT


def test_new_files_links_folders_and_moves_come_and_go(package: Package) -> None:
    before = snapshot(package.root)
    changes: list[Change] = [
        Create("demo/new/deep/c.py", b"Z = 1\n", 0o755), Link("demo/lib64", "lib"),
        Move("demo/lib", "demo/lib.aside")]
    apply(package, patchset(package, "p", {}, changes))
    after = snapshot(package.root)
    assert after["demo/new/deep/c.py"] == ("file", 0o755, b"Z = 1\n")
    assert after["demo/lib64"] == ("link", 0, b"lib")
    assert after["demo/lib.aside/k.so"][2] == b"binary\n"
    assert "demo/lib" not in after
    assert states(package) == {"p": State.APPLIED}
    (package.root / "demo/new/deep/__pycache__").mkdir()
    (package.root / "demo/new/deep/__pycache__/c.cpython-311.pyc").write_bytes(b"")
    revert(package, "p")
    assert snapshot(package.root) == before


def test_a_folder_that_someone_uses_stays(package: Package) -> None:
    apply(package, patchset(package, "p", {}, [Create("demo/new/c.py", b"")]))
    (package.root / "demo/new/theirs.py").write_text("")
    revert(package, "p")
    assert (package.root / "demo/new/theirs.py").exists()
    assert not (package.root / "demo/new/c.py").exists()


def test_a_new_file_never_replaces_one(package: Package) -> None:
    refused = apply(package, patchset(package, "p", {}, [Create("demo/a.py", b"mine")]))
    assert [r.why for r in refused.refusals] == [Why.CONFLICT]
    assert (package.root / "demo/a.py").read_text() == FILES["demo/a.py"]


def test_times_are_now_and_modes_stay_on_apply_and_revert(package: Package) -> None:
    path = package.root / "demo/inc/b.cuh"
    path.chmod(0o640)
    os.utime(path, (1, 1))
    start = time.time() - 1  # the clock that stamps files is coarser than ours
    apply(package, patchset(package, "p", {"demo/inc/b.cuh": [replacing(TEXT, "beta", "B")]}))
    assert path.stat().st_mtime >= start
    assert path.stat().st_mode & 0o777 == 0o640
    os.utime(path, (1, 1))
    revert(package, "p")
    assert path.stat().st_mtime >= start
    assert path.stat().st_mode & 0o777 == 0o640


def test_compiled_copies_of_every_tag_go(package: Package, tmp_path: Path,
                                         monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "pycache"
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(elsewhere))
    beside = package.root / "demo/__pycache__"
    mirror = elsewhere / str(package.root / "demo").lstrip("/")
    names = ["a.cpython-311.pyc", "a.cpython-313.opt-2.pyc"]
    for folder in (beside, mirror):
        folder.mkdir(parents=True)
        for name in [*names, "ab.cpython-311.pyc"]:
            (folder / name).write_bytes(b"old")
    edit = replacing(FILES["demo/a.py"], "10]", "12]")  # same size, same second
    apply(package, patchset(package, "p", {"demo/a.py": [edit]}))
    for folder in (beside, mirror):
        assert os.listdir(folder) == ["ab.cpython-311.pyc"]


def test_nothing_changes_when_applied_twice(package: Package) -> None:
    add = patchset(package, "p", {"demo/inc/b.cuh": [replacing(TEXT, "beta", "B")]})
    apply(package, add)
    inode = (package.root / "demo/inc/b.cuh").stat().st_ino
    staged = apply(package, add)
    assert not staged.steps
    assert (package.root / "demo/inc/b.cuh").stat().st_ino == inode


def test_originals_that_nobody_needs_are_dropped(package: Package) -> None:
    home = home_of(package)
    apply(package, patchset(package, "p", {"demo/inc/b.cuh": [replacing(TEXT, "beta", "B")]}))
    assert len(os.listdir(home.path / "originals")) == 1
    revert(package, "p")
    assert os.listdir(home.path / "originals") == []
    assert sorted(os.listdir(home.path)) == ["journal.json", "lock", "originals"]


def test_the_state_moves_with_its_folder_and_names_no_place(package: Package,
                                                            tmp_path: Path) -> None:
    apply(package, patchset(package, "p", {"demo/inc/b.cuh": [replacing(TEXT, "beta", "B")]}))
    state = home_of(package).path
    for file in state.glob("*.json"):
        assert str(tmp_path) not in file.read_text()
    (tmp_path / "moved").mkdir()
    package.root.rename(tmp_path / "moved/site")
    (tmp_path / ".sm-patch").rename(tmp_path / "moved/.sm-patch")
    moved = type(package)(tmp_path / "moved/site", record=package.record)
    assert states(moved) == {"p": State.APPLIED}
    revert(moved, "p")
    assert (moved.root / "demo/inc/b.cuh").read_text() == TEXT


def test_status_names_groups_patches_and_files(package: Package) -> None:
    apply(package, patchset(package, "p", {"demo/inc/b.cuh": [replacing(TEXT, "beta", "B")]}))
    (one,) = full_status(package)
    (group,) = one.groups
    (patch,) = group.patches
    assert (one.name, group.id, patch.id, patch.files) == ("p", "main", "patch",
                                                          ("demo/inc/b.cuh",))
