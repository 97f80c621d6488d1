"""What a macro's name can stand for, in all worlds at once.

A value is a macro, nothing, or a mixture of them by world. Equal values are
the same object (hash-consing), so that a memo is checked by identity.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from patcher.arch import ALL_BITS
from patcher.cuda.problems import MAX_DECIDERS
from patcher.cuda.tokens import SPACES, Tokens, tokenise


class Macro:
    """A macro's definition; ``parameters`` is None for an object-like one, ``spelled`` what
    stood between the parentheses."""

    __slots__ = ("_tokens", "body", "parameters", "spelled", "variadic")

    def __init__(self, parameters: tuple[str, ...] | None, variadic: bool, body: str,
                 spelled: str | None = None) -> None:
        self.parameters = parameters
        self.variadic = variadic
        self.body = body
        self.spelled = spelled
        self._tokens: Tokens | None = None

    @property
    def tokens(self) -> Tokens:
        """The body's tokens; most macros are never expanded by a condition."""
        if self._tokens is None:
            self._tokens = tokenise(self.body)
        return self._tokens


@dataclass(frozen=True, slots=True, eq=False)
class Open:
    """Nobody knows: the named macros or files would decide."""

    deciders: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Saved:
    """What ``#pragma push_macro`` saved, above what was saved before."""

    top: Value
    below: Value


class Visited:
    """The once-state of a file that was included."""

    __slots__ = ()


class Builtin:
    """A name that the preprocessor itself replaces, such as __LINE__ or __has_include."""

    __slots__ = ()


class Mixed:
    """Different values in different worlds: disjoint parts that hold every world."""

    __slots__ = ("defined", "open", "parts")

    def __init__(self, parts: tuple[tuple[int, Value], ...]) -> None:
        self.parts = parts
        self.open = sum(m for m, v in parts if isinstance(v, Open))
        self.defined = sum(m for m, v in parts if v is not None) & ~self.open


Value = Macro | Open | Saved | Visited | Builtin | Mixed | None
VISITED = Visited()
BUILTIN = Builtin()


def parts_of(value: Value) -> tuple[tuple[int, Value], ...]:
    return value.parts if isinstance(value, Mixed) else ((ALL_BITS, value),)


class Values:
    """Makes values, each once."""

    def __init__(self) -> None:
        self._macros: dict[tuple[str | None, str], Macro] = {}
        self._open: dict[tuple[str, ...], Open] = {}
        self._saved: dict[tuple[int, int], Saved] = {}
        self._mixed: dict[tuple[tuple[int, int], ...], Mixed] = {}

    def macro(self, parameters: str | None, body: str) -> Macro:
        """``parameters`` is the text between the parentheses, None when there are none."""
        found = self._macros.get((parameters, body))
        if found is None:
            found = self._macros[parameters, body] = self._define(parameters, body)
        return found

    @staticmethod
    def _define(parameters: str | None, body: str) -> Macro:
        if parameters is None:
            return Macro(None, False, body)
        names = [n.strip() for n in SPACES.sub(" ", parameters).split(",")]
        variadic = names[-1].endswith("...")
        if variadic:
            names[-1] = names[-1][:-3].strip() or "__VA_ARGS__"
        return Macro(tuple(names) if names != [""] else (), variadic, body, parameters)

    def open(self, deciders: Iterable[str]) -> Open:
        key = tuple(sorted(set(deciders))[:MAX_DECIDERS])
        found = self._open.get(key)
        if found is None:
            found = self._open[key] = Open(key)
        return found

    def saved(self, top: Value, below: Value) -> Saved:
        key = (id(top), id(below))
        found = self._saved.get(key)
        if found is None:
            found = self._saved[key] = Saved(top, below)
        return found

    def mix(self, parts: Iterable[tuple[int, Value]]) -> Value:
        """One value from disjoint parts that hold every world; equal ones are joined."""
        joined: dict[int, tuple[int, Value]] = {}
        for mask, value in parts:
            key = id(value)
            joined[key] = (mask | joined[key][0], value) if key in joined else (mask, value)
        if len(joined) == 1:
            return next(iter(joined.values()))[1]
        ordered = tuple(sorted(joined.values(), key=lambda part: part[0] & -part[0]))
        identity = tuple([(mask, id(value)) for mask, value in ordered])
        found = self._mixed.get(identity)
        if found is None:
            found = self._mixed[identity] = Mixed(ordered)
        return found

    def blend(self, new: Value, old: Value, worlds: int) -> Value:
        """``new`` in these worlds and ``old`` in the others."""
        if worlds == ALL_BITS or new is old:
            return new
        parts = [(m & worlds, v) for m, v in parts_of(new) if m & worlds]
        parts += [(m & ~worlds, v) for m, v in parts_of(old) if m & ~worlds]
        return self.mix(parts)

    def either(self, options: Iterable[tuple[int, Value]], deciders: tuple[str, ...]) -> Value:
        """The value after a fork: each option with the worlds for which it may be the one.

        Where several options that differ are possible the value is open.
        """
        settled: list[tuple[int, Value]] = []
        for worlds, value in options:
            for mask, part in parts_of(value):
                settled = self._add_option(settled, mask & worlds, part, deciders)
        return self.mix(settled)

    def _add_option(self, settled: list[tuple[int, Value]], worlds: int, value: Value,
                    deciders: tuple[str, ...]) -> list[tuple[int, Value]]:
        result: list[tuple[int, Value]] = []
        for mask, old in settled:
            both = mask & worlds
            if not both or old is value:
                result.append((mask, old))
                worlds &= ~both
                continue
            names = [*deciders]
            for side in (old, value):
                names += side.deciders if isinstance(side, Open) else ()
            result += [(mask & ~both, old)] if mask & ~both else []
            result.append((both, self.open(names)))
            worlds &= ~both
        return [*result, (worlds, value)] if worlds else result
