"""Turns the records of a walk into a report."""

from __future__ import annotations

from patcher.arch import ALL_BITS
from patcher.cuda.model import ArmKey, ArmState, Context, Missing, TranslationUnit, UnitReport
from patcher.cuda.record import ArmRow, Record


class Reporter:
    """Equal states are one object: a unit has thousands, and units share most of them."""

    def __init__(self) -> None:
        self._states: dict[ArmRow, ArmState] = {}

    def report(self, unit: TranslationUnit, root: Record, *, every: bool) -> UnitReport:
        records = root.below()
        arms: dict[ArmKey, tuple[ArmState, ...]] = {}
        includes: dict[str, tuple[str, ...]] = {}
        missing: dict[Missing, None] = {}
        warnings: dict[str, None] = {}
        for record in records:
            self._add_arms(record, arms, every)
            known = includes.get(record.path, ())
            if record.includes:
                includes[record.path] = tuple(dict.fromkeys((*known, *record.includes)))
            missing.update(dict.fromkeys(record.missing))
            warnings.update(dict.fromkeys(record.warnings))
        files = frozenset(record.path for record in records if record is not root)
        contexts = self._contexts(records, root) if every else {}
        return UnitReport(unit, arms, files, tuple(sorted(missing)), tuple(warnings), includes,
                          contexts)

    def _state(self, row: ArmRow) -> ArmState:
        key = (0, *row[1:])
        state = self._states.get(key)
        if state is None:
            _, opened, closed, unknown, names = row
            rest = ALL_BITS & ~(opened | closed | unknown)
            state = self._states[key] = ArmState(opened, closed, rest, unknown, names)
        return state

    def _add_arms(self, record: Record, arms: dict[ArmKey, tuple[ArmState, ...]],
                  every: bool) -> None:
        for rows, depends in record.ladders:
            if not (every or depends):
                continue
            for row in rows:
                key = (record.path, row[0])
                state = self._state(row)
                states = arms.get(key, ())
                if state not in states:
                    arms[key] = (*states, state)

    def _contexts(self, records: list[Record], root: Record) -> dict[str, tuple[Context, ...]]:
        found: dict[str, dict[tuple[object, ...], Context]] = {}
        for record in records:
            if record is root:
                continue
            arms = {row[0]: self._state(row) for rows, _ in record.ladders for row in rows}
            key = (record.worlds, record.maybe, tuple(sorted(arms.items(), key=_line)))
            found.setdefault(record.path, {}).setdefault(
                key, Context(record.path, record.worlds, record.maybe, arms))
        return {path: tuple(contexts.values()) for path, contexts in found.items()}


def _line(item: tuple[int, ArmState]) -> int:
    return item[0]
