"""Walk every unit once and keep what the layers need, in memory that does not grow with units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from patcher.arch import DEVICE, Target
from patcher.build import Observer
from patcher.cuda.model import Missing, Part, TranslationUnit, UnitReport
from patcher.scan.arms import ArmTable, Seen, members, representatives
from patcher.scan.files import Files
from patcher.scan.model import is_library
from patcher.scan.preprocessor import Found, Judge
from patcher.scan.stages import Table
from patcher.scan.watch import digest_of

if TYPE_CHECKING:
    from patcher.scan.known import Known

# The unit, and the files of which every arm is wanted, each inclusion for itself.
Walk = Callable[[TranslationUnit, frozenset[str]], UnitReport]
# Units by number, to the parts that they consist of and the numbers of those that have each.
Gather = Callable[[Iterable[tuple[int, TranslationUnit]]], Iterable[tuple[Part, int]]]


@dataclass
class Facts:
    """What all units together showed; sets of units are bits by number."""

    units: Sequence[TranslationUnit]
    table: ArmTable
    observer: Observer
    reached: dict[str, int] = field(default_factory=dict)  # package file -> units
    outside: dict[str, int] = field(default_factory=dict)  # likewise, of other files
    missing: dict[Missing, int] = field(default_factory=dict)
    warnings: dict[str, int] = field(default_factory=dict)
    _undecided: dict[int, tuple[int, tuple[Seen, ...]]] = field(default_factory=dict)

    @property
    def file_count(self) -> int:
        return len(self.reached) + len(self.outside)

    def add(self, part: Part, units: int) -> None:
        """Enter what some units have in common."""
        entered: list[tuple[dict[Any, int], Any]] = []
        if part.path:
            entered.append((self.outside if part.path.startswith("/") else self.reached, part.path))
        entered += [(self.missing, missing) for missing in part.missing]
        entered += [(self.warnings, warning) for warning in part.warnings]
        for table, key in entered:
            table[key] = table.get(key, 0) | units
        self.table.add(part.path, part.arms, units)

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
    units: Sequence[TranslationUnit], gather: Gather, files: Files, tick: Callable[[int], None],
    known: Known | None = None,
) -> Facts:
    """Every unit's facts; ``tick`` is told how many are done."""
    facts = Facts(units, ArmTable(lambda path: not path.startswith("/")),
                  Observer(lambda path: files.get(path).data))
    wanted = known.load(facts) if known else (1 << len(units)) - 1
    done = len(units) - wanted.bit_count()

    def numbered() -> Iterator[tuple[int, TranslationUnit]]:
        for walked, number in enumerate(members(wanted), 1):
            yield number, units[number]
            tick(done + walked)

    for part, having in gather(numbered()):
        facts.add(part, having)
    if known and wanted:
        known.save(facts)
    facts.observer.observe(units, {**facts.outside, **facts.reached})
    return facts


def judged(
    facts: Facts, judge: Judge, walk: Walk, kept: Table[tuple[Found, ...]], known: Known | None,
) -> Iterable[Found]:
    """The gates among the arms, each judged in one unit that shows it."""
    groups = representatives(s for s in facts.table if judge.worth_a_look(s))
    for number, group in sorted(groups.items()):
        rows = sorted(group, key=lambda s: (s.path, s.line))

        def anew(number: int = number, rows: Sequence[Seen] = rows) -> tuple[Found, ...]:
            report = walk(facts.units[number], frozenset(row.path for row in rows))
            return tuple(found for seen in rows for found in judge.judge(seen, report))

        closure = known.closure(facts, 1 << number) if known else ""
        made_from = digest_of([closure, *(repr(judge.question(row)) for row in rows)])
        yield from kept.of(str(number), made_from, anew)
