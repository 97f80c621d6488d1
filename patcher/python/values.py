"""Abstract values: a plain Python value, or one value per target.

Every expression is evaluated for all known targets at once. A value that does
not depend on the architecture stays a plain Python object; one that does is a
``Varied`` with one cell per row of the target table. ``Unknown`` stands for
anything that cannot be known without running the program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from patcher.arch import ArchSet, Target, Truth, known_targets

Value = Any  # a plain Python object, Varied, Unknown, RAISED, or a definition of index.py
_ARCH_NAME = re.compile(r"(?:sm_?|compute_)?(\d{2,3}|\d{1,2}\.\d)([af]?)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value nobody can know here; ``names`` are what would decide it."""

    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class DeviceName(Unknown):
    """What the driver calls the device: one of ``spelled``, for anything but a search in it."""

    spelled: tuple[str, ...] = ()

    def holds(self, text: str) -> bool | Unknown:
        """Whether the name has this text; unknown where some names have it and others do not."""
        answers = {text in name for name in self.spelled}
        return answers.pop() if len(answers) == 1 else Unknown(self.names)


class Raised:
    """Control does not come out of this expression."""

    def __repr__(self) -> str:
        return "RAISED"


RAISED = Raised()
UNKNOWN = Unknown()


class DeviceArch(tuple[int, int]):
    """A device's capability whose spelling is open: a tuple that also compares with
    12, 120, 1200, "12.0", "sm_120a" and an architecture enumeration's members."""

    suffix: str

    def __new__(cls, major: int, minor: int, suffix: str = "") -> DeviceArch:
        made = super().__new__(cls, (major, minor))
        made.suffix = suffix
        return made

    @property
    def major(self) -> int:
        return self[0]

    @property
    def minor(self) -> int:
        return self[1]

    @property
    def number(self) -> int:
        return self[0] * 10 + self[1]

    def like(self, other: object) -> Value:
        """This device spelled as ``other`` is, or Unknown when that is no spelling of one."""
        if isinstance(other, ArchName):
            return ArchName((*self, self.suffix))
        if isinstance(other, tuple):
            return tuple(self)
        if isinstance(other, int) and not isinstance(other, bool):
            return self._like_number(other)
        if isinstance(other, str) and (match := _ARCH_NAME.match(other)):
            digits = match[1].replace(".", "")
            return other if digits == str(self.number) and match[2].lower() in ("", self.suffix) \
                else f"not {other}"
        return UNKNOWN

    def _like_number(self, other: int) -> Value:
        if 0 < other < 20:
            return self[0]
        if 50 <= other < 200:
            return self.number
        return self.number * 10 if 500 <= other < 2000 else UNKNOWN


class ArchName(tuple[int, int, str]):
    """A member of an architecture enumeration, such as ``Arch.sm_100a``."""

    @classmethod
    def parse(cls, name: str) -> ArchName | None:
        match = re.match(r"sm_(\d{2,3})([af]?)$", name)
        return cls((int(match[1]) // 10, int(match[1]) % 10, match[2])) if match else None


class Varied:
    """One value per known target, not all equal."""

    __slots__ = ("cells",)

    def __init__(self, cells: tuple[Value, ...]) -> None:
        self.cells = cells

    def __repr__(self) -> str:
        groups: dict[str, list[str]] = {}
        for target, cell in zip(known_targets(), self.cells, strict=True):
            groups.setdefault(repr(cell), []).append(target.name)
        return f"Varied({groups})"


def per_target(function: Callable[[Target], Value]) -> Value:
    """The value that ``function`` gives for every target."""
    return vary([function(target) for target in known_targets()])


def vary(cells: Sequence[Value]) -> Value:
    """A Varied, or the one value when all cells are the same."""
    first = cells[0]
    for cell in cells:
        if cell is not first and not same(cell, first):
            return Varied(tuple(cells))
    return first


def same(left: Value, right: Value) -> bool:
    """Equal in type and value (``True`` is not 1, a capability is not a tuple)."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, DeviceArch):
        return tuple(left) == tuple(right) and left.suffix == right.suffix
    return bool(left == right)


def lift(function: Callable[..., Value], *values: Value) -> Value:
    """Apply ``function`` to plain values, cell by cell where one varies."""
    for value in values:
        if type(value) is Varied:
            break
    else:
        return function(*values)
    count = len(known_targets())
    columns = [v.cells if type(v) is Varied else (v,) * count for v in values]
    return vary([function(*row) for row in zip(*columns, strict=True)])


def unknown_of(*values: Value) -> Unknown | None:
    """The union of the unknown ones, None when all are known."""
    found: Unknown | None = None
    for value in values:
        if isinstance(value, Unknown):
            found = value if found is None else Unknown(found.names | value.names)
    return found


def join(left: Value, right: Value) -> Value:
    """What is known when either of two values may be the one; a raise yields no value."""
    return lift(_join, left, right)


def _join(left: Value, right: Value) -> Value:
    if left is RAISED or same(left, right):
        return right
    if right is RAISED:
        return left
    for one, other in ((left, right), (right, left)):
        if isinstance(one, DeviceArch) and type(other) is not Unknown and one.like(other) == other:
            return other
    return unknown_of(left, right) or UNKNOWN


def choose(test: Value, body: Value, other: Value) -> Value:
    """``body if test else other`` per target; an unknown test joins the two."""
    def pick(decided: Value, yes: Value, no: Value) -> Value:
        if isinstance(decided, bool):
            return yes if decided else no
        if decided is RAISED:
            return RAISED
        joined = join(yes, no)
        return decided if joined is UNKNOWN else joined
    return lift(pick, test, body, other)


def truth_value(value: Value) -> Value:
    """``bool(value)`` where that is known."""
    return lift(_truth, value)


_PLAIN = (bool, int, float, str, bytes, tuple, list, frozenset, dict)


def _truth(value: Value) -> Value:
    if value is RAISED or isinstance(value, Unknown):
        return value
    if value is None or isinstance(value, _PLAIN):
        return bool(value)
    dotted = getattr(value, "dotted", None)
    return Unknown(frozenset({dotted})) if dotted else True


def truth_of(value: Value) -> Truth:
    """The value as a test, per target; what raises is never passed. The host is unknown."""
    true = false = 0
    cells = truth_value(value)
    for target in known_targets():
        cell = cells.cells[target.index] if type(cells) is Varied else cells
        if cell is True:
            true |= 1 << target.index
        elif cell is False or cell is RAISED:
            false |= 1 << target.index
    return Truth(ArchSet(true), ArchSet(false))


def names_of(value: Value) -> frozenset[str]:
    """What would decide the unknown cells of a value."""
    cells = value.cells if type(value) is Varied else (value,)
    found = unknown_of(*cells)
    return found.names if found else frozenset()
