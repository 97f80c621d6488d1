"""What is left out before a file is parsed holds no gate."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from patcher.gates import Gate
from patcher.python import blocks, find
from patcher.python.vocabulary import vocabulary
from patcher.tree import FolderTree

pytestmark = [pytest.mark.slow]
STACK = os.environ.get("SM_PATCH_STACK")  # a site-packages with these
BESIDE = ("sglang", "vllm", "flashinfer")


def said(gate: Gate) -> tuple[object, ...]:
    """All that a gate says, but for its number among equal ones and what would decide its
    unknown worlds: a function that is left out names nothing."""
    return (gate.rule, gate.location, gate.condition, gate.worlds, gate.effect, gate.cause,
            gate.within, gate.lines, gate.names)


def lost(root: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> set[tuple[object, ...]]:
    """The gates that are found only when each file is parsed, and all of it."""
    found = {said(gate) for gate in find.find_gates(FolderTree(root), folder)}
    everything = replace(vocabulary(), prefilter=(b"",))
    monkeypatch.setattr(find, "vocabulary", lambda: everything)
    monkeypatch.setattr(blocks, "SMALL_FILE", 1 << 60)
    without = {said(gate) for gate in find.find_gates(FolderTree(root), folder)}
    assert len(without) > 40
    return without - found


@pytest.mark.wheels
@pytest.mark.parametrize(("distribution", "version", "folder"), [
    ("flashinfer-python", "0.6.3", "flashinfer"), ("flashinfer-python", "0.6.6", "flashinfer"),
    ("sglang", "0.5.9", "sglang"), ("flashinfer-python", "0.7.4", "flashinfer"),
])
def test_no_gate_of_a_pinned_release_is_lost(
    distribution: str, version: str, folder: str, unpacked: Callable[[str, str], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not lost(unpacked(distribution, version), folder, monkeypatch)


@pytest.mark.skipif(STACK is None, reason="SM_PATCH_STACK names no site-packages")
@pytest.mark.parametrize("folder", BESIDE)
def test_no_gate_of_a_stack_is_lost(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not lost(Path(str(STACK)), folder, monkeypatch)
