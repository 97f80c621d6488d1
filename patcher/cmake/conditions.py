"""The arguments of ``if``: true, false, or None where the machine would decide."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from patcher.cmake.text import (
    compare_versions,
    is_false,
    is_true_constant,
    is_unknown,
    search,
    split_list,
)

Truth = bool | None
Matched = Callable[[list[str]], None]


@dataclass(frozen=True, slots=True)
class Operand:
    """An evaluated argument; only one without quotes can name a variable."""

    text: str
    plain: bool = True


@dataclass(frozen=True, slots=True)
class World:
    """What a condition asks its surroundings."""

    variable: Callable[[str], str | None]
    defined: Callable[[str], bool]
    command: Callable[[str], bool]
    target: Callable[[str], bool]
    exists: Callable[[str, bool], Truth]  # the path, and whether a folder is meant
    matched: Matched


_Compare = Callable[[Any, Any], bool]
_NUMBERS: dict[str, _Compare] = {
    "LESS": operator.lt, "GREATER": operator.gt, "EQUAL": operator.eq,
    "LESS_EQUAL": operator.le, "GREATER_EQUAL": operator.ge}
_UNARY = frozenset({"DEFINED", "EXISTS", "COMMAND", "TARGET", "POLICY", "TEST", "IS_DIRECTORY",
                    "IS_SYMLINK", "IS_ABSOLUTE", "IS_READABLE"})
_BINARY = frozenset({"MATCHES", "IN_LIST", "STREQUAL", "PATH_EQUAL", "IS_NEWER_THAN",
                     *_NUMBERS, *(f"STR{name}" for name in _NUMBERS),
                     *(f"VERSION_{name}" for name in _NUMBERS)})


def decide(operands: Sequence[Operand], world: World) -> Truth:
    """The whole condition. Raises ValueError where its form is not known."""
    return _Reader(list(operands), world).whole()


class _Reader:
    """Or of ands of nots of tests, with parentheses."""

    def __init__(self, operands: list[Operand], world: World) -> None:
        self.rest, self.world = operands, world

    def whole(self) -> Truth:
        result = self._or()
        if self.rest:
            raise ValueError(f"unexpected {self.rest[0].text}")
        return result

    def _next_is(self, *words: str) -> bool:
        return bool(self.rest) and self.rest[0].plain and self.rest[0].text in words

    def _or(self) -> Truth:
        result = self._and()
        while self._next_is("OR"):
            self.rest.pop(0)
            other = self._and()
            result = True if True in (result, other) else _both_known(result, other, False)
        return result

    def _and(self) -> Truth:
        result = self._not()
        while self._next_is("AND"):
            self.rest.pop(0)
            other = self._not()
            result = False if False in (result, other) else _both_known(result, other, True)
        return result

    def _not(self) -> Truth:
        if self._next_is("NOT"):
            self.rest.pop(0)
            inner = self._not()
            return None if inner is None else not inner
        return self._test()

    def _test(self) -> Truth:
        if not self.rest:
            return False
        if self._next_is("("):
            self.rest.pop(0)
            inner = self._or()
            if not self._next_is(")"):
                raise ValueError("a parenthesis is not closed")
            self.rest.pop(0)
            return inner
        first = self.rest.pop(0)
        if first.plain and first.text in _UNARY and self.rest:
            return self._unary(first.text, self.rest.pop(0).text)
        if len(self.rest) >= 2 and self.rest[0].plain and self.rest[0].text in _BINARY:
            test = self.rest.pop(0).text
            return self._binary(test, first, self.rest.pop(0))
        return self._value(first)

    def _value(self, operand: Operand) -> Truth:
        """A lone word: a constant, or a variable; quoted text is true only as a true constant."""
        text = operand.text
        if is_unknown(text):
            return None
        if is_true_constant(text):
            return True
        if is_false(text) or not operand.plain:
            return False
        value = self.world.variable(text)
        if value is None:
            return False
        return None if is_unknown(value) else not is_false(value)

    def _unary(self, test: str, text: str) -> Truth:
        if is_unknown(text):
            return None
        if test == "DEFINED":
            return self.world.defined(text)
        if test == "IS_ABSOLUTE":
            return text.startswith("/")
        if test == "COMMAND":
            return self.world.command(text)
        if test == "TARGET":
            return self.world.target(text)
        if test in ("EXISTS", "IS_DIRECTORY"):
            return self.world.exists(text, test == "IS_DIRECTORY")
        return True if test == "POLICY" else None

    def _text(self, operand: Operand) -> str:
        value = self.world.variable(operand.text) if operand.plain else None
        return operand.text if value is None else value

    def _binary(self, test: str, first: Operand, second: Operand) -> Truth:
        left, right = self._text(first), second.text
        if test == "IN_LIST":
            right = self.world.variable(second.text) or ""
        elif test != "MATCHES":
            right = self._text(second)
        if is_unknown(left) or is_unknown(right) or test == "IS_NEWER_THAN":
            return None
        if test == "MATCHES":
            return self._matches(left, right)
        if test == "IN_LIST":
            return left in split_list(right)
        if test.startswith("VERSION_"):
            order = compare_versions(left, right)
            return _NUMBERS[test.removeprefix("VERSION_")](order, 0)
        if test.startswith("STR"):
            return _NUMBERS[test.removeprefix("STR")](left, right)
        if test == "PATH_EQUAL":
            return left == right
        try:
            return _NUMBERS[test](float(left), float(right))
        except ValueError:
            return False

    def _matches(self, text: str, expression: str) -> Truth:
        try:
            match = search(expression, text)
        except ValueError:
            return None
        if match is None:
            self.world.matched([])
            return False
        self.world.matched([match[0], *(group or "" for group in match.groups())])
        return True


def _both_known(left: Truth, right: Truth, result: bool) -> Truth:
    return None if left is None or right is None else result
