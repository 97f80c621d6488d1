"""The values of the Python gate library: what to change, what matched, what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from patcher.arch import EMPTY, ArchSet, known_targets
from patcher.edits import Edit


class Kind(str, Enum):
    """The shape of a gate; it decides how an anchor is spelled (see ``GateSpec``)."""

    LIST_KEYWORD = "list-keyword"  # f(supported_major_versions=[9, 10])
    CONSTANT = "constant"  # SUPPORTED = (90, 100)
    DECORATOR = "decorator"  # @supported_compute_capability([100, 103])
    PREDICATE = "predicate"  # is_sm100_supported()
    COMPARISON = "comparison"  # major == 10
    RANGE = "range"  # 90 <= sm < 120
    MEMBERSHIP = "membership"  # major in [9, 10]
    DICT_KEY = "dict-key"  # SIZES = {9: ..., 10: ...}


class Status(str, Enum):
    """What came of a rewrite. Only REWRITTEN carries edits."""

    REWRITTEN = "rewritten"
    ALREADY = "already"  # every match already has the asked worlds
    NO_MATCH = "no-match"
    WRONG_COUNT = "wrong-count"  # matches that need the change differ from ``count``
    UNSUPPORTED = "unsupported"  # found, but this shape cannot express the change
    UNREADABLE = "unreadable"  # the file is not Python, or the gate cannot be evaluated


@dataclass(frozen=True, slots=True)
class GateSpec:
    """Which gate, and which worlds it shall let pass or stop.

    ``gate`` names the gate by kind: the keyword of a list keyword, the name of
    a decorator, of a predicate, of a constant or of a dict; for a comparison,
    a range or a membership the whole expression, compared after dropping white
    space, redundant parentheses, quote style and the order of ``and``/``or``
    operands. A predicate may also be named inside a longer expression: anchor
    ``is_sm100_supported`` finds every call (or property) of that name within.

    ``within`` is the enclosing function or class as ``Class.method``; a unique
    tail is enough. ``""`` means the whole file.
    ``value`` is the source text of the value for a new dict key; without it
    the value of the nearest lower key is repeated.
    """

    gate: str
    within: str = ""
    open: ArchSet = EMPTY
    close: ArchSet = EMPTY
    count: int = 1
    value: str | None = None


@dataclass(frozen=True, slots=True)
class GateMatch:
    """One gate that an anchor names. ``resolution`` is the finest partition of the
    device worlds that this gate can tell apart."""

    line: int
    kind: Kind
    worlds_before: ArchSet
    resolution: tuple[ArchSet, ...]
    text: str = ""
    within: str = ""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Edits against the source, and the gate's worlds before and after (per match).

    ``effective`` is the union of the cells that meet what was asked: larger
    than asked when the gate is coarser. The law is checked against it.
    """

    status: Status
    edits: tuple[Edit, ...] = ()
    before: tuple[ArchSet, ...] = ()
    after: tuple[ArchSet, ...] = ()
    effective: ArchSet = EMPTY
    kind: Kind | None = None
    matches: tuple[GateMatch, ...] = ()
    reason: str = ""


def effective(asked: ArchSet, resolution: tuple[ArchSet, ...]) -> ArchSet:
    """The cells of ``resolution`` that meet ``asked``, as one set."""
    bits = 0
    for cell in resolution:
        if (cell & asked).bits:
            bits |= cell.bits
    return ArchSet(bits)


def partition_by_major() -> tuple[ArchSet, ...]:
    """One cell per major number."""
    return _partition(lambda number: number // 10)


def partition_by_capability() -> tuple[ArchSet, ...]:
    """One cell per (major, minor); suffixes are not told apart."""
    return _partition(lambda number: number)


def _partition(key: object) -> tuple[ArchSet, ...]:
    cells: dict[int, int] = {}
    assert callable(key)
    for target in known_targets():
        name = key(target.number)
        cells[name] = cells.get(name, 0) | 1 << target.index
    return tuple(ArchSet(bits) for bits in cells.values())
