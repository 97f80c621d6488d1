"""Directives inside a function: what its code is when one arm or another is compiled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from patcher.cuda.effects.tokens import Kind, Token

_MOST = 4  # arms of one ladder that are tried
_DIRECTIVE = re.compile(r"#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Variant:
    """The tokens that are left when every ladder takes the same turn."""

    tokens: tuple[Token, ...]


@dataclass(slots=True)
class _Ladder:
    arms: int = 1
    has_else: bool = False
    number: int = 0


@dataclass(slots=True)
class _Reader:
    ladders: list[_Ladder] = field(default_factory=list)
    stack: list[tuple[_Ladder, int]] = field(default_factory=list)
    rows: list[tuple[Token, tuple[tuple[_Ladder, int], ...]]] = field(default_factory=list)

    def read(self, stream: Iterable[Token]) -> None:
        for token in stream:
            if token.kind is not Kind.DIRECTIVE:
                self.rows.append((token, tuple(self.stack)))
            elif match := _DIRECTIVE.match(token.text):
                self._directive(match[1])

    def _directive(self, word: str) -> None:
        if word in ("if", "ifdef", "ifndef"):
            self.ladders.append(_Ladder(number=len(self.ladders)))
            self.stack.append((self.ladders[-1], 0))
        elif self.stack:
            ladder, arm = self.stack.pop()
            if word != "endif":
                ladder.arms += 1
                ladder.has_else |= word == "else"
                self.stack.append((ladder, arm + 1))


def variants(stream: Iterable[Token]) -> list[Variant]:
    """The code with first arms, with second arms, ..., and with ``#else`` arms or none."""
    reader = _Reader()
    reader.read(stream)
    turns = min(_MOST, max((ladder.arms for ladder in reader.ladders), default=0))
    if not turns:
        return [Variant(tuple(token for token, _ in reader.rows))]
    found = [Variant(tuple(token for token, around in reader.rows
                           if all(arm == _taken(ladder, turn) for ladder, arm in around)))
             for turn in range(turns + 1)]
    return list(dict.fromkeys(found))


def _taken(ladder: _Ladder, turn: int) -> int:
    """The arm that a turn takes; one behind the last where there is no ``#else``."""
    if turn < ladder.arms:
        return turn
    return ladder.arms - 1 if ladder.has_else else ladder.arms


def first_arms(code: bytes) -> bytes:
    """The code with every arm but the first of a ladder blanked; offsets and lines stay."""
    stack: list[bool] = []
    lines = code.split(b"\n")
    for number, line in enumerate(lines):
        match = _DIRECTIVE.match(line.strip().decode("latin-1"))
        word = match[1] if match else ""
        if word in ("if", "ifdef", "ifndef"):
            stack.append(True)
        elif word == "endif":
            del stack[-1:]
        elif word and stack:
            stack[-1] = False
        elif not all(stack):
            lines[number] = b" " * len(line)
    return b"\n".join(lines)


def conditions(stream: Sequence[Token], first: int, last: int) -> tuple[str, ...]:
    """The conditions of the directives between two lines, without repetition."""
    found = [match[2].strip() for token in stream
             if token.kind is Kind.DIRECTIVE and first <= token.line <= last
             and (match := _DIRECTIVE.match(token.text)) and match[2].strip()
             and match[1] != "endif"]
    return tuple(dict.fromkeys(re.sub(r"[\s\\]+", " ", text) for text in found))
