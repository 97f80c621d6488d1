"""Turns the records of a walk into a report."""

from __future__ import annotations

from patcher.arch import ALL_BITS
from patcher.cuda.model import ArmKey, ArmState, Context, Missing, Part, TranslationUnit, UnitReport
from patcher.cuda.record import ArmRow, Record


class Reporter:
    """Equal states are one object: a unit has thousands, and units share most of them."""

    def __init__(self) -> None:
        self._states: dict[tuple[int, int, int, tuple[str, ...]], ArmState] = {}
        self._keys: dict[ArmKey, ArmKey] = {}

    def report(self, unit: TranslationUnit, root: Record, *, every: bool,
               only: frozenset[str] | None = None) -> UnitReport:
        """The report on a walk's records. With ``every``, contexts and all ladders; of the
        files in ``only``, if that is given."""
        records = root.below()
        wanted = records if only is None else [r for r in records if r.path in only]
        arms: dict[ArmKey, tuple[ArmState, ...]] = {}
        includes: dict[str, tuple[str, ...]] = {}
        missing: dict[Missing, None] = {}
        warnings: dict[str, None] = {}
        for record in wanted:
            for key, state in self._all_arms(record) if every else self._telling_arms(record):
                states = arms.get(key)
                if states is None:
                    arms[key] = (state,)
                elif state not in states:
                    arms[key] = (*states, state)
        for record in records:
            if record.includes:
                known = includes.get(record.path)
                includes[record.path] = _distinct(record) if known is None else tuple(
                    dict.fromkeys((*known, *record.includes)))
            if record.missing:
                missing.update(dict.fromkeys(record.missing))
            if record.warnings:
                warnings.update(dict.fromkeys(record.warnings))
        files = frozenset([record.path for record in records if record is not root])
        contexts = self._contexts(wanted, root) if every else {}
        return UnitReport(unit, arms, files, tuple(sorted(missing)), tuple(warnings), includes,
                          contexts)

    def part(self, record: Record) -> Part:
        """A record alone."""
        return Part(record.path, self._telling_arms(record), record.missing, record.warnings)

    def _state(self, row: ArmRow) -> ArmState:
        key = row[1:]
        state = self._states.get(key)
        if state is None:
            opened, closed, unknown, names = key
            rest = ALL_BITS & ~(opened | closed | unknown)
            state = self._states[key] = ArmState(opened, closed, rest, unknown, names)
        return state

    def _telling_arms(self, record: Record) -> tuple[tuple[ArmKey, ArmState], ...]:
        """The arms of ladders that tell worlds apart or are unknown, found once per record."""
        if record.telling is None:
            record.telling = tuple([
                (self._keys.setdefault(key, key), self._state(row))
                for rows, depends in record.ladders if depends
                for row in rows for key in [(record.path, row[0])]])
        return record.telling

    def _context(self, record: Record) -> Context:
        """The record as a context, made once."""
        if record.context is None:
            arms = {row[0]: self._state(row) for rows, _ in record.ladders for row in rows}
            record.context = Context(record.path, record.worlds, record.maybe, arms)
        return record.context

    def _all_arms(self, record: Record) -> list[tuple[ArmKey, ArmState]]:
        path = record.path
        return [((path, line), state) for line, state in self._context(record).arms.items()]

    def _contexts(self, records: list[Record], root: Record) -> dict[str, tuple[Context, ...]]:
        found: dict[str, tuple[Context, ...]] = {}
        for record in records:
            if record is root:
                continue
            known = found.get(record.path, ())
            context = self._context(record)
            if context not in known:
                found[record.path] = (*known, context)
        return found


def _distinct(record: Record) -> tuple[str, ...]:
    """What a record's file includes, each once; made once."""
    if record.included is None:
        record.included = tuple(dict.fromkeys(record.includes))
    return record.included
