"""The macro table of a walk, and the log of what was read and written.

The log is what makes the effect of a header repeatable: it holds for every
table in which the names it read stand for the same values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from operator import is_

from patcher.arch import ALL_BITS
from patcher.cuda.predefined import DATA
from patcher.cuda.values import Mixed, Open, Value, Values


@cache
def _compilers_own() -> re.Pattern[str]:
    """Only a compiler defines these. A header that is not there cannot, so that they stay
    undefined where an unknown header was included."""
    data = json.loads((DATA / "compilers_own.json").read_text("utf-8"))
    names = "|".join(rf"{name}\Z" for name in data["names"])
    but, prefixes = "|".join(data["except"]), "|".join(data["prefixes"])
    return re.compile(rf"[@%]|(?!{but})(?:{prefixes})|{names}")  # @ and % are the table's own


def not_the_compilers(names: Iterable[str]) -> frozenset[str]:
    """Those of some names that a header may define."""
    compilers = _compilers_own().match
    return frozenset([name for name in names if not compilers(name)])


class Table(dict[str, "Value"]):
    """Names to values. A name that is absent is undefined, except one that is in doubt:
    that is open in the worlds that included a missing header."""

    def __init__(self, base: Iterable[tuple[str, Value]], values: Values) -> None:
        super().__init__(base)
        self._values = values
        self._doubtful: frozenset[str] = frozenset()
        self.open_worlds = 0  # those that missed a header
        self._assumed: dict[str, Value] = {}

    def agrees(self, names: Iterable[str], values: Iterable[Value]) -> bool:
        """True when each name stands for the very value beside it."""
        return all(map(is_, map(self.__getitem__, names), values))

    def __missing__(self, name: str) -> Value:
        value = self[name] = self._absent(name) if self.open_worlds else None
        return value

    def _absent(self, name: str) -> Value:
        if name not in self._doubtful:
            return None
        value = self._values.blend(self._values.open((name,)), None, self.open_worlds)
        self._assumed[name] = value
        return value

    def doubt(self, names: frozenset[str]) -> None:
        """From now on a missing header opens these names."""
        self._doubtful = names

    def lose(self, worlds: int) -> None:
        """A header was missing in these worlds."""
        if not worlds & ~self.open_worlds:
            return
        self.open_worlds |= worlds
        if not self._doubtful:
            return
        assumed, self._assumed = self._assumed, {}
        for name in self.keys() & self._doubtful:
            value = self[name]
            if value is None or (name in assumed and assumed[name] is value):
                self[name] = self._absent(name)


class State:
    """The table, with what the current file read before writing it, and what it wrote; unless
    it is not ``noting``, because nobody will ask."""

    __slots__ = ("_values", "log", "noting", "reads", "table", "writes")

    def __init__(self, table: Table, values: Values) -> None:
        self.table = table
        self._values = values
        self.reads: dict[str, Value] = {}
        self.writes: dict[str, Value] = {}
        self.noting = True
        self.log: list[tuple[str, Value]] | None = None  # what to undo, inside a fork

    def read(self, name: str) -> Value:
        value = self.table[name]
        if name not in self.writes and name not in self.reads:
            self.reads[name] = value
        return value

    def note(self, names: Iterable[str], values: Iterable[Value]) -> None:
        """Something that was remembered has read these."""
        if not self.noting:
            return
        own, writes = self.reads, self.writes
        for name, value in zip(names, values, strict=True):
            if name not in writes and name not in own:
                own[name] = value

    def write(self, name: str, value: Value, worlds: int) -> None:
        if worlds != ALL_BITS:
            value = self._values.blend(value, self.read(name), worlds)
        self.store(name, value)

    def store(self, name: str, value: Value) -> None:
        if self.log is not None:
            self.log.append((name, self.read(name)))
        self.table[name] = value
        self.writes[name] = value

    def replay(self, writes: dict[str, Value]) -> None:
        if self.log is None:
            self.table.update(writes)
            if self.noting:
                self.writes.update(writes)
        else:
            for name, value in writes.items():
                self.store(name, value)


class Fork:
    """The arms of an #if that nobody can decide: each begins with the table before it."""

    def __init__(self, state: State, values: Values) -> None:
        self._state = state
        self._values = values
        self._owner = state.log is None
        if state.log is None:
            state.log = []
        self._mark = len(state.log)
        self._arms: list[tuple[int, dict[str, Value]]] = []
        self._base: dict[str, Value] = {}

    def end_arm(self, worlds: int) -> None:
        """Put the arm's writes aside and restore the table."""
        state = self._state
        assert state.log is not None
        entries = state.log[self._mark :]
        del state.log[self._mark :]
        written = {name: state.table[name] for name, _ in entries}
        for name, old in reversed(entries):
            state.table[name] = old
        for name in written:
            self._base.setdefault(name, state.table[name])
        self._arms.append((worlds, written))

    def merge(self, untouched: int, deciders: tuple[str, ...]) -> None:
        """``untouched`` are the worlds that may have taken no arm at all."""
        if self._owner:
            self._state.log = None
        rest = ALL_BITS & ~untouched
        for worlds, _ in self._arms:
            rest &= ~worlds
        for name, base in self._base.items():
            options = [(worlds, written.get(name, base)) for worlds, written in self._arms]
            options.append((untouched | rest, base))
            self._state.store(name, self._values.either(options, deciders))


def worlds_defined(value: Value) -> tuple[int, int, tuple[str, ...]]:
    """Where a value is defined and where undefined; and what would decide the rest."""
    if value is None:
        return 0, ALL_BITS, ()
    if isinstance(value, Open):
        return 0, 0, value.deciders
    if not isinstance(value, Mixed):
        return ALL_BITS, 0, ()
    names: tuple[str, ...] = ()
    for _, part in value.parts:
        names += part.deciders if isinstance(part, Open) else ()
    return value.defined, ALL_BITS & ~(value.defined | value.open), names
