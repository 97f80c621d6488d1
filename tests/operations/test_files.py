"""Operations that add files: what is there stays, two releases never mix."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from patcher.arch import ArchSet, Capability
from patcher.changes import Create, Link
from patcher.operations import files
from patcher.operations.base import Finding, Outcome
from patcher.operations.registry import find
from patcher.patchset.schema import (
    CreateFile,
    CudaGuard,
    Flag,
    Overlay,
    PythonGate,
    RelativePath,
    Symlink,
    Text,
)
from patcher.tree import FolderTree

TWELVE = ArchSet.of(Capability(12, 0))


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


def test_an_overlay_of_a_folder_that_leads_out_is_not_called_missing(
        root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "cccl"
    (root / "cccl").rename(elsewhere)
    (root / "cccl").symlink_to(elsewhere)
    operation = Overlay(from_=RelativePath("cccl"), to=RelativePath("cuda/include"))
    found = find(operation, FolderTree(root))
    assert found.outcome is Outcome.CONFLICT
    assert "leads out of" in found.reason


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


def test_a_link_to_a_folder_that_is_there_is_kept(root: Path) -> None:
    operation = Symlink(link=RelativePath("cuda/lib64"), target=RelativePath("lib"))
    for target in ("lib", "/usr/lib"):
        (root / "cuda/lib64").symlink_to(target)
        assert files.symlink(operation, FolderTree(root)).outcome is Outcome.NOT_NEEDED
        (root / "cuda/lib64").unlink()
    assert files.symlink(operation, FolderTree(root)).outcome is Outcome.APPLICABLE


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


def _unusual(root: Path) -> list[tuple[str, Outcome, str]]:
    """Everything that may stand where a file is expected: its outcome and the word that says so."""
    (root / "outside").symlink_to("/etc/hostname")
    (root / "nowhere").symlink_to("gone")
    (root / "itself").symlink_to("itself")
    (root / "folder").mkdir()
    os.mkfifo(root / "pipe")
    with (root / "huge").open("wb") as sparse:
        sparse.truncate(1 << 40)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")  # relative: a socket's path may not be long
    return [("outside", Outcome.CONFLICT, "leads out"), ("folder", Outcome.CONFLICT, "plain file"),
            ("itself", Outcome.CONFLICT, "levels of symbolic links"),
            ("pipe", Outcome.CONFLICT, "plain file"), ("socket", Outcome.CONFLICT, "plain file"),
            ("huge", Outcome.CONFLICT, "larger than"),
            ("nowhere", Outcome.MISSING, "leads nowhere"),
            ("absent", Outcome.MISSING, "not in this package"),
            ("cuda/include/a.h/below", Outcome.MISSING, "not in this package")]


@pytest.mark.parametrize("kind", [Text, CudaGuard, Flag, PythonGate])
def test_what_is_no_file_inside_refuses_this_patch_alone(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    """Semantics: a conflict or a missing file is an outcome, so a plan goes on with the rest."""
    root = tmp_path / "r"
    root.mkdir()
    monkeypatch.chdir(root)
    fields: dict[type, dict[str, Any]] = {
        Text: {"find": "a", "replace": "b"}, CudaGuard: {"condition": "A", "open": TWELVE},
        Flag: {"list": "flags", "flag": "-DX"}, PythonGate: {"gate": "g", "open": TWELVE}}
    (root / "cuda/include").mkdir(parents=True)
    (root / "cuda/include/a.h").write_text("a")
    for path, outcome, word in _unusual(root):
        found = find(kind(file=RelativePath(path), **fields[kind]), FolderTree(root))
        assert found.outcome is outcome, path
        assert path in found.reason
        assert word in found.reason
        assert "\n" not in found.reason
