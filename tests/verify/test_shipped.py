"""Proofs that travel: they hold for the very bytes they were made of, and for nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from patcher.changes import Modify
from patcher.errors import InputError
from patcher.tree import ChangedTree, FolderTree
from patcher.verify.shipped import (
    Proof,
    content_digest,
    holding,
    in_words,
    read_proofs,
    write_proofs,
)

FILES = ("a.cuh", "b.cu")


@pytest.fixture
def tree(tmp_path: Path) -> FolderTree:
    for name in FILES:
        (tmp_path / name).write_text(f"{name}\n")
    return FolderTree(tmp_path)


def proof(tree: FolderTree, **changes: object) -> Proof:
    digest = content_digest(tree, FILES)
    assert digest is not None
    fields: dict[str, object] = {
        "groups": ("g",), "package": "toy 1.0", "unit": "b.cu", "arch": "sm_120a", "kernels": 3,
        "effort": "quick", "cuda": "13.0.88", "compilers": "c", "files": FILES, "sha256": digest}
    return Proof(**{**fields, **changes})  # type: ignore[arg-type]


def test_it_holds_for_equal_bytes_only(tree: FolderTree) -> None:
    mine = proof(tree)
    assert holding([mine], ["g"], "toy 1.0", tree) == [mine]
    other = ChangedTree(tree, [Modify("a.cuh", b"a.cuh\n", b"a.cuh \n")])
    assert holding([mine], ["g"], "toy 1.0", other) == []


def test_it_is_of_these_groups_and_this_release(tree: FolderTree) -> None:
    assert holding([proof(tree)], ["g", "h"], "toy 1.0", tree) == []
    assert holding([proof(tree)], ["g"], "toy 1.1", tree) == []


def test_a_file_that_went_away_ends_it(tree: FolderTree, tmp_path: Path) -> None:
    mine = proof(tree)
    (tmp_path / "a.cuh").unlink()
    assert holding([mine], ["g"], "toy 1.0", FolderTree(tmp_path)) == []


def test_writing_adds_and_replaces(tree: FolderTree, tmp_path: Path) -> None:
    path = tmp_path / "x.proof.json"
    first, second = proof(tree), proof(tree, arch="sm_121a")
    write_proofs(path, [first])
    write_proofs(path, [second, first])
    assert read_proofs(path) == [first, second]
    assert "sm_120a sm_121a" in in_words(read_proofs(path))
    assert in_words([]) == ""


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 1, "proofs": [{"arch": 1}]}', "null"])
def test_damaged_files_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.proof.json"
    path.write_text(text)
    with pytest.raises(InputError, match="no file of proofs"):
        read_proofs(path)


@pytest.mark.nvcc
def test_from_verify_to_patchsets(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    proofs = tmp_path / "toy.proof.json"
    command = [sys.executable, "-m", "patcher"]
    subprocess.run([*command, "verify", tmp_path / "toy.yaml", "--root", toy, "--arch", "sm_120a",
                    "--write-proof", proofs], check=True, capture_output=True)
    (made,) = json.loads(proofs.read_text())["proofs"]
    assert (made["unit"], made["arch"], made["kernels"]) == ("toy/csrc/guarded.cu", "sm_120a", 3)
    assert made["files"] == ["toy/csrc/body.cuh", "toy/csrc/guarded.cu"]
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    for name in ("toy.yaml", "toy.proof.json"):
        shutil.copy(tmp_path / name, shipped)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # no nvcc is asked
    script = ("import patcher.patchset.shipped as here, pathlib, sys; "
              f"here._shipped_files = lambda: iter([pathlib.Path({str(shipped / 'toy.yaml')!r})]); "
              "from patcher.cli import main; sys.exit(main())")
    shown = subprocess.run([sys.executable, "-c", script, "patchsets", "--root", toy], check=True,
                           capture_output=True, text=True).stdout
    assert "proven: these very bytes were compiled with CUDA" in shown
    header = toy / "toy/csrc/body.cuh"
    header.write_text(header.read_text() + "\n")
    shown = subprocess.run([sys.executable, "-c", script, "patchsets", "--root", toy], check=True,
                           capture_output=True, text=True).stdout
    assert "proven:" not in shown
