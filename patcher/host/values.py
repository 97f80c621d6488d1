"""Which C++ names hold the device's capability, and what an expression of them is.

A value is what a name is on each target: an integer per target index, None
where it cannot be known. ``Values`` covers one function's body.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from patcher.arch import Target, known_targets
from patcher.cuda.effects.tokens import Token

Value = tuple["int | None", ...]  # one entry per target, in table order


@cache
def vocabulary() -> Mapping[str, object]:
    """The names of ``host.json``."""
    data: Mapping[str, object] = json.loads(
        (Path(__file__).parents[1] / "data" / "host.json").read_text("utf-8")
    )
    return data


@cache
def words(key: str) -> frozenset[str]:
    """One list of names of the vocabulary (or the keys of a table)."""
    entries = vocabulary()[key]
    assert isinstance(entries, list | dict)
    return frozenset(entries)


def table(key: str) -> Mapping[str, str]:
    """One table of the vocabulary."""
    entries = vocabulary()[key]
    assert isinstance(entries, dict)
    return entries


def _each(part: str) -> Value:
    def of(target: Target) -> int:
        number = target.number
        return {"major": number // 10, "minor": number % 10}.get(part, number)

    return tuple(of(target) for target in known_targets())


@dataclass
class Values:
    """Names with known values, and tuples of two (major, minor)."""

    single: dict[str, Value] = field(default_factory=dict)
    pairs: set[str] = field(default_factory=set)  # .first / std::get<0> is the major number
    properties: set[str] = field(default_factory=set)  # .major and .minor
    constants: Mapping[str, int] = field(default_factory=dict)
    calls: dict[str, Value] = field(default_factory=dict)  # what functions and lambdas return

    @property
    def names(self) -> frozenset[str]:
        """Every name of which something is known."""
        return frozenset().union(self.single, self.pairs, self.properties, self.calls)

    def local(self) -> Values:
        """A copy for one function: what it learns stays there."""
        return Values(dict(self.single), constants=self.constants, calls=dict(self.calls))

    def learn(self, body: Sequence[Token]) -> None:
        """Read assignments and attribute queries of a function's body, in order."""
        texts = [token.text for token in body]
        for position, text in enumerate(texts):
            if text in words("attributes"):
                self._attribute(texts, position)
            elif text in words("number") and _called(texts, position):
                self._assigned(texts, position, _each("number"))
            elif text in words("pair") and _called(texts, position):
                self._pair(texts, position)
            elif text in words("properties"):
                self._property(texts, position)
            elif text == "make_tuple" and texts[position + 1 : position + 2] == ["("]:
                self._tuple(texts, position)
        self._derive(texts)
        for position, text in enumerate(texts):
            if text == "[" and texts[position - 1 : position] == ["="]:
                self._lambda(texts, position)
        self._derive(texts)

    def _lambda(self, texts: Sequence[str], position: int) -> None:
        """auto name = [..](..) { ...; return expression; } and the same with () behind it"""
        start = position
        while start < len(texts) and texts[start] not in ("{", ";"):
            start += 1
        depth = 0
        for end in range(start, len(texts)):
            depth += (texts[end] == "{") - (texts[end] == "}")
            if depth == 0:
                break
        else:
            return
        body = texts[start:end]
        if body.count("return") != 1 or ";" not in body[body.index("return"):]:
            return
        back = body.index("return")
        value = evaluate(body[back + 1 : body.index(";", back)], self)
        if value is not None and None not in value and len(set(value)) > 1:
            kept = self.single if _called(texts, end) else self.calls
            kept.setdefault(texts[position - 2], value)

    def _attribute(self, texts: Sequence[str], position: int) -> None:
        """cudaDeviceGetAttribute(&name, attribute, ...)"""
        if position >= 3 and texts[position - 1] == "," and texts[position - 3] == "&":
            self.single[texts[position - 2]] = _each(table("attributes")[texts[position]])

    def _assigned(self, texts: Sequence[str], position: int, value: Value) -> None:
        """name = ns::f() or a constructor's name(ns::f())"""
        start = position
        while start >= 2 and texts[start - 1] == "::":
            start -= 2
        if start >= 2 and texts[start - 1] in ("=", "(") and _is_name(texts[start - 2]):
            self.single.setdefault(texts[start - 2], value)

    def _pair(self, texts: Sequence[str], position: int) -> None:
        start = position
        while start >= 2 and texts[start - 1] == "::":
            start -= 2
        after = texts[position + 3 : position + 5]  # behind "()"
        if after[:1] == ["."] and after[1:] in (["first"], ["second"]):
            part = "major" if after[1] == "first" else "minor"
            self._assigned(texts, position, _each(part))
        elif start >= 2 and texts[start - 1] == "=":
            bound = start >= 6 and texts[start - 2] == "]" and texts[start - 6] == "["
            if bound or texts[max(0, start - 7) : start - 5] == ["tie", "("]:
                self.single[texts[start - 5]] = _each("major")
                self.single[texts[start - 3]] = _each("minor")
            else:
                self.pairs.add(texts[start - 2])

    def _property(self, texts: Sequence[str], position: int) -> None:
        """cudaDeviceProp name; or get...(&name, ...) or auto name = get...()"""
        following = texts[position + 1 : position + 3]
        if following and _is_name(following[0]):
            self.properties.add(following[0])
        elif following == ["(", "&"] and position + 3 < len(texts):
            self.properties.add(texts[position + 3])
        elif position >= 2 and "=" in texts[max(0, position - 6) : position]:
            equals = max(i for i in range(max(0, position - 6), position) if texts[i] == "=")
            self.properties.add(texts[equals - 1])

    def _tuple(self, texts: Sequence[str], position: int) -> None:
        """auto name = [..] { ...; return std::make_tuple(major, minor); }()"""
        arguments = texts[position + 2 : position + 6]
        if len(arguments) < 4 or arguments[1] != "," or arguments[3] != ")":
            return
        if (self.single.get(arguments[0]), self.single.get(arguments[2])) != (
            _each("major"), _each("minor")
        ):
            return
        for back in range(position, 1, -1):
            if texts[back] == "[" and texts[back - 1] == "=":
                self.pairs.add(texts[back - 2])
                return

    def _derive(self, texts: Sequence[str]) -> None:
        """name = expression of known values, up to the semicolon."""
        for position, text in enumerate(texts):
            if text == "=" and position and texts[position - 1] not in self.single:
                end = position + 1
                while end < len(texts) and texts[end] not in (";", "{", "?"):
                    end += 1
                known = [t for t in texts[position + 1 : end] if t in self.single]
                if known and end < len(texts) and texts[end] == ";":
                    value = evaluate(texts[position + 1 : end], self)
                    if value is not None and None not in value:
                        self.single[texts[position - 1]] = value


