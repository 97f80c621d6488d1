"""Do the symbols one library asks for exist in those that should provide them?"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from patcher.binary.demangle import demangle
from patcher.binary.dynamic import Dynamic

# Mangled names that belong to torch and c10; others (CUDA, libc) are the loader's business.
TORCH_SYMBOL = re.compile(
    r"_Z(?:N[KVrO]*|T[VISv0-9]*N?|GV)?K?(?:3c10|2at|5torch|6caffe2)|aoti_torch_|torch_|c10_"
)


@dataclass(frozen=True, slots=True)
class MissingSymbol:
    """A strong reference nobody defines; ``nearest`` are demangled look-alikes, the nearest first.

    ``difference`` says in words how that one differs, "" when there is none.
    """

    symbol: str
    readable: str
    nearest: tuple[str, ...]
    difference: str


class Exports:
    """What some libraries export together, in an order that finds look-alikes at once."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)
        self._ordered = sorted(self.names)

    @classmethod
    def of(cls, providers: Iterable[Dynamic]) -> Exports:
        """The union of what these libraries define."""
        return cls(frozenset[str]().union(*(provider.defined for provider in providers)))

    def __bool__(self) -> bool:
        return bool(self.names)

    def beginning(self, prefix: str) -> Iterator[str]:
        """The names that begin so, sorted."""
        for index in range(bisect_left(self._ordered, prefix), len(self._ordered)):
            if not self._ordered[index].startswith(prefix):
                return
            yield self._ordered[index]


def missing_symbols(user: Dynamic, exports: Exports) -> list[MissingSymbol]:
    """Strong torch-like references of ``user`` that nothing exports."""
    lost = sorted(s for s in user.undefined - exports.names if TORCH_SYMBOL.match(s))
    return [explain(symbol, exports) for symbol in lost]


def explain(symbol: str, exports: Exports) -> MissingSymbol:
    """A missing symbol with its look-alikes among the provided ones: same name, other types."""
    readable = demangle(symbol)
    name, parameters = split_signature(readable)
    prefix = symbol[: min(24, len(symbol) // 2)]  # holds the name's start, not the parameters
    others = {}
    for candidate in exports.beginning(prefix):
        text = demangle(candidate)
        other, types = split_signature(text)
        if other == name and types != parameters:
            others[text] = types
    nearest = sorted(others, key=lambda text: (_distance(parameters, others[text]), text))
    difference = describe_difference(parameters, others[nearest[0]]) if nearest else ""
    return MissingSymbol(symbol, readable, tuple(nearest), difference)


def _distance(wanted: tuple[str, ...], provided: tuple[str, ...]) -> int:
    changed = sum(a != b for a, b in zip(wanted, provided, strict=False))
    return changed + abs(len(wanted) - len(provided))


def split_signature(readable: str) -> tuple[str, tuple[str, ...]]:
    """``f(int, char const*)`` as its qualified name and parameter types."""
    depth = 0
    start = -1
    for index, character in enumerate(readable):
        if character == "(" and depth == 0:
            if readable.startswith("(anonymous namespace)", index):
                continue
            start = index
            break
        depth += {"<": 1, ">": -1}.get(character, 0)
    if start < 0:
        return readable, ()
    inner = readable[start + 1: readable.rfind(")")]
    parts, depth, current = [], 0, ""
    for character in inner:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return readable[:start], tuple(p for p in (*parts, current.strip()) if p)


def describe_difference(expected: tuple[str, ...], provided: tuple[str, ...]) -> str:
    """Where two parameter lists part: ``parameter 1: int expected, unsigned int provided``."""
    for index, (want, have) in enumerate(zip(expected, provided, strict=False), 1):
        if want != have:
            return f"parameter {index}: {want} expected, {have} provided"
    if len(expected) == len(provided):
        return ""
    if len(provided) > len(expected):
        return f"one more parameter provided: {provided[len(expected)]}"
    return f"one less parameter provided: {expected[len(provided)]}"
