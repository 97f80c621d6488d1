"""Where a tree says a path leads is where the system's own realpath says it leads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from patcher.errors import UnsafePath
from patcher.tree import FolderTree


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Links to files and folders, within and out, chained, absolute, in a loop, to nothing."""
    root = tmp_path / "site"
    (root / "a/b/c").mkdir(parents=True)
    (tmp_path / "out/deep").mkdir(parents=True)
    for place in (root / "a/b/c/x.h", root / "x.h", tmp_path / "out/deep/x.h"):
        place.write_text("x\n")
    for name, target in {
        "a/in": "b", "a/b/up": "../..", "chain": "a/in", "away": "../out", "a/b/away": "../../away",
        "loop": "loop", "a/ring": "../ring", "ring": "a/ring", "nothing": "not/here",
        "a/abs": str(root / "a/b/c"), "file": "a/in/c/x.h", "a/file": "/etc/hostname",
        "sly": "a/../../out/deep/x.h",
    }.items():
        (root / name).symlink_to(target)
    (tmp_path / "alias").symlink_to("site")
    return root


FOLDERS = ("", "a", "a/in", "a/in/c", "a/b/up", "a/b/up/a/in/c", "chain", "chain/c", "away",
           "away/deep", "a/b/away", "a/b/away/deep", "loop", "a/ring", "a/ring/x", "nothing",
           "nothing/y", "a/abs", "absent", "absent/z", "a/./b", "a/../a/in", "a//b", "x.h")
NAMES = ("x.h", "c", "deep", "none", "..", ".", "", "file", "sly", "up", "away")


@pytest.mark.parametrize("top", ["site", "alias"])
def test_each_path_leads_where_realpath_says(site: Path, top: str) -> None:
    root = site.parent / top
    tree = FolderTree(root)  # one tree: what it remembers of a folder must serve the next path
    home = os.path.realpath(root)
    inside = refused = 0
    for path in [f"{folder}/{name}".lstrip("/") for folder in FOLDERS for name in NAMES]:
        real = os.path.realpath(os.path.join(root, path))
        if real == home or real.startswith(home + "/"):
            assert tree.locate(path) == os.path.join(root, path)
            inside += 1
        else:
            with pytest.raises(UnsafePath, match=real):
                tree.locate(path)
            refused += 1
    assert inside > 100
    assert refused > 20


def test_a_path_of_thousands_of_folders_is_looked_up_like_any_other(site: Path) -> None:
    tree = FolderTree(site)
    long = "a/" * 5000 + "x.h"
    assert tree.names(long) == frozenset()
    with pytest.raises(UnsafePath):
        tree.locate("a/b/away/" + "d/" * 5000 + "x.h")