def _called(texts: Sequence[str], position: int) -> bool:
    return texts[position + 1 : position + 3] == ["(", ")"]


def _is_name(text: str) -> bool:
    return bool(re.match(r"[A-Za-z_]\w*$", text))


_BINDING = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4,
            "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}
_UNKNOWN: Value = (None,) * len(known_targets())


class _Unreadable(Exception):
    pass


def evaluate(texts: Sequence[str], values: Values) -> Value | None:
    """The value per target of an expression, None when it is none we can read."""
    reader = _Parser(list(texts), values)
    try:
        value = reader.expression(0)
    except (_Unreadable, IndexError):
        return None
    return value if reader.position == len(reader.texts) else None


class _Parser:
    """Precedence climbing over token texts; what is not known stays unknown."""

    def __init__(self, texts: list[str], values: Values) -> None:
        self.texts, self.values, self.position = texts, values, 0

    def peek(self) -> str:
        return self.texts[self.position] if self.position < len(self.texts) else ""

    def expression(self, binding: int) -> Value:
        left = self.unary()
        while (rank := _BINDING.get(self.peek(), 0)) > binding:
            operator = self.peek()
            self.position += 1
            right = self.expression(rank)
            left = tuple(_apply(operator, a, b) for a, b in zip(left, right, strict=True))
        return left

    def unary(self) -> Value:
        text = self.peek()
        if text == "!":
            self.position += 1
            return tuple(None if v is None else int(not v) for v in self.unary())
        if text == "(":
            self.position += 1
            value = self.expression(0)
            if self.peek() != ")":
                raise _Unreadable
            self.position += 1
            return value
        return self.primary()

    def primary(self) -> Value:
        start = self.position
        if not self.peek():
            raise _Unreadable
        self._skip_chain()
        chain = self.texts[start : self.position]
        return self._value(chain)

    def _skip_chain(self) -> None:
        """A name with its qualifiers, members, calls and template arguments."""
        self.position += 1
        while self.peek() in ("::", ".", "->", "(", "[") or (
            self.peek() == "<" and self.texts[self.position - 1] in ("get", "static_cast")
        ):
            closer = {"(": ")", "[": "]", "<": ">"}.get(self.peek())
            if closer is None:
                self.position += 2
                continue
            depth, opener = 0, self.peek()
            while self.position < len(self.texts):
                depth += (self.peek() == opener) - (self.peek() == closer)
                self.position += 1
                if depth == 0:
                    break

    def _value(self, chain: list[str]) -> Value:
        values = self.values
        if len(chain) == 1 and re.match(r"\d+[uUlL]*$", chain[0]):
            return (int(chain[0].rstrip("uUlL")),) * len(known_targets())
        name = chain[-1]
        if len(chain) >= 3 and chain[-2] in (".", "->"):
            if chain[-3] in values.pairs and name in ("first", "second"):
                return _each("major" if name == "first" else "minor")
            if chain[-3] in values.properties and name in ("major", "minor"):
                return _each(name)
        if "get" in chain and chain[-1] == ")" and chain[-2] in values.pairs:
            index = chain[chain.index("get") + 2]
            return _each("major" if index == "0" else "minor")
        if chain[-2:] == ["(", ")"] and chain[-3] in words("number"):
            return _each("number")
        if "(" in chain[1:] and chain[-1] == ")" and (
            known := values.calls.get(chain[chain.index("(") - 1])
        ):
            return known
        if chain[:2] == ["this", "->"]:
            chain = chain[2:]
        if len(chain) == 1 and name in values.single:
            return values.single[name]
        if name in values.constants:
            return (values.constants[name],) * len(known_targets())
        return _UNKNOWN


def _apply(operator: str, left: int | None, right: int | None) -> int | None:
    if operator == "&&" and (left == 0 or right == 0):
        return 0
    if operator == "||" and (left or right):
        return 1
    if left is None or right is None or (operator in "/%" and right == 0):
        return None
    results = {
        "&&": int(bool(left and right)), "||": int(bool(left or right)),
        "==": int(left == right), "!=": int(left != right), "<": int(left < right),
        "<=": int(left <= right), ">": int(left > right), ">=": int(left >= right),
        "+": left + right, "-": left - right, "*": left * right,
    }
    if operator in results:
        return results[operator]
    return left // right if operator == "/" else left % right
