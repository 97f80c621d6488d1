"""Arms over all units: which states occurred, and in which units, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from patcher.arch import Target
from patcher.cuda.model import ArmKey, ArmState


@dataclass(frozen=True, slots=True)
class Seen:
    """An arm in one state, and the set of units (bits by number) where it has it."""

    path: str
    line: int
    state: ArmState
    units: int


@dataclass
class ArmTable:
    """Collects the arms of units; only arms of wanted paths are kept."""

    wanted: Callable[[str], bool]
    _states: dict[ArmKey, dict[ArmState, int]] = field(default_factory=dict)
    _seen: list[Seen] = field(default_factory=list)

    def add(self, path: str, arms: Iterable[tuple[ArmKey, ArmState]], units: int) -> None:
        """Enter a file's arms in one inclusion, with the units that have it."""
        if self.wanted(path):
            self._seen = []
            for key, state in arms:
                row = self._states.setdefault(key, {})
                row[state] = row.get(state, 0) | units

    def __iter__(self) -> Iterator[Seen]:
        if not self._seen:  # made once, when all units are in
            for (path, line), row in sorted(self._states.items(), key=lambda item: item[0]):
                # the state of the earliest unit first, however the rows came in
                for state, units in sorted(row.items(), key=lambda item: item[1] & -item[1]):
                    self._seen.append(Seen(path, line, state, units))
        return iter(self._seen)

    def rows(self) -> Iterator[tuple[ArmKey, dict[ArmState, int]]]:
        """Every arm with its states and their units."""
        yield from self._states.items()

    def enter(self, key: ArmKey, states: dict[ArmState, int]) -> None:
        """Put back an arm's states."""
        self._seen = []
        self._states[key] = states

    @property
    def arm_count(self) -> int:
        return len(self._states)


def may_exclude(state: ArmState, targets: Iterable[Target], references: Iterable[Target]) -> bool:
    """True when some target is closed and some reference passes, or may pass."""
    closed = any(state.closed >> target.index & 1 for target in targets)
    return closed and any(state.live >> reference.index & 1 for reference in references)


def representatives(rows: Iterable[Seen]) -> dict[int, list[Seen]]:
    """A few units that together show every row: unit number -> the rows to look at in it.

    Greedy: a row joins a unit that is already chosen where it can.
    """
    chosen: dict[int, list[Seen]] = {}
    mask = 0
    for row in sorted(rows, key=lambda r: (r.units.bit_count(), r.path, r.line)):
        common = row.units & mask or row.units
        number = (common & -common).bit_length() - 1
        mask |= 1 << number
        chosen.setdefault(number, []).append(row)
    return chosen


def members(units: int) -> Iterator[int]:
    """The numbers in a bit set, ascending."""
    while units:
        low = units & -units
        yield low.bit_length() - 1
        units ^= low
