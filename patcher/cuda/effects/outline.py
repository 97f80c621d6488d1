"""Functions of a C++ file by matched braces: which one a line is in, and is it a kernel."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from patcher.cuda.effects.tokens import words

KERNEL_WORDS = frozenset({"__global__", "CUTLASS_GLOBAL"})
_TYPE_WORDS = frozenset({"class", "struct", "union", "enum"})
# Names with parentheses in front of a body that are not the function's own name.
_NOT_A_NAME = frozenset(
    {
        "__launch_bounds__", "__cluster_dims__", "__maxnreg__", "__attribute__", "__declspec",
        "__align__", "alignas", "decltype", "noexcept", "requires", "explicit", "throw",
        "__block_size__", "if", "for", "while", "switch", "catch",
    }
)
_AFTER_PARAMETERS = frozenset(
    {
        "const", "noexcept", "override", "final", "volatile", "mutable", "requires", "try", "->",
        ":", "&", "&&", "throw",
    }
)


@dataclass(frozen=True, slots=True)
class Function:
    """A function with a body; ``first`` and ``last`` are the byte offsets of its braces.

    ``head`` is where what stands in front of the body begins (a constructor's
    initialisers are there), ``scope`` the namespaces around it.
    """

    name: str
    kernel: bool
    first: int
    last: int
    head: int = 0
    scope: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outline:
    """The outermost functions in order. ``balanced`` is False when braces do not match."""

    functions: tuple[Function, ...]
    balanced: bool

    def around(self, offset: int) -> Function | None:
        """The function whose body holds this byte."""
        position = bisect_right([f.first for f in self.functions], offset) - 1
        if position < 0 or offset >= self.functions[position].last:
            return None
        return self.functions[position]


@dataclass(slots=True)
class _Open:
    """An opening bracket outside functions; a brace has a kind and perhaps a name."""

    text: bytes
    kind: str = ""
    name: str = ""


_BRACKET = re.compile(rb"[{}()\[\];]")
_BRACE = re.compile(rb"[{}]")
_PAIRS = {b")": b"(", b"]": b"[", b"}": b"{"}


@dataclass(slots=True)
class _Reader:
    bare: bytes
    stack: list[_Open] = field(default_factory=list)
    found: list[Function] = field(default_factory=list)
    balanced: bool = True
    head: int = 0  # where the text in front of the next brace begins

    def read(self) -> None:
        position = 0
        while match := _BRACKET.search(self.bare, position):
            position = self.meet(match.group(), match.start())
        self.balanced = self.balanced and not self.stack

    def meet(self, text: bytes, place: int) -> int:
        """Handle one bracket or semicolon; returns where to go on."""
        in_parentheses = bool(self.stack) and self.stack[-1].text != b"{"
        if text == b"{" and not in_parentheses:
            kind, name, kernel = _classify(words(self.bare[self.head : place]))
            if kind == "function":
                return self.function(name, kernel, place)
            self.head = place + 1
            self.stack.append(_Open(text, kind, name))
        elif text in b"{([":
            self.stack.append(_Open(text))
        elif text == b";":
            self.head = self.head if in_parentheses else place + 1
        else:
            self.close(text, place)
        return place + 1

    def function(self, name: str, kernel: bool, first: int) -> int:
        """Skip a body; returns the offset behind it."""
        depth = 0
        for match in _BRACE.finditer(self.bare, first):
            depth += 1 if match.group() == b"{" else -1
            if not depth:
                break
        else:
            self.balanced = False
            return len(self.bare)
        types = [o.name for o in self.stack if o.kind == "type" and o.name]
        spaces = tuple(o.name for o in self.stack if o.kind == "namespace")
        self.found.append(
            Function("::".join([*types, name]), kernel, first, match.start(), self.head, spaces)
        )
        self.head = match.end()
        return match.end()

    def close(self, text: bytes, place: int) -> None:
        while text == b"}" and self.stack and self.stack[-1].text != b"{":
            self.balanced = False
            self.stack.pop()
        if self.stack and self.stack[-1].text == _PAIRS[text]:
            self.stack.pop()
        else:
            self.balanced = False
        if text == b"}" and not (self.stack and self.stack[-1].text != b"{"):
            self.head = place + 1


def outline(bare: bytes) -> Outline:
    """Match braces over code without comments, literals and directives (``bare_code``)."""
    reader = _Reader(bare)
    reader.read()
    return Outline(tuple(reader.found), reader.balanced)


def _classify(head: list[str]) -> tuple[str, str, bool]:
    """Kind, name, and whether it is a kernel, of the brace that follows these tokens."""
    texts = _without_template(head)
    if "namespace" in texts:
        return "namespace", texts[-1], False
    if texts == ["extern"]:
        return "namespace", "", False
    name = _function_name(texts)
    if name is not None and texts[-1] != "=":
        return "function", name, not KERNEL_WORDS.isdisjoint(texts)
    for position, text in enumerate(texts):
        if text in _TYPE_WORDS and name is None:
            return "type", _type_name(texts[position + 1 :]), False
    return "", "", False


def _without_template(head: list[str]) -> list[str]:
    """Drop the leading ``template <...>`` clauses, whose defaults may hold parentheses."""
    rest = head
    while rest and rest[0] == "template":
        end = angle_end(rest, 1)
        if end == 1:
            break
        rest = rest[end:]
    return rest


def angle_end(texts: Sequence[str], position: int) -> int:
    """The index behind the ``<...>`` that begins at ``position``, itself when none does."""
    depth = inside = 0  # a comparison inside parentheses is no bracket
    for index in range(position, len(texts)):
        inside += (texts[index] == "(") - (texts[index] == ")")
        depth += {"<": 1, ">": -1, ">>": -2}.get(texts[index], 0) if not inside else 0
        if depth <= 0:
            return index + 1 if index > position else position
    return position


def _type_name(texts: list[str]) -> str:
    depth = 0
    for text in texts:
        depth += (text == "(") - (text == ")")
        if depth == 0 and (text[0].isalpha() or text[0] == "_") and text not in _NOT_A_NAME:
            return "" if text in ("class", "struct") else text
    return ""


def _function_name(texts: list[str]) -> str | None:
    """The name in front of the parameter list, None when this is no function's head."""
    depth = 0
    for position, text in enumerate(texts):
        if text == "(" and depth == 0 and position:
            end = _closing(texts, position)
            following = texts[end + 1] if end + 1 < len(texts) else ""
            if not following or following in _AFTER_PARAMETERS:
                name = _spelled(texts, position)
                if name and name not in _NOT_A_NAME:
                    return name
        depth += (text == "(") - (text == ")")
    return None


def _closing(texts: list[str], position: int) -> int:
    depth = 0
    for index in range(position, len(texts)):
        depth += (texts[index] == "(") - (texts[index] == ")")
        if depth == 0:
            return index
    return len(texts)


def _spelled(texts: list[str], position: int) -> str:
    """The function name that ends just before ``position``, "" when none does."""
    for back in (1, 2, 3):  # operator+, operator[], operator()
        if position - back >= 0 and texts[position - back] == "operator":
            return "" if back == 1 and texts[position + 1] == ")" else "".join(
                texts[position - back : position]
            )
    last = texts[position - 1]
    if not (last[0].isalpha() or last[0] == "_"):
        return ""
    return f"~{last}" if position >= 2 and texts[position - 2] == "~" else last
