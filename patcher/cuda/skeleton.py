"""A file reduced to what a walk needs: rows of directives with jumps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from patcher.cuda.lexer import CONDITIONAL, Directive, directives
from patcher.cuda.tokens import SPACES


class Op(IntEnum):
    IF = 0
    ELIF = 1  # also #else
    END = 2
    DEFINE = 3
    UNDEF = 4
    INCLUDE = 5
    ONCE = 6
    PUSH = 7
    POP = 8


class Test(IntEnum):
    """How an arm is decided."""

    EXPRESSION = 0
    DEFINED = 1
    UNDEFINED = 2
    TRUE = 3
    FALSE = 4  # malformed: no name, or after #else


class Flag(IntEnum):
    """What is known of an arm from the file alone."""

    ERROR = 1  # #error stands directly in it
    LAST_RESORT = 2  # the next arm is an #else with #error
    GUARD = 4  # the include guard of the file


# (op, line, ...): IF and ELIF (test, text, index of the next arm, flags); DEFINE (name,
# parameters, body); UNDEF, PUSH, POP (name); INCLUDE (text, is_next)
Row = tuple[int | str | None, ...]

_DEFINED = re.compile(r"(!?)\s*defined\s*(?:\(\s*([A-Za-z_]\w*)\s*\)|([A-Za-z_]\w*))\Z")
_NAME = re.compile(r"[A-Za-z_$\x80-\xff][\w$\x80-\xff]*")
_DEFINE = re.compile(r"([A-Za-z_$\x80-\xff][\w$\x80-\xff]*)(?:\(([^()]*)\))?[ \t\f\v\r\0]*(.*)",
                     re.S)
_STACK = re.compile(r"(push|pop)_macro\s*\(\s*\"([^\"]*)\"\s*\)")


@dataclass(frozen=True)
class Skeleton:
    """``digest`` names the content; ``uses_next`` makes the found folder matter."""

    digest: str
    rows: tuple[Row, ...]
    uses_next: bool
    once: bool
    warnings: tuple[str, ...]

    def pack(self) -> list[object]:
        """As JSON can hold it."""
        return [self.rows, self.uses_next, self.once, self.warnings]

    @classmethod
    def unpack(cls, digest: str, entry: list[Any]) -> Skeleton:
        rows, uses_next, once, warnings = entry
        return cls(digest, tuple([tuple(row) for row in rows]), uses_next, once, tuple(warnings))

    @property
    def defines(self) -> frozenset[str]:
        """Every name that some #define of the file defines."""
        return frozenset(str(row[2]) for row in self.rows if row[0] == Op.DEFINE)


