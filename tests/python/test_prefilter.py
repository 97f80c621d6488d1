"""What is left out before a file is parsed holds no gate, but for a few that are listed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from patcher.gates import Gate
from patcher.python import blocks, find
from patcher.python.index import Index
from patcher.tree import FolderTree

pytestmark = [pytest.mark.slow]
STACK = os.environ.get("SM_PATCH_STACK")  # with sglang 0.5.23, vllm 0.33.0, flashinfer 0.7.4
# Rows that are missed, by path and lines: what is tested came out of a function of another
# block or file in which nothing names an architecture; most are in generated files.
_LOST: dict[str, dict[str, tuple[int, ...]]] = {
    "sglang": {"srt/layers/quantization/fp8.py": (862,)},
    "vllm": {"models/kimi_k3/nvidia/kda.py": (302, 763, 764, 1001)},
    "flashinfer": {
        "experimental/b12x/attention/paged/planner.py": (1699, 2222),
        "experimental/cake/cake_lm_head_loss/cake_backend.py": (550, 946, 963),
        "experimental/cake_lm_head_det_loss/cake_backend.py": (418, 774),
        "experimental/cake_qsa_nvfp4/cake_jit.py": (1370,),
        "experimental/deepgemm_sparse_mqa/sparse_mqa.py": (329,),
        "experimental/kimi_k3_fp8_projection/cake_backend.py": (890,),
        "experimental/kimi_k3_vision_tower/cake_backend.py": (1431,),
        "fused_moe/cake_kimi_k3_situ.py": (345,), "mamba/cake_ssd_combined.py": (1163, 1852),
    },
}
MISSED = {package: {(f"{package}/{path}", line) for path, lines in files.items() for line in lines}
          for package, files in _LOST.items()}


def said(gate: Gate) -> tuple[object, ...]:
    """All that a gate says, but for its number among equal ones and what would decide its
    unknown worlds: a function that is left out names nothing."""
    return (gate.rule, gate.location, gate.condition, gate.worlds, gate.effect, gate.cause,
            gate.within, gate.lines, gate.names)


def lost(root: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, int]]:
    """Where gates are that are found only when each file is parsed, and all of it."""
    found = {said(gate) for gate in find.find_gates(FolderTree(root), folder)}
    marks = Index.marks
    monkeypatch.setattr(Index, "marks", lambda index, *file: replace(
        marks(index, *file), may_hold=True))
    monkeypatch.setattr(blocks, "SMALL_FILE", 1 << 60)
    without = find.find_gates(FolderTree(root), folder)
    assert len(without) > 40
    return {(gate.location.path, gate.location.line) for gate in without
            if said(gate) not in found}


@pytest.mark.wheels
@pytest.mark.parametrize(("distribution", "version", "folder"), [
    ("flashinfer-python", "0.6.3", "flashinfer"), ("flashinfer-python", "0.6.6", "flashinfer"),
    ("sglang", "0.5.9", "sglang"), ("flashinfer-python", "0.7.4", "flashinfer"),
])
def test_no_gate_of_a_pinned_release_is_lost(
    distribution: str, version: str, folder: str, unpacked: Callable[[str, str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = MISSED["flashinfer"] if version == "0.7.4" else set()
    assert lost(unpacked(distribution, version), folder, monkeypatch) == known


@pytest.mark.skipif(STACK is None, reason="SM_PATCH_STACK names no site-packages")
@pytest.mark.parametrize("folder", MISSED)
def test_no_gate_of_a_stack_is_lost(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lost(Path(str(STACK)), folder, monkeypatch) == MISSED[folder]
