"""Arms of ``#if`` that a scan reports, asked of nvcc's preprocessor.

An arm excludes when a reference compiles what follows it and the target does not, though the
target reaches its ladder and no arm of the ladder with a condition of its own serves it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from patcher.arch import Target
from patcher.cuda.directives import SourceFile, parse
from patcher.cuda.model import TranslationUnit
from patcher.gates import Gate
from tests.cuda.oracle import Marks
from tests.cuda.oracle_run import Comparison, Corpus

_TRIES = 4


def place(gate: Gate) -> str:
    """Where it is: gates that share a place are one question."""
    return f"{gate.location.path}:{gate.location.line}"


class Compiled:
    """Units of one package, preprocessed with markers in them."""

    def __init__(self, corpus: Corpus, folder: Path, references: Sequence[str]) -> None:
        self.units = {unit.path: unit for unit in reversed(corpus.units)}
        self._tree, self._references = corpus.tree, references
        self._comparison = Comparison(corpus, folder)
        self._sources: dict[str, SourceFile] = {}

    def confirmed(self, gates: Sequence[Gate], goal: Target) -> Iterator[tuple[str, set[str]]]:
        """Unit by unit, the places that nvcc confirms; as few units as will do."""
        done: set[str] = set()
        tried: Counter[str] = Counter()
        seen: set[str] = set()
        while True:
            left = [g for g in gates if place(g) not in done and tried[place(g)] < _TRIES]
            counts = Counter(u for g in left for u in {*g.units} & self.units.keys() - seen)
            if not counts:
                return
            path = min(counts, key=lambda name: (-counts[name], name))
            seen.add(path)
            here = [g for g in left if path in g.units]
            tried.update({place(g) for g in here})
            found = self._in_unit(self.units[path], here, goal)
            done |= found
            yield path, found

    def _in_unit(self, unit: TranslationUnit, gates: Sequence[Gate], goal: Target) -> set[str]:
        oracle = self._comparison.oracle(unit)
        mine, _ = oracle.marks(unit.path, goal.name)
        others = [oracle.marks(unit.path, world)[0] for world in self._references]
        return {place(gate) for gate in gates if self._excludes(gate, mine, others)}

    def _excludes(self, gate: Gate, mine: Marks, others: Sequence[Marks]) -> bool:
        path = gate.location.path
        if path not in self._sources:
            self._sources[path] = parse(self._tree.read(path))
        source = self._sources[path]
        ladder, arm = source.arms[gate.location.line]
        body, live = arm.body_line - 1, mine.get(path, set())
        reached = source.ends[ladder.end_line] - 1 in live
        served = [a for a in ladder.arms if a.body_line - 1 in live
                  and (a.condition or a.line < arm.line)]
        return (reached and body not in live and not served
                and any(body in other.get(path, ()) for other in others))

    def filled(self, gate: Gate, goal: Target) -> bool:
        """With the flag that a gate asks for, the target compiles more of the header it names."""
        name, _, value = gate.condition.removeprefix("-D").partition("=")
        header = gate.via[-1]
        for path in sorted({*gate.units} & self.units.keys())[:_TRIES]:
            unit = self.units[path]
            defined = replace(unit, configuration=replace(
                unit.configuration, defines=(*unit.configuration.defines, (name, value))))
            plain, more = (self._comparison.oracle(u).marks(path, goal.name)[0].get(header, set())
                           for u in (unit, defined))
            if more - plain:
                return True
        return False
