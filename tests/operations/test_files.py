"""Operations that add files: what is there stays, two releases never mix."""

from __future__ import annotations

from pathlib import Path

import pytest

from patcher.changes import Create, Link
from patcher.errors import PatcherError, UnsafePath
from patcher.operations import files
from patcher.operations.base import Finding, Outcome
from patcher.operations.registry import find
from patcher.patchset.schema import CreateFile, Overlay, RelativePath, Symlink, Text
from patcher.tree import FolderTree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in {"cccl/nv/target": "t", "cccl/nv/detail/macros": "m", "cuda/include/a.h": "a",
                       "cuda/lib/libcudart.so.13": "so"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def overlay(root: Path) -> Finding:
    operation = Overlay(from_=RelativePath("cccl"), to=RelativePath("cuda/include"))
    return files.overlay(operation, FolderTree(root))


def test_an_overlay_adds_the_whole_set_or_nothing(root: Path) -> None:
    found = overlay(root)
    assert found.outcome is Outcome.APPLICABLE
    assert found.changes == (Create("cuda/include/nv/detail/macros", b"m"),
                             Create("cuda/include/nv/target", b"t"))
    (root / "cuda/include/nv/detail").mkdir(parents=True)
    (root / "cuda/include/nv/target").write_text("t")
    assert overlay(root).changes == (Create("cuda/include/nv/detail/macros", b"m"),)
    (root / "cuda/include/nv/detail/macros").write_text("m")
    assert overlay(root).outcome is Outcome.NOT_NEEDED
    (root / "cuda/include/nv/target").write_text("of another release")
    found = overlay(root)
    assert (found.outcome, found.changes) == (Outcome.CONFLICT, ())
    assert "two releases do not mix" in found.reason


def test_an_overlay_does_not_mix_with_another_release_beside_it(root: Path) -> None:
    """Both folders are on one include path, so half of a set could come from each."""
    operation = Overlay(from_=RelativePath("cccl"), to=RelativePath("cuda/include/cccl"),
                        beside=(RelativePath("cuda/include"),))
    (root / "cuda/include/nv").mkdir()
    (root / "cuda/include/nv/target").write_text("t")
    assert files.overlay(operation, FolderTree(root)).outcome is Outcome.APPLICABLE
    (root / "cuda/include/nv/target").write_text("of another release")
    found = files.overlay(operation, FolderTree(root))
    assert (found.outcome, found.files) == (Outcome.CONFLICT, ("cuda/include/nv/target",))


def test_an_overlay_of_nothing_is_missing(root: Path) -> None:
    operation = Overlay(from_=RelativePath("absent"), to=RelativePath("cuda/include"))
    assert files.overlay(operation, FolderTree(root)).outcome is Outcome.MISSING


@pytest.mark.parametrize(("link", "target", "outcome"), [
    ("cuda/lib64", "lib", Outcome.APPLICABLE),
    ("cuda/lib/libcudart.so", "libcudart.so.13", Outcome.APPLICABLE),
    ("cuda/lib64", "lib32", Outcome.MISSING),
    ("cuda/include", "lib", Outcome.NOT_NEEDED),  # the name is taken; it is never replaced
])
def test_a_link_needs_its_target_and_a_free_name(
    root: Path, link: str, target: str, outcome: Outcome
) -> None:
    operation = Symlink(link=RelativePath(link), target=RelativePath(target))
    found = files.symlink(operation, FolderTree(root))
    assert found.outcome is outcome
    assert found.changes == ((Link(link, target),) if outcome is Outcome.APPLICABLE else ())


@pytest.mark.parametrize(("path", "outcome"), [
    ("cuda/include/b.h", Outcome.APPLICABLE),
    ("cuda/include/a.h", Outcome.NOT_NEEDED),
    ("cuda/lib/libcudart.so.13", Outcome.CONFLICT),
    ("cuda/lib", Outcome.CONFLICT),  # a folder
])
def test_a_new_file_replaces_nothing(root: Path, path: str, outcome: Outcome) -> None:
    operation = CreateFile(file=RelativePath(path), content="a", executable=True)
    found = files.create(operation, FolderTree(root))
    assert found.outcome is outcome
    assert found.changes == ((Create(path, b"a", 0o755),) if outcome is Outcome.APPLICABLE else ())


def test_what_cannot_be_read_or_leads_out_is_an_error_of_one_line(root: Path) -> None:
    (root / "outside").symlink_to("/etc/hostname")
    (root / "folder").mkdir()
    for path, kind in (("outside", UnsafePath), ("folder", PatcherError),
                       ("cuda/include/a.h/below", PatcherError)):
        operation = Text(file=RelativePath(path), find="a", replace="b")
        with pytest.raises(kind) as caught:
            find(operation, FolderTree(root))
        assert "\n" not in str(caught.value)
