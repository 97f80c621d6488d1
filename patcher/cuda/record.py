"""What one inclusion of a file did, so that it can be replayed instead of walked again."""

from __future__ import annotations

from dataclasses import dataclass, field

from patcher.cuda.includes import Found, Lookup, SearchPath
from patcher.cuda.model import ArmKey, ArmState, Context, Missing
from patcher.cuda.state import Table
from patcher.cuda.values import Value

REMEMBERED = 16  # records per file and mask

# line of the arm, and the worlds that are open, closed, unknown; the names that decide
ArmRow = tuple[int, int, int, int, tuple[str, ...]]


@dataclass(slots=True)
class Record:
    """Filled while the file is walked. ``ladders`` pairs the arms with whether any of their
    conditions tells worlds apart or is unknown; ``children`` are those of its includes."""

    path: str
    worlds: int
    maybe: int
    ladders: list[tuple[tuple[ArmRow, ...], bool]] = field(default_factory=list)
    children: list[Record] = field(default_factory=list)
    includes: list[str] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    lookups: list[tuple[Lookup, Found | None]] = field(default_factory=list)
    repeatable: bool = True
    lost: int = 0  # worlds that missed a header here or below
    telling: tuple[tuple[ArmKey, ArmState], ...] | None = None  # kept by the reporter
    context: Context | None = None  # likewise
    included: tuple[str, ...] | None = None  # likewise: each once
    headers: int | None = None  # those of this and all below, as bits that ``Doubt`` gave them
    names: tuple[str, ...] = ()  # of what was read before it was written here
    values: tuple[Value, ...] = ()  # and what these stood for
    writes: dict[str, Value] = field(default_factory=dict)
    _valid_in: dict[int, bool] = field(default_factory=dict)
    _below: list[Record] | None = None

    def holds_in(self, search: SearchPath) -> bool:
        """Whether every header looked for, below too, is found in the same place by ``search``."""
        key = id(search)
        known = self._valid_in.get(key)
        if known is None:
            known = all(search.find(lookup) == found for lookup, found in self.lookups)
            known = known and all(child.holds_in(search) for child in self.children)
            self._valid_in[key] = known
        return known

    def below(self) -> list[Record]:
        """This record and all below it, each once; for one that nothing is added to any more."""
        if self._below is not None:
            return self._below
        found = self._below = [self]
        seen = {id(self)}
        for record in found:  # grows while it is walked
            for child in record.children:
                if id(child) not in seen:
                    seen.add(id(child))
                    found.append(child)
        return found


class Memo:
    """Records by what they depend on besides macros.

    Over a ``base``, the memo of a tree that differs in the ``changed`` files alone, it also
    gives the base's records in which none of those has a part.
    """

    def __init__(self, base: Memo | None = None, changed: frozenset[str] = frozenset()) -> None:
        self._records: dict[object, list[Record]] = {}
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}  # records of a file share theirs
        self._latest: dict[str, dict[str, Value]] = {}  # what a file wrote; likewise
        self._base = base
        self._changed = changed
        self._holds: dict[int, tuple[Record, bool]] = {}  # the record is kept: its id stays its own
        self.hits = 0

    def find(self, key: object, table: Table, search: SearchPath) -> Record | None:
        """A record that may be replayed here."""
        found = self._search(key, table, search)
        if found is None and self._base is not None:
            found = self._base.find(key, table, search)
            if found is not None and self._holds_changed(found):
                return None
        return found

    def _holds_changed(self, record: Record) -> bool:
        known = self._holds.get(id(record))
        if known is None:
            answer = record.path in self._changed or any(
                self._holds_changed(child) for child in record.children)
            known = self._holds[id(record)] = record, answer
        return known[1]

    def _search(self, key: object, table: Table, search: SearchPath) -> Record | None:
        for record in self._records.get(key, ()):
            if record.lost & ~table.open_worlds:
                continue  # replaying it would not open the names that it opened
            if table.agrees(record.names, record.values) and record.holds_in(search):
                self.hits += 1
                return record
        return None

    def keep(self, key: object, record: Record) -> None:
        record.names = self._names.setdefault(record.names, record.names)
        latest = self._latest.setdefault(record.path, record.writes)
        if latest == record.writes:
            record.writes = latest
        else:
            self._latest[record.path] = record.writes
        records = self._records.setdefault(key, [])
        records.insert(0, record)
        del records[REMEMBERED:]
