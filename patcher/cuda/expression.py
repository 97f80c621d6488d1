"""The expression of an #if: a tree of small tuples, and its three-valued value.

A value is ``(number, is_unsigned)``, or a frozen set of names when nobody knows
it: the macros that would decide. The arithmetic is that of 64-bit intmax_t.
"""

from __future__ import annotations

import re
from typing import Any

from patcher.cuda.problems import MAX_NESTING, Malformed, TooComplex
from patcher.cuda.tokens import ALTERNATIVE, is_identifier

Node = tuple[Any, ...]
Value = tuple[int, bool] | frozenset[str]

_LEVELS = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="),
           ("<<", ">>"), ("+", "-"), ("*", "/", "%"))
_LEVEL = {op: level for level, ops in enumerate(_LEVELS) for op in ops}
_NUMBER = re.compile(r"(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|(0[0-7]*)|([1-9][0-9]*))"
                     r"(?i:(u?)(?:ll|l|z)?|(?:ll|l|z)(u))\Z")
_ESCAPES = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11, "e": 27, "0": 0}
_CHARACTER = re.compile(
    r"\\(?:x([0-9a-fA-F]+)|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))|([^\\])", re.S)
_WRAP = 1 << 64


class OpenToken(str):
    """An identifier in an expanded condition of which nobody knows the value."""

    __slots__ = ("deciders",)
    deciders: tuple[str, ...]

    @classmethod
    def of(cls, name: str, deciders: tuple[str, ...]) -> OpenToken:
        token = cls(name)
        token.deciders = deciders
        return token


class Parser:
    """Builds the tree. With ``keep_names`` identifiers, calls and ``defined`` stay symbolic."""

    def __init__(self, tokens: list[str], *, keep_names: bool = False) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._keep = keep_names

    def parse(self) -> Node:
        """The whole expression; raises Malformed or TooComplex."""
        node = self._comma()
        if self._at < len(self._tokens):
            raise Malformed(f"unexpected {self._tokens[self._at]!r}")
        return node

    def _peek(self) -> str:
        if self._at >= len(self._tokens):
            return ""
        token = self._tokens[self._at]
        return ALTERNATIVE.get(token, token)

    def _expect(self, token: str) -> None:
        if self._peek() != token:
            raise Malformed(f"missing {token!r}")
        self._at += 1

    @staticmethod
    def _bound(depth: int) -> None:
        """The tree is walked by recursion: whatever deepens it counts."""
        if depth > MAX_NESTING:
            raise TooComplex("the condition is nested too deep")

    def _comma(self) -> Node:
        parts = [self._ternary()]
        while self._peek() == ",":
            self._at += 1
            parts.append(self._ternary())
        return (",", parts) if len(parts) > 1 else parts[0]

    def _ternary(self) -> Node:
        self._depth += 1
        self._bound(self._depth)
        node = self._binary(0)
        if self._peek() == "?":
            self._at += 1
            yes = self._comma()
            self._expect(":")
            node = ("?:", node, yes, self._ternary())
        self._depth -= 1
        return node

    def _binary(self, minimum: int) -> Node:
        node = self._unary()
        while (level := _LEVEL.get(self._peek(), -1)) >= minimum:
            rest = []
            while _LEVEL.get(operator := self._peek()) == level:
                self._at += 1
                rest.append((operator, self._binary(level + 1)))
            node = ("chain", node, rest)
        return node

    def _unary(self) -> Node:
        operators = []
        while self._peek() in ("!", "-", "+", "~"):
            operators.append(self._peek())
            self._at += 1
        self._depth += len(operators)
        self._bound(self._depth)
        node = self._atom()
        self._depth -= len(operators)
        for operator in reversed(operators):
            node = (operator, node)
        return node

    def _atom(self) -> Node:
        token = self._peek()
        if not token:
            raise Malformed("an operand is missing")
        self._at += 1
        if token == "(":
            node = self._comma()
            self._expect(")")
            return node
        if isinstance(token, OpenToken):
            if self._peek() == "(":
                self._arguments()
            return ("open", frozenset(token.deciders))
        if token == "#" and not self._keep:
            return self._assertion()
        if token[-1] == "'":
            return ("number", *character(token))
        if token[0].isdigit() or token[0] == ".":
            return ("text", token) if self._keep else ("number", *number(token))
        if not is_identifier(token):
            raise Malformed(f"unexpected {token!r}")
        if self._keep:
            return self._symbol(token)
        return ("number", int(token == "true"), False)

    def _assertion(self) -> Node:
        """``#predicate(answer)``, an old extension of gcc: only the compiler asserts any. One
        that is malformed counts as not asserted."""
        predicate, *rest = self._tokens[self._at:] or [""]
        self._at = min(self._at + 1, len(self._tokens))
        if predicate and is_identifier(predicate) and rest[:1] == ["("]:
            self._at += rest.index(")") + 1 if ")" in rest else len(rest)
        known = predicate in ("cpu", "machine", "system")
        return ("open", frozenset([f"#{predicate}"])) if known else ("number", 0, False)

    def _symbol(self, name: str) -> Node:
        following = self._peek()
        if name == "defined" and following and is_identifier(following):
            self._at += 1
            return ("text", f"defined({following})")
        if following == "(":
            return ("text", name + "".join(self._arguments()))
        return ("text", name)

    def _arguments(self) -> list[str]:
        depth, start = 0, self._at
        while self._at < len(self._tokens):
            depth += {"(": 1, ")": -1}.get(self._tokens[self._at], 0)
            self._at += 1
            if not depth:
                return self._tokens[start : self._at]
        raise Malformed("missing ')'")


