"""The architecture gates that an edit changed: which worlds passed before, and which pass now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import TypeVar

from patcher.arch import ALL, EMPTY, ArchSet
from patcher.gates import Layer
from patcher.operations.cuda_guard import Arm, arms
from patcher.operations.opening import MAX_ATOMS, table
from patcher.tree import Tree
from patcher.units import is_source

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GateChange:
    """Equal changes of gates in one file; ``lines`` are those of now, empty for gates gone.

    ``opened`` and ``closed`` are the worlds that pass now and did not, and the
    other way round.
    """

    layer: Layer
    before: str
    after: str
    opened: ArchSet
    closed: ArchSet
    lines: tuple[int, ...] = ()


def changed_gates(path: str, before: Tree, after: Tree, folder: str) -> list[GateChange]:
    """The gates of one file that two trees decide differently, equal ones as one row."""
    if path.endswith(".py"):
        found = _python(path, before, after, folder)
    elif is_source(path):
        found = _preprocessor(before.read(path), after.read(path))
    else:
        return []
    rows: dict[GateChange, list[int]] = {}
    for change, line in found:
        rows.setdefault(change, []).extend([line] if line else [])
    return [GateChange(c.layer, c.before, c.after, c.opened, c.closed, tuple(lines))
            for c, lines in rows.items()]


_Found = Iterator[tuple[GateChange, int]]


def _python(path: str, before: Tree, after: Tree, folder: str) -> _Found:
    from patcher.python.find import find_gates_in

    was_source, source = before.read(path), after.read(path)
    old = find_gates_in(before, folder, [(path, was_source)])
    new = find_gates_in(after, folder, [(path, source)])
    for one, other in _paired(was_source, source, old, new, lambda gate: gate.location.line):
        # what is not there keeps nobody out
        was = one.worlds.closed if one else EMPTY
        now = other.worlds.closed if other else EMPTY
        if was != now:
            yield GateChange(Layer.PYTHON, one.condition if one else "",
                             other.condition if other else "", was - now,
                             now - was), other.location.line if other else 0


def _preprocessor(before: bytes, after: bytes) -> _Found:
    old = [arm for arm in arms(before) if "__CUDA_ARCH" in arm.text]
    new = [arm for arm in arms(after) if "__CUDA_ARCH" in arm.text]
    for one, other in _paired(before, after, old, new, lambda arm: arm.line):
        was, now = _worlds(one, other)
        if was != now:
            yield GateChange(Layer.PREPROCESSOR, _text(one), _text(other), now - was,
                             was - now), other.line if other else 0


def _text(arm: Arm | None) -> str:
    return " ".join(arm.condition.split()) if arm else ""


def _worlds(one: Arm | None, other: Arm | None) -> tuple[ArchSet, ArchSet]:
    """Where each may be open, under some value of what the architecture does not decide."""
    texts = [arm.condition for arm in (one, other) if arm is not None]
    atoms = {atom for text in texts if (found := table(text)) for atom in found.atoms}
    if len(atoms) > MAX_ATOMS or any(table(text) is None for text in texts):
        return EMPTY, EMPTY  # no chain of comparisons: the diff has to speak for itself
    names = tuple(sorted(atoms))
    return _open(one, names), _open(other, names)


def _open(arm: Arm | None, atoms: tuple[str, ...]) -> ArchSet:
    if arm is None:
        return ALL
    found, worlds = table(arm.condition, atoms), EMPTY
    for row in found.rows if found else ():
        worlds |= ArchSet(row)
    return worlds


def _paired(before: bytes, after: bytes, old: Sequence[T], new: Sequence[T],
            line_of: Callable[[T], int]) -> Iterator[tuple[T | None, T | None]]:
    """What stands on the same line, or in the same changed piece in the same order."""
    lines, others = before.split(b"\n"), after.split(b"\n")
    for tag, i, j, k, m in SequenceMatcher(None, lines, others).get_opcodes():
        mine = [item for item in old if i < line_of(item) <= j]
        theirs = [item for item in new if k < line_of(item) <= m]
        if tag != "equal":
            yield from zip_longest(mine, theirs)
            continue
        # a gate may change while its line stays: the name in it is defined elsewhere
        there = {line_of(item) - k: item for item in theirs}
        for item in mine:
            if line_of(item) - i in there:
                yield item, there[line_of(item) - i]