class _Builder:
    def __init__(self, elifdef: bool) -> None:
        self.rows: list[list[int | str | None]] = []
        self.stack: list[list[int]] = []  # per open ladder, the rows of its arms
        self.warnings: list[str] = []
        self.ended_at = -1
        self._elifdef = elifdef

    def add(self, item: Directive) -> None:
        if item.name in CONDITIONAL:
            if self._elifdef or not item.name.startswith("elif") or item.name == "elif":
                self._conditional(item)
        elif item.name == "define":
            match = _DEFINE.match(item.text)
            if match and match[1] != "defined":
                self.rows.append([Op.DEFINE, item.line, match[1], match[2], match[3]])
        elif item.name == "undef":
            match = _NAME.match(item.text)
            if match:
                self.rows.append([Op.UNDEF, item.line, match[0]])
        elif item.name in ("include", "include_next", "import"):
            self.rows.append([Op.INCLUDE, item.line, item.text, int(item.name == "include_next")])
        elif item.name == "pragma":
            self._pragma(item)
        elif item.name == "error" and self.stack:
            row = self.rows[self.stack[-1][-1]]
            row[5] = int(row[5] or 0) | Flag.ERROR

    def _pragma(self, item: Directive) -> None:
        if item.text == "once":
            self.rows.append([Op.ONCE, item.line])
        elif match := _STACK.match(item.text):
            op = Op.PUSH if match[1] == "push" else Op.POP
            self.rows.append([op, item.line, match[2]])

    def _conditional(self, item: Directive) -> None:
        opening = item.name in ("if", "ifdef", "ifndef")
        if not opening and not self.stack:
            self.warnings.append(f"{item.line}: #{item.name} without #if")
            return
        here = len(self.rows)
        if not opening:
            self.rows[self.stack[-1][-1]][4] = here
        if item.name == "endif":
            self._close(self.stack.pop())
            self.rows.append([Op.END, item.line])
            self.ended_at = here
            return
        test, text = _test(item)
        if opening:
            self.stack.append([])
        elif any(self.rows[arm][2] == Test.TRUE and self.rows[arm][0] == Op.ELIF
                 for arm in self.stack[-1]):
            self.warnings.append(f"{item.line}: #{item.name} after #else")
            test, text = Test.FALSE, ""
        self.stack[-1].append(here)
        self.rows.append([Op.IF if opening else Op.ELIF, item.line, test, text, 0, 0])

    def _close(self, arms: list[int]) -> None:
        for arm, following in zip(arms, arms[1:], strict=False):
            nxt = self.rows[following]
            if nxt[2] == Test.TRUE and int(nxt[5] or 0) & Flag.ERROR:
                self.rows[arm][5] = int(self.rows[arm][5] or 0) | Flag.LAST_RESORT

    def finish(self, last_line: int) -> None:
        while self.stack:
            arms = self.stack.pop()
            first = self.rows[arms[0]]
            self.warnings.append(f"{first[1]}: unterminated #if")
            self.rows[arms[-1]][4] = len(self.rows)
            self._close(arms)
            self.rows.append([Op.END, last_line])
        self._mark_guard()

    def _mark_guard(self) -> None:
        """The ladder that holds all of the file and whose macro is defined first."""
        rows = [n for n, row in enumerate(self.rows) if row[0] != Op.ONCE]
        if len(rows) < 3 or rows[-1] != self.ended_at:
            return
        first, second = self.rows[rows[0]], self.rows[rows[1]]
        if (first[0] == Op.IF and first[2] == Test.UNDEFINED and first[4] == rows[-1]
                and second[0] == Op.DEFINE and second[2] == first[3]):
            first[5] = int(first[5] or 0) | Flag.GUARD


def _test(item: Directive) -> tuple[Test, str]:
    if item.name == "else":
        return Test.TRUE, ""
    if item.name.endswith("def"):
        match = _NAME.match(item.text)
        if not match:
            return Test.FALSE, ""
        return (Test.UNDEFINED if item.name.endswith("ndef") else Test.DEFINED), match[0]
    if match := _DEFINED.match(item.text):
        return (Test.UNDEFINED if match[1] else Test.DEFINED), match[2] or match[3]
    return Test.EXPRESSION, SPACES.sub(" ", item.text)


def build(data: bytes, digest: str, *, elifdef: bool,
          found: Sequence[Directive] | None = None) -> Skeleton:
    """Lex a file (``found`` are its directives, if known). Without ``elifdef`` the directives
    of C++23 are unknown, as they are to gcc under an older ``-std=c++NN``."""
    builder = _Builder(elifdef)
    for item in directives(data) if found is None else found:
        builder.add(item)
    builder.finish(data.count(b"\n") + 2)
    rows = tuple(tuple(int(x) if isinstance(x, int) else x for x in row) for row in builder.rows)
    uses_next = any((row[0] == Op.INCLUDE and row[3]) or
                    (row[0] in (Op.IF, Op.ELIF) and "__has_include_next" in str(row[3]))
                    for row in rows)
    once = any(row[0] == Op.ONCE for row in rows)
    return Skeleton(digest, rows, uses_next, once, tuple(builder.warnings))
