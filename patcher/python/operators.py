"""Operators on single (not varied) values. Bounded: no result grows without limit."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from patcher.python.index import Class, External, Function, Module
from patcher.python.values import (
    RAISED,
    UNKNOWN,
    DeviceArch,
    DeviceName,
    Unknown,
    Value,
    truth_value,
    unknown_of,
)
from patcher.python.vocabulary import vocabulary

MAX_LENGTH = 4096
_MAX_INT = 1 << 64
_ORDER: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Div: operator.truediv,
    ast.BitOr: operator.or_, ast.BitAnd: operator.and_}


def opaque(*values: Value) -> Value:
    """RAISED or the Unknown that makes an operation on these unknown, else None."""
    found: Unknown | None = None
    for value in values:
        if value is RAISED:
            return RAISED
        kind = type(value)
        if kind is External:
            value, kind = Unknown(frozenset({value.dotted})), Unknown
        if kind is Unknown or kind is DeviceName:
            found = value if found is None else Unknown(found.names | value.names)
    return found


def compare(op: ast.cmpop, left: Value, right: Value) -> Value:
    """One comparison; Unknown where a foreign architecture numbering is meant."""
    if isinstance(op, (ast.In, ast.NotIn)):
        found = contains(right, left)
        return (not found) if isinstance(op, ast.NotIn) and isinstance(found, bool) else found
    if isinstance(op, (ast.Is, ast.IsNot)) or left is None or right is None:
        return _identity(op, left, right)
    if (blocked := opaque(left, right)) is not None:
        return blocked
    foreign = vocabulary().not_nvidia
    if _in(foreign, left) or _in(foreign, right):
        return UNKNOWN
    left, right = _respell(left, right)
    if unknown := unknown_of(left, right):
        return unknown
    try:
        return bool(_ORDER[type(op)](left, right))
    except TypeError:
        return UNKNOWN


def _in(group: frozenset[Any], value: Value) -> bool:
    if isinstance(value, (DeviceArch, bool)):
        return False
    return isinstance(value, (int, tuple)) and value in group


def _respell(left: Value, right: Value) -> tuple[Value, Value]:
    if isinstance(left, DeviceArch):
        spelled = left.like(right)
        return spelled, tuple(right) if isinstance(right, DeviceArch) else right
    if isinstance(right, DeviceArch):
        return left, right.like(left)
    return left, right


def _identity(op: ast.cmpop, left: Value, right: Value) -> Value:
    if not isinstance(op, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
        return RAISED
    positive = isinstance(op, (ast.Is, ast.Eq))
    if (blocked := opaque(left, right)) is not None:
        return blocked
    if left is None or right is None or isinstance(left, bool) or isinstance(right, bool):
        return (left is right) == positive
    return UNKNOWN


def contains(container: Value, item: Value) -> Value:
    """``item in container``, three-valued over unknown elements."""
    if isinstance(container, Table):
        container = container.keys
    if isinstance(container, DeviceName) and isinstance(item, str):
        return container.holds(item)
    if (blocked := opaque(container, item)) is not None:
        return blocked
    if isinstance(container, str):
        return item in container if isinstance(item, str) else RAISED
    if not isinstance(container, (tuple, list, set, frozenset, range)):
        return UNKNOWN
    answers = [compare(ast.Eq(), item, element) for element in container]
    if any(answer is True for answer in answers):
        return True
    return unknown_of(*answers) or False


def arithmetic(op: ast.operator, left: Value, right: Value) -> Value:
    if (blocked := opaque(left, right)) is not None:
        return blocked
    left, right = (v.number if isinstance(v, DeviceArch) and isinstance(o, int) else v
                   for v, o in ((left, right), (right, left)))
    sizes = [len(v) if isinstance(v, (str, tuple, list)) else 0 for v in (left, right)]
    growing = isinstance(op, (ast.Mult, ast.Mod)) and any(
        isinstance(v, (str, tuple, list)) for v in (left, right))
    if type(op) not in _ARITHMETIC or sum(sizes) > MAX_LENGTH or growing:
        return UNKNOWN
    try:
        result = _ARITHMETIC[type(op)](left, right)
    except (TypeError, ZeroDivisionError, OverflowError):
        return UNKNOWN
    return UNKNOWN if isinstance(result, int) and abs(result) > _MAX_INT else result


def negate(value: Value) -> Value:
    """``not value``."""
    if value is RAISED or isinstance(value, Unknown):
        return value
    return not value


def minus(value: Value) -> Value:
    blocked = opaque(value)
    if blocked is not None:
        return blocked
    return -value if isinstance(value, (int, float)) else UNKNOWN


def both(left: Value, right: Value, *, conjunction: bool) -> Value:
    """``left and right`` (or ``or``): Kleene on the truth, Python's on the value."""
    decided = truth_value(left)
    if decided is RAISED:
        return RAISED
    if isinstance(decided, Unknown):
        other = truth_value(right)
        if isinstance(other, bool) and other is not conjunction:
            return other
        return unknown_of(decided, other) or decided
    return right if bool(decided) is conjunction else left


class Table:
    """A dict display: keys known at once, values evaluated when they are asked for."""

    def __init__(self, keys: tuple[Value, ...], values: tuple[Callable[[], Value], ...]) -> None:
        self.keys = keys
        self._values = values

    def get(self, key: Value, default: Value) -> Value:
        """The value for a key; ``default`` when it is missing."""
        unknown: Unknown | None = None
        for known, value in zip(self.keys, self._values, strict=True):
            answer = compare(ast.Eq(), key, known) if type(key) is not type(known) \
                or isinstance(key, DeviceArch) else key == known
            if answer is True:
                return value()
            unknown = unknown or (answer if isinstance(answer, Unknown) else None)
        return unknown or default


def subscript(container: Value, key: Value) -> Value:
    """``container[key]``; a missing key raises."""
    if (blocked := opaque(container, key)) is not None:
        return blocked
    if isinstance(container, Table):
        return container.get(key, RAISED)
    if isinstance(container, (str, tuple, list)) and isinstance(key, (int, slice)):
        try:
            return container[key]
        except (IndexError, TypeError, ValueError):
            return RAISED
    return UNKNOWN


def is_definition(value: Value) -> bool:
    return isinstance(value, (Function, Class, Module))