def number(token: str) -> tuple[int, bool]:
    """An integer's value and whether it is unsigned; raises Malformed."""
    match = _NUMBER.match(token.replace("'", ""))
    if not match:
        raise Malformed(f"{token!r} is not an integer")
    digits, base = next((d, b) for d, b in zip(match.groups(), (16, 2, 8, 10), strict=False) if d)
    value = int(digits, base) % _WRAP if len(digits) < 80 else _WRAP - 1
    return _fit(value, bool(match[5] or match[6]) or value >= _WRAP // 2)


def character(token: str) -> tuple[int, bool]:
    """A character constant's value as gcc computes it; raises Malformed."""
    prefix, body = token.split("'", 1)
    codes = [_code(match) for match in _CHARACTER.finditer(body[:-1])]
    if not codes:
        raise Malformed("an empty character constant")
    if prefix:
        return codes[-1] & 0xFFFFFFFF, prefix != "L"
    value = 0
    for code in codes:
        value = (value << 8 | code & 0xFF) & 0xFFFFFFFF
    bits = 8 if len(codes) == 1 else 32
    return value - (1 << bits) if value >> (bits - 1) & 1 else value, False


def _code(match: re.Match[str]) -> int:
    for group, base in ((1, 16), (2, 8), (3, 16), (4, 16)):
        if match[group]:
            return int(match[group], base)
    if match[5]:
        return _ESCAPES.get(match[5], ord(match[5]))
    return ord(match[6])


def _fit(value: int, unsigned: bool) -> tuple[int, bool]:
    value %= _WRAP
    return (value - _WRAP if not unsigned and value >= _WRAP // 2 else value), unsigned


def evaluate(node: Node) -> Value:
    """The tree's value; raises Malformed where a compiler reports an error."""
    kind = node[0]
    if kind == "number":
        return node[1], node[2]
    if kind == "open":
        names: frozenset[str] = node[1]
        return names
    if kind == "chain":
        return _chain(evaluate(node[1]), node[2])
    if kind == "?:":
        return _choose(node)
    if kind == ",":
        return [evaluate(part) for part in node[1]][-1]
    value = evaluate(node[1])
    if isinstance(value, frozenset):
        return value
    if kind == "!":
        return int(not value[0]), False
    return _fit({"-": -value[0], "~": ~value[0], "+": value[0]}[kind], value[1])


def _choose(node: Node) -> Value:
    test = evaluate(node[1])
    if isinstance(test, frozenset):
        yes, no = evaluate(node[2]), evaluate(node[3])
        if yes == no and not isinstance(yes, frozenset):
            return yes
        return test.union(*(side for side in (yes, no) if isinstance(side, frozenset)))
    chosen = evaluate(node[2] if test[0] else node[3])
    other = _signedness(node[3] if test[0] else node[2])
    return chosen if isinstance(chosen, frozenset) else _fit(chosen[0], chosen[1] or other)


def _signedness(node: Node) -> bool:
    """Whether the arm not taken is unsigned; its errors do not count."""
    try:
        value = evaluate(node)
    except Malformed:
        return False
    return not isinstance(value, frozenset) and value[1]


def _chain(left: Value, rest: list[tuple[str, Node]]) -> Value:
    for operator, node in rest:
        if operator in ("&&", "||"):
            left = _logical(left, operator == "||", node)
            continue
        right = evaluate(node)
        if isinstance(left, frozenset):
            left = left | right if isinstance(right, frozenset) else left
        elif isinstance(right, frozenset):
            left = right
        else:
            left = _arithmetic(operator, left, right)
    return left


def _logical(left: Value, is_or: bool, node: Node) -> Value:
    if not isinstance(left, frozenset) and bool(left[0]) == is_or:
        return int(is_or), False
    right = evaluate(node)
    if isinstance(right, frozenset):
        return left | right if isinstance(left, frozenset) else right
    if bool(right[0]) == is_or or not isinstance(left, frozenset):
        return int(bool(right[0])), False
    return left


def _arithmetic(operator: str, left: tuple[int, bool], right: tuple[int, bool]) -> Value:
    if operator in ("<<", ">>"):
        return _shift(left, right[0] if operator == "<<" else -right[0])
    unsigned = left[1] or right[1]
    a, b = (left[0] % _WRAP, right[0] % _WRAP) if unsigned else (left[0], right[0])
    if operator in _COMPARE:
        return int(_COMPARE[operator](a, b)), False
    if operator in "/%":
        if not b:
            return left  # an error in gcc, which goes on with the dividend
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return _fit(quotient if operator == "/" else a - b * quotient, unsigned)
    return _fit(_COMPUTE[operator](a, b), unsigned)


def _shift(left: tuple[int, bool], count: int) -> Value:
    value, unsigned = left
    if count >= 64:
        return 0, unsigned
    if count >= 0:
        return _fit(value << count, unsigned)
    return _fit(value >> min(-count, 64), unsigned)


_COMPARE = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    ">": lambda a, b: a > b, "<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b,
}
_COMPUTE = {
    "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "&": lambda a, b: a & b,
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
}
