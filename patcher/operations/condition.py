"""A preprocessor condition as a tree over its text, fine enough to edit it minimally.

Only the boolean layer is parsed. A *leaf* is what stands between ``&&``, ``||``,
``!`` and boolean parentheses: a comparison, ``defined(X)``, a macro call. A leaf
that mentions architecture macros and nothing else is an *arch* leaf, one that
mentions none is an *atom* whose value this module leaves open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from patcher.edits import Span

ARCH_MACRO = re.compile(
    r"__CUDA_ARCH__$|__CUDA_ARCH_FEAT_SM\d+_ALL$|__CUDA_ARCH_SPECIFIC__$"
    r"|__CUDA_ARCH_FAMILY_SPECIFIC__$")
_TOKEN = re.compile(
    r"(?P<blank>(?:\s|\\\r?\n|/\*.*?\*/|//[^\n]*)+)|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<number>\d[\w']*)|(?P<op>&&|\|\||<<|>>|[<>=!]=|[-+*/%<>=!&|^~?:(),])", re.S)
_SPELLED = {"and": "&&", "or": "||", "not": "!", "not_eq": "!="}
_LIMIT = 250  # tokens; a longer condition is nobody's gate
_MAX_DEPTH = 40


class Kind(Enum):
    OR = "||"
    AND = "&&"
    NOT = "!"
    GROUP = "()"
    LEAF = "leaf"


@dataclass(frozen=True, slots=True)
class Node:
    """A part of the condition and where it stands in the text."""

    kind: Kind
    span: Span
    parts: tuple[Node, ...] = ()
    words: tuple[str, ...] = ()  # a leaf's identifiers, without ``defined``
    text: str = ""  # a leaf's tokens joined: equal leaves have equal text

    @property
    def is_arch(self) -> bool:
        return bool(self.words) and all(ARCH_MACRO.match(word) for word in self.words)

    @property
    def is_mixed(self) -> bool:
        return not self.is_arch and any(ARCH_MACRO.match(word) for word in self.words)

    def leaves(self, positive: bool = True) -> Iterator[tuple[Node, bool]]:
        """Every leaf, with False when it stands under an odd number of negations."""
        if self.kind is Kind.LEAF:
            yield self, positive
        for part in self.parts:
            yield from part.leaves(positive != (self.kind is Kind.NOT))

    def walk(self) -> Iterator[Node]:
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    span: Span


def parse(text: str) -> Node | None:
    """The tree of a condition; None when it is not a well-formed expression."""
    tokens = _tokens(text)
    if not tokens:
        return None
    parser = _Parser(tokens)
    node = parser.either()
    return node if node is not None and parser.at == len(tokens) else None


def on_one_line(text: str) -> str:
    """The condition without comments and continuations, for an evaluator."""
    return " ".join(token.text for token in _tokens(text) or ())


def _tokens(text: str) -> list[_Token] | None:
    found: list[_Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if not match or len(found) > _LIMIT:
            return None
        if match.lastgroup != "blank":
            found.append(_Token(_SPELLED.get(match[0], match[0]), Span(*match.span())))
        position = match.end()
    return found


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0

    def peek(self, offset: int = 0) -> str:
        place = self.at + offset
        return self.tokens[place].text if place < len(self.tokens) else ""

    def either(self) -> Node | None:
        return self._chain(Kind.OR, self.both)

    def both(self) -> Node | None:
        return self._chain(Kind.AND, self.unary)

    def _chain(self, kind: Kind, operand: object) -> Node | None:
        assert callable(operand)
        parts: list[Node] = []
        while True:
            part = operand()
            if part is None:
                return None
            parts.append(part)
            if self.peek() != kind.value:
                break
            self.at += 1
        if len(parts) == 1:
            return parts[0]
        return Node(kind, Span(parts[0].span.start, parts[-1].span.end), tuple(parts))

    def unary(self) -> Node | None:
        """One operand; None when it is nested too deep."""
        self.depth += 1
        node = self._unary() if self.depth <= _MAX_DEPTH else None
        self.depth -= 1
        return node

    def _unary(self) -> Node | None:
        start = self.at
        if self.peek() == "!":
            self.at += 1
            part = self.unary()
            if part is not None and self._at_end_of_operand():
                return Node(Kind.NOT, Span(self.tokens[start].span.start, part.span.end), (part,))
        elif self.peek() == "(" and self._closes_operand():
            self.at += 1
            part = self.either()
            if part is not None and self.peek() == ")":
                self.at += 1
                span = Span(self.tokens[start].span.start, self.tokens[self.at - 1].span.end)
                return Node(Kind.GROUP, span, (part,))
        self.at = start
        return self._leaf()

    def _at_end_of_operand(self) -> bool:
        return self.peek() in ("", ")", "&&", "||")

    def _closes_operand(self) -> bool:
        """True when the parenthesis here ends where an operand ends: it groups a condition."""
        depth = 0
        for place in range(self.at, len(self.tokens)):
            depth += {"(": 1, ")": -1}.get(self.tokens[place].text, 0)
            if depth == 0:
                behind = self.tokens[place + 1].text if place + 1 < len(self.tokens) else ""
                return behind in ("", ")", "&&", "||")
        return False

    def _leaf(self) -> Node | None:
        start, depth = self.at, 0
        while self.at < len(self.tokens):
            text = self.peek()
            if depth == 0 and text in ("&&", "||", ")"):
                break
            if text in ("?", ":"):
                return None  # a conditional expression is not a chain of gates
            depth += {"(": 1, ")": -1}.get(text, 0)
            self.at += 1
        taken = self.tokens[start:self.at]
        if not taken or depth:
            return None
        words = tuple(t.text for t in taken if re.match(r"[A-Za-z_]", t.text)
                      and t.text != "defined")
        plain = [t.text for t in taken if not (t.text in "()" and "defined" in
                                               [x.text for x in taken])]
        return Node(Kind.LEAF, Span(taken[0].span.start, taken[-1].span.end), (), words,
                    " ".join(plain))
