"""One decision that is written in several places and languages: they open together or not at all.

Marlin's FP8 path in vLLM names 8.9 and 12.0 in a Python check, in two scripts that write
its kernels and in two C++ files. No rule knows Marlin: gates of different languages that
name the same devices one by one (whole families are named by many that have nothing to do
with each other), and share a word of their paths that few others have, are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patcher.arch import DEVICE, Capability
from patcher.gates import Gate, Layer

_WORD = re.compile(r"[a-z]{4,}")
_COMMON = 4  # a word that more than a fourth of all gates have says nothing


@dataclass(frozen=True, slots=True)
class Together:
    """Gates (in report order) that say the same about the feature ``name``."""

    name: str
    passes: tuple[Capability, ...]
    gates: tuple[Gate, ...]


def together(gates: Iterable[Gate]) -> list[Together]:
    """The decisions of which at least two languages hold a part."""
    found = [g for g in gates if g.excludes_target and g.layer is not Layer.PREPROCESSOR]
    spread: dict[str, int] = {}
    for gate in found:
        for word in _words(gate):
            spread[word] = spread.get(word, 0) + 1
    groups: dict[tuple[Capability, ...], list[Gate]] = {}
    for gate in found:
        passes = tuple((DEVICE & (gate.worlds.open | gate.worlds.unknown)).capabilities)
        if not _whole_families(passes):
            groups.setdefault(passes, []).append(gate)
    rows = []
    for passes, same in groups.items():
        name = _shared(same, {w for w, n in spread.items() if n * _COMMON <= len(found) + 8})
        members = tuple(g for g in same if name in _words(g)) if name else ()
        if len({_language(g) for g in members}) > 1:
            rows.append(Together(name, passes, members))
    return sorted(rows, key=lambda row: (-len(row.gates), row.name))


def _whole_families(passes: Sequence[Capability]) -> bool:
    majors = {capability.major for capability in passes}
    return set(passes) == {c for c in DEVICE.capabilities if c.major in majors}


def _language(gate: Gate) -> str:
    """Python, CMake or C++; a build function and a check in Python are of one language."""
    suffix = gate.location.path.rpartition(".")[2]
    return {"py": "Python", "cmake": "CMake", "txt": "CMake"}.get(suffix, "C++")


def _words(gate: Gate) -> set[str]:
    return set(_WORD.findall(gate.location.path.lower()))


def _shared(gates: Sequence[Gate], telling: set[str]) -> str:
    """The telling word that most of the gates have; "" when none is in two."""
    counts: dict[str, int] = {}
    for gate in gates:
        for word in _words(gate) & telling:
            counts[word] = counts.get(word, 0) + 1
    best = max(counts, key=lambda word: (counts[word], len(word), word), default="")
    return best if counts.get(best, 0) > 1 else ""
