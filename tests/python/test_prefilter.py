"""Looking fast loses no gate: real packages, with and without the shortcuts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from patcher.gates import Gate
from patcher.python.find import find_gates, find_gates_in
from patcher.python.index import Index
from patcher.python.vocabulary import vocabulary
from patcher.tree import FolderTree, walk


def every_file(tree: FolderTree, folder: str) -> Iterator[tuple[str, bytes]]:
    """All Python files, but for the folders that are left out for what they are."""
    words = vocabulary()
    for path in walk(tree, folder, (".py",)):
        parents = path.split("/")[:-1]
        above = ["/".join(parents[:depth]) for depth in range(1, len(parents) + 1)]
        if not words.skipped_folders.intersection(parents[1:]) and not any(
                place.endswith(words.skipped_paths) for place in above):
            yield path, tree.read(path)


@pytest.mark.wheels
@pytest.mark.parametrize(("name", "version", "folder"), [
    ("flashinfer-python", "0.6.3", "flashinfer"),
    pytest.param("sglang", "0.5.9", "sglang", marks=pytest.mark.slow),
    pytest.param("flashinfer-python", "0.7.4", "flashinfer", marks=pytest.mark.slow),
])
def test_no_gate_is_lost_by_looking_fast(
    unpacked: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch,
    name: str, version: str, folder: str,
) -> None:
    tree = FolderTree(unpacked(name, version))
    found = find_gates(tree, folder)
    assert found
    monkeypatch.setattr(Index, "scanned", Index.add)  # every file whole
    whole = find_gates_in(tree, folder, every_file(tree, folder))
    assert sorted(map(said, found)) == sorted(map(said, whole))


def said(gate: Gate) -> tuple[object, ...]:
    """The gate and its worlds; what decides the unknown ones is told by whole files only."""
    sets = gate.worlds
    return (gate.location.path, gate.location.line, gate.rule, gate.condition, gate.lines,
            sets.open.bits, sets.closed.bits, sets.unknown.bits)
