"""Walk every unit once and keep what the layers need, in memory that does not grow with units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from patcher.arch import DEVICE, Target
from patcher.build import Observer
from patcher.cuda.model import Missing, TranslationUnit, UnitReport
from patcher.scan.arms import ArmTable, Seen, members, representatives
from patcher.scan.files import Files
from patcher.scan.model import is_library
from patcher.scan.preprocessor import Found, Judge

Walk = Callable[[TranslationUnit, bool], UnitReport]  # the unit, and whether every arm is wanted


@dataclass
class Facts:
    """What all units together showed; sets of units are bits by number."""

    units: Sequence[TranslationUnit]
    table: ArmTable
    observer: Observer
    reached: dict[str, int] = field(default_factory=dict)  # package file -> units
    outside: set[str] = field(default_factory=set)
    missing: set[Missing] = field(default_factory=set)
    warnings: set[str] = field(default_factory=set)
    _undecided: dict[int, tuple[int, tuple[Seen, ...]]] = field(default_factory=dict)

    @property
    def file_count(self) -> int:
        return len(self.reached) + len(self.outside)

    def add(self, number: int, report: UnitReport) -> None:
        """Enter one unit's report."""
        bit = 1 << number
        for path in report.files:
            if path.startswith("/"):
                self.outside.add(path)
            else:
                self.reached[path] = self.reached.get(path, 0) | bit
        self.missing.update(report.missing)
        self.warnings.update(report.warnings)
        self.table.add(number, report)
        self.observer.observe(number, report)

    def undecided(self, target: Target) -> tuple[int, tuple[Seen, ...]]:
        """Units in whose own code an arm is unknown for the target, and those arms.

        Only arms that depend on the architecture: for others all targets share the doubt.
        """
        if target.index not in self._undecided:
            arms = tuple(
                seen for seen in self.table
                if seen.state.unknown >> target.index & 1
                and (seen.state.open | seen.state.closed) & DEVICE.bits
                and not is_library(seen.path)
            )
            units = 0
            for seen in arms:
                units |= seen.units
            self._undecided[target.index] = units, arms
        return self._undecided[target.index]

    def paths(self, units: int) -> tuple[str, ...]:
        """The distinct sources of these units, sorted."""
        return tuple(sorted({self.units[number].path for number in members(units)}))

    def modules(self, units: int) -> tuple[str, ...]:
        """The modules these units belong to, sorted."""
        return tuple(sorted({m for number in members(units) for m in self.units[number].modules}))


def walk_all(
    units: Sequence[TranslationUnit], walk: Walk, files: Files, tick: Callable[[int], None]
) -> Facts:
    """Every unit's facts; ``tick`` is told how many are done."""
    facts = Facts(units, ArmTable(lambda path: not path.startswith("/")),
                  Observer(lambda path: files.get(path).data))
    for number, unit in enumerate(units):
        facts.add(number, walk(unit, False))
        tick(number + 1)
    return facts


def judged(
    facts: Facts, judge: Judge, walk: Walk, only: Callable[[Seen], bool] | None = None
) -> Iterable[tuple[Found, UnitReport]]:
    """The gates among the arms, each judged in one unit that shows it."""
    rows = [s for s in facts.table if (only is None or only(s)) and judge.worth_a_look(s)]
    for number, group in sorted(representatives(rows).items()):
        report = walk(facts.units[number], True)
        for seen in sorted(group, key=lambda s: (s.path, s.line)):
            for found in judge.judge(seen, report):
                yield found, report
