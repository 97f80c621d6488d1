"""The shipped patchset on real releases of FlashInfer (flashinfer#3903, #2708, #2780, #2913)."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patcher.cli import main

Unpacked = Callable[[str, str], Path]
pytestmark = pytest.mark.wheels
HEADER = "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh"
EDITED = {"flashinfer/jit/comm.py", HEADER, "flashinfer/data/csrc/trtllm_allreduce.cu"}


@pytest.fixture
def labelled(unpacked: Unpacked, tmp_path: Path) -> Callable[[str, str], Path]:
    """A release under another version's label: its own files, links to them, other metadata."""

    def make(version: str, label: str) -> Path:
        source, root = unpacked("flashinfer-python", version), tmp_path / "site"
        root.mkdir()
        shutil.copytree(source / "flashinfer", root / "flashinfer", copy_function=_link)
        info = root / f"flashinfer_python-{version}.dist-info"
        shutil.copytree(source / info.name, info)
        text = (info / "METADATA").read_text("utf-8")
        (info / "METADATA").write_text(text.replace(f"Version: {version}\n", f"Version: {label}\n"))
        return root

    return make


def _link(source: str, target: str) -> None:
    """Hard links: 60 MB need no second copy, and nothing here writes."""
    try:
        Path(target).hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)


def document(root: Path, tmp_path: Path, *more: str) -> tuple[int, dict[str, Any]]:
    out = tmp_path / "plan.json"
    code = main(["diff", "flashinfer-sm120", "--root", str(root), "--arch", "sm_120a",
                 "--format", "json", "-o", str(out), *more])
    return code, json.loads(out.read_text("utf-8"))


def outcomes(found: dict[str, Any]) -> dict[str, str]:
    (patchset,) = found["patchsets"]
    return {group["id"]: group["outcome"] for group in patchset["groups"]}


@pytest.mark.parametrize("version", ["0.5.3", "0.6.3", "0.6.6"])
def test_c1_the_group_applies_and_git_takes_its_diff(
    unpacked: Unpacked, tmp_path: Path, version: str
) -> None:
    root = unpacked("flashinfer-python", version)
    code, found = document(root, tmp_path, "--group", "trtllm-comm")
    assert code == 0
    assert outcomes(found) == {"trtllm-comm": "applicable"}
    copy = tmp_path / "copy"
    for path in EDITED:
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, copy / path)
    diff = tmp_path / "plan.diff"
    diff.write_bytes(str(found["diff"]).encode("utf-8", "surrogateescape"))
    subprocess.run(["git", "init", "-q"], cwd=copy, check=True)
    subprocess.run(["git", "apply", "--check", str(diff)], cwd=copy, check=True)
    subprocess.run(["git", "apply", str(diff)], cwd=copy, check=True)
    changed = {path for path in EDITED if (copy / path).read_bytes() != (root / path).read_bytes()}
    assert changed == EDITED
    # upstream's own edit of the same 13 lines: the bound is gone, the rest stays (0.7.4)
    guards = (copy / HEADER).read_text("utf-8").count(
        "#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900))\n")
    assert guards == 13
    assert "< 1200" not in (copy / HEADER).read_text("utf-8")


@pytest.mark.parametrize("version", ["0.6.17", "0.7.4"])
def test_c2_fixed_releases_need_nothing(
    unpacked: Unpacked, tmp_path: Path, version: str
) -> None:
    code, found = document(unpacked("flashinfer-python", version), tmp_path)
    assert (code, found["diff"], found["changed"]) == (0, "", False)
    assert set(outcomes(found).values()) == {"not-needed"}


def test_c2_an_old_release_with_a_new_label_is_never_not_needed(
    labelled: Callable[[str, str], Path], tmp_path: Path
) -> None:
    code, found = document(labelled("0.6.3", "0.7.4"), tmp_path)
    assert (code, found["diff"]) == (3, "")
    assert set(outcomes(found).values()) == {"conflict"}


def test_c2_a_fixed_release_with_an_old_label_is_not_edited(
    labelled: Callable[[str, str], Path], tmp_path: Path
) -> None:
    code, found = document(labelled("0.7.4", "0.6.6"), tmp_path)
    assert (code, found["diff"], found["changed"]) == (0, "", False)
    assert set(outcomes(found).values()) == {"not-needed"}


@pytest.mark.parametrize(("version", "lacking"), [
    ("0.6.6", {"gemm-fp4", "gemm-groupwise", "moe"}), ("0.6.7", {"moe"}), ("0.6.8", set())])
def test_c3_the_flag_is_planned_where_it_lacks(
    unpacked: Unpacked, tmp_path: Path, version: str, lacking: set[str]
) -> None:
    code, found = document(unpacked("flashinfer-python", version), tmp_path, "--group", "gdc")
    assert code == 0
    (patchset,) = found["patchsets"]
    patches = patchset["groups"][0]["patches"]
    assert {p["id"] for p in patches if p["outcome"] == "applicable"} == lacking


def test_c3_plain_sm_120_is_refused_for_the_flag(unpacked: Unpacked, tmp_path: Path) -> None:
    """On the plain target the barrier stays empty even with the flag."""
    root = unpacked("flashinfer-python", "0.6.6")
    code = main(["diff", "flashinfer-sm120", "--root", str(root), "--group", "gdc",
                 "--arch", "sm_120", "-o", str(tmp_path / "none.diff")])
    assert code == 3
    assert not (tmp_path / "none.diff").exists()
