"""A tree with changes lists what the disk lists once they are made."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from patcher.changes import Change, Create, Delete, Modify, Move
from patcher.tree import ChangedTree, FolderTree, walk

FOLDERS = ("", "a", "a/b", "a/b/c", "d", "new", "new/er")


def changes(root: Path, chance: random.Random) -> list[Change]:
    """Changes of different files, made on the disk of ``root`` as well."""
    found: list[Change] = []
    for number in range(12):
        path = f"{chance.choice(FOLDERS)}/{chance.randrange(6)}.h".lstrip("/")
        place = root / path
        if any(change.path == path for change in found):
            continue
        if not place.exists():
            found.append(Create(path, str(number).encode()))
        elif chance.random() < 0.5:
            found.append(Delete(path, place.read_bytes()))
        else:
            found.append(Modify(path, place.read_bytes(), str(number).encode()))
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(found[-1], Delete):
            place.unlink()
        else:
            place.write_text(str(number))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_listings_and_contents_are_those_of_the_disk(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for folder in FOLDERS[:5]:
        for number in range(0, 6, 2):
            (tmp_path / "base" / folder).mkdir(parents=True, exist_ok=True)
            (tmp_path / "base" / folder / f"{number}.h").write_text("old")
    shutil.copytree(tmp_path / "base", tmp_path / "real")
    tree = ChangedTree(FolderTree(tmp_path / "base"), changes(tmp_path / "real", chance))
    real = FolderTree(tmp_path / "real")
    for folder in (*FOLDERS, "absent"):
        assert tree.names(folder) == real.names(folder)
        # a folder that came for a deleted file only is on the disk alone
        assert tree.folders(folder) >= {
            name for name in real.folders(folder)
            if list(walk(real, f"{folder}/{name}".lstrip("/")))}
    assert {p: tree.read(p) for p in walk(tree, "")} == {p: real.read(p) for p in walk(real, "")}


def test_a_moved_folder_is_where_it_went(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/x.h").write_text("x")
    tree = ChangedTree(FolderTree(tmp_path), [
        Create("a/b/y.h", b"y"), Move("a/b", "c/d"), Create("c/d/z.h", b"z")])
    assert list(walk(tree, "")) == ["c/d/x.h", "c/d/y.h", "c/d/z.h"]
    assert tree.names("a/b") == frozenset()


def test_files_outside_are_in_no_folder_of_the_tree(tmp_path: Path) -> None:
    tree = ChangedTree(FolderTree(tmp_path), [Create("/opt/cuda/include/new.h", b"")])
    assert tree.folders("") == tree.names("") == frozenset()
    assert "new.h" in tree.names("/opt/cuda/include")
    assert "include" in tree.folders("/opt/cuda")
