"""A folder never answers for a path that leaves it; the system's realpath says which do."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from patcher.errors import UnsafePath
from patcher.tree import FolderTree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    for folder in (root / "in" / "deep", tmp_path / "other" / "deep", tmp_path / "root-beside"):
        folder.mkdir(parents=True)
        (folder / "a.h").write_text("")
    links = {"out": "../other", "up": "..", "absolute": str(tmp_path / "other"), "same": "in",
             "chain": "same/deep", "file-out": "../other/deep/a.h", "file-in": "in/deep/a.h",
             "loop": "loop", "nowhere": "missing/x.h"}
    for name, target in links.items():
        (root / name).symlink_to(target)
    (root / "in" / "out").symlink_to("../../root-beside")
    return root


PARTS = ("in", "deep", "out", "up", "absolute", "same", "chain", "file-out", "file-in", "loop",
         "nowhere", "..", ".", "a.h", "root", "")
PATHS = ["/".join(parts) for n in (1, 2, 3) for parts in itertools.product(PARTS, repeat=n)
         if parts[0] != ""]


def test_exactly_the_paths_that_stay_inside_are_answered(root: Path) -> None:
    home = os.path.realpath(root)
    tree = FolderTree(root)  # one tree for all: what it remembers must not leak
    answers = {True: 0, False: 0}
    for path in PATHS:
        try:
            real = os.path.realpath(os.path.join(home, path), strict=True)
        except OSError:  # nothing can be opened there
            continue
        inside = real == home or real.startswith(home + "/")
        answers[inside] += 1
        try:
            found = os.path.realpath(tree.locate(path))
        except UnsafePath:
            assert not inside, path
        else:
            assert inside, path
            assert found == real, path
    assert min(answers.values()) > 100


def test_a_link_put_in_place_of_a_file_later_is_seen(root: Path) -> None:
    tree = FolderTree(root)
    assert tree.read("in/deep/a.h") == b""
    (root / "in" / "deep" / "a.h").unlink()
    (root / "in" / "deep" / "a.h").symlink_to("../../../other/deep/a.h")
    with pytest.raises(UnsafePath):
        tree.read("in/deep/a.h")
