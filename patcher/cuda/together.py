"""The records of many units, each with the set of units (bits by number) it is part of.

Units share most of their records, thousands each: what is above them all is added to unit
by unit, the rest is told once, at the end.
"""

from __future__ import annotations

from collections.abc import Iterator

from patcher.cuda.record import Record


class Together:
    """Collects the roots of walks."""

    def __init__(self) -> None:
        self._records: list[Record] = []  # in the order of first sight, breadth first in a unit
        self._units: dict[int, int] = {}  # by the record's id; those of its includers come later

    def add(self, root: Record, units: int) -> None:
        """Enter the walk of these units, of which none was entered before."""
        known = self._units
        fresh = [root]
        for record in fresh:  # grows while it is walked
            if id(record) in known:
                known[id(record)] |= units
                continue
            known[id(record)] = units
            self._records.append(record)
            fresh += record.children

    def __iter__(self) -> Iterator[tuple[Record, int]]:
        """Each record once, in the order of first sight, with its units."""
        units = dict(self._units)
        for record in reversed(self._below_first()):
            own = units[id(record)]
            for child in record.children:
                units[id(child)] |= own
        for record in self._records:
            yield record, units[id(record)]

    def _below_first(self) -> list[Record]:
        """The records, each behind all that are below it."""
        ordered: list[Record] = []
        seen: set[int] = set()

        def visit(record: Record) -> None:
            seen.add(id(record))
            for child in record.children:
                if id(child) not in seen:
                    visit(child)
            ordered.append(record)

        for record in self._records:
            if id(record) not in seen:
                visit(record)
        return ordered
