"""What lies behind an arm of a ladder: the ordered definition of an effect."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, compress, islice
from operator import and_, gt

from patcher.cuda.effects.outline import Function, Outline, outline
from patcher.cuda.effects.statements import (
    Statement,
    is_declaration,
    is_return,
    is_sync,
    is_talk,
    is_trap,
    statements,
    without_control,
)
from patcher.cuda.effects.tokens import Kind, Token, bare_code, blank_comments, tokens
from patcher.gates import Effect

Live = bytes  # one byte per line, index 0 unused; non-zero where the line is compiled
_ENOUGH = 4000  # tokens; a guard around a whole generated file is longer
_DIRECTIVE = re.compile(r"#\s*([a-z_]+)\s*(?:([A-Za-z_]\w*))?")


@dataclass(frozen=True, slots=True)
class Extent:
    """The lines of an arm's directive and of what ends it, and the same of its ladder."""

    line: int
    end_line: int
    ladder_line: int
    ladder_end_line: int


@dataclass(frozen=True, slots=True)
class ArmEffect:
    """What an arm does for a target. ``lines`` are those the target loses (or gains).

    ``within`` is the enclosing function, ``kernel`` whether it is a ``__global__`` one.
    ``known`` is True when every name in those lines is a declared or a tabled one.
    """

    effect: Effect
    within: str = ""
    kernel: bool = False
    lines: tuple[int, ...] = ()
    names: tuple[str, ...] = ()  # called or defined in those lines
    known: bool = False


@dataclass
class Source:
    """A file's code, and its outline per set of live lines."""

    data: bytes
    _outlines: dict[Live, Outline] = field(default_factory=dict)

    @cached_property
    def code(self) -> bytes:
        """The text with comments blanked."""
        return blank_comments(self.data)

    @cached_property
    def starts(self) -> list[int]:
        """Line -> offset of its first byte; index 0 unused, one more than there are lines."""
        lengths = map(len, self.data.split(b"\n"))
        ends = accumulate(map((1).__add__, lengths))  # each behind its newline
        starts = [0, 0, *ends]
        starts[-1] = len(self.data)
        return starts

    def filled(self, first: int, end: int) -> list[bool]:
        """For the lines from ``first`` up to but not ``end``: whether there is more than
        comments on them."""
        starts = self.starts
        part = self.code[starts[first] : starts[min(end, len(starts) - 1)]]
        return list(map(bool, map(bytes.strip, part.split(b"\n"))))

    @property
    def line_count(self) -> int:
        return len(self.starts) - 2

    @cached_property
    def bare(self) -> bytes:
        return bare_code(self.code)

    def outline(self, live: Live) -> Outline:
        """Functions by braces matched over the live lines."""
        found = self._outlines.get(live)
        if found is None:
            starts, text = self.starts, bytearray(self.bare)
            dead = live.find(0, 1, self.line_count + 1)
            while dead > 0:
                first, last = starts[dead : dead + 2]
                text[first:last] = b" " * (last - first)
                dead = live.find(0, dead + 1, self.line_count + 1)
            found = self._outlines[live] = outline(bytes(text))
        return found

    def tokens(self, first: int, last: int, wanted: Callable[[int], object]) -> Iterator[Token]:
        """The tokens of the wanted lines among first <= line <= last, as they are asked for."""
        return tokens(self.text(first, last, wanted), first)

    def text(self, first: int, last: int, wanted: Callable[[int], object]) -> bytes:
        """The code of the wanted lines among first <= line <= last, the others empty."""
        starts, code = self.starts, self.code
        return b"".join([
            code[starts[n] : starts[n + 1]] if wanted(n) else b"\n"
            for n in range(first, min(last, self.line_count) + 1)
        ])

    def body(self, function: Function, live: Live) -> Iterator[Token]:
        """The tokens between a function's braces that are live."""
        starts, code = self.starts, self.code
        first = bisect_right(starts, function.first, 1) - 1
        last = bisect_right(starts, function.last, 1) - 1
        lines = (
            code[max(starts[n], function.first + 1) : min(starts[n + 1], function.last)]
            if live[n] else b"\n"
            for n in range(first, last + 1)
        )
        return tokens(b"".join(lines), first)

    def function_at(self, line: int, live: Live) -> Function | None:
        """The function that a line is in."""
        return self.outline(live).around(self.starts[min(line, self.line_count)])


@dataclass(frozen=True)
class _Arm:
    """What the target loses with an arm, and what it gets in its place."""

    source: Source
    lines: tuple[int, ...]
    gained: tuple[Token, ...]
    others: tuple[Statement, ...]

    def lost(self) -> Iterator[Token]:
        return tokens(self._text, self.lines[0])

    @cached_property
    def _text(self) -> bytes:
        wanted = frozenset(self.lines)
        return self.source.text(self.lines[0], self.lines[-1], wanted.__contains__)

    @property
    def has_statements(self) -> bool:
        return next(statements(self.lost()), None) is not None

    @property
    def is_sync(self) -> bool:
        """Every statement is in the table and the braces match; reads only as far as it must."""
        return self.has_statements and all(map(is_sync, statements(self.lost()))) and _balanced(
            self.lost()
        )

    def introduces(self) -> frozenset[str]:
        """The first names that the lines define at file level."""
        start = tuple(islice(self.lost(), _ENOUGH))
        return _defined(start, tuple(statements(start)))

    def names(self) -> tuple[str, ...]:
        """The first names that the lines call or define."""
        start = tuple(islice(self.lost(), _ENOUGH))
        called = {first.text for first, second in zip(start, start[1:], strict=False)
                  if first.kind is Kind.NAME and second.text == "("}
        return tuple(sorted(called | _defined(start, tuple(statements(start)))))


def effect_of(source: Source, extent: Extent, reference: Live, target: Live) -> ArmEffect:
    """The effect of an arm that is live for a reference and not for the target.

    The definitions are tried in the order of :class:`patcher.gates.Effect`.
    """
    inside = slice(extent.line + 1, extent.end_line)
    filled = source.filled(extent.line + 1, extent.end_line)
    lost = map(gt, map(and_, reference[inside], filled), target[inside])
    lines = tuple(compress(range(extent.line + 1, extent.end_line), lost))
    if not lines:
        return ArmEffect(Effect.UNKNOWN)
    gained = (
        *source.tokens(extent.ladder_line + 1, extent.line - 1, target.__getitem__),
        *source.tokens(extent.end_line, extent.ladder_end_line - 1, target.__getitem__),
    )
    arm = _Arm(source, lines, gained, tuple(statements(gained)))
    function = source.function_at(extent.line, reference)
    effect = _instead(arm) or _behind(arm, function, target)
    if effect is Effect.FEATURE and not source.outline(reference).balanced:
        effect = Effect.UNKNOWN
    return ArmEffect(
        effect,
        function.name if function else "",
        bool(function and function.kernel),
        lines,
        () if function else arm.names(),
        effect is Effect.SYNC or (effect is Effect.KERNEL_BODY and arm.is_sync),
    )


def _instead(arm: _Arm) -> Effect | None:
    """ERROR or TRAP when that is what the target gets in place of the arm."""
    for token in arm.gained:
        if token.kind is Kind.DIRECTIVE and _directive(token)[0] == "error":
            return Effect.ERROR
    for part in arm.others:
        if [t.text for t in part[:3]] in (
            ["static_assert", "(", "false"], ["static_assert", "(", "0"]
        ):
            return Effect.ERROR
    rest = [part for part in map(without_control, arm.others) if part]
    harmless = (is_trap, is_talk, is_declaration, is_return)
    if any(map(is_trap, rest)) and all(any(test(part) for test in harmless) for part in rest):
        return Effect.TRAP
    return None


def _behind(arm: _Arm, function: Function | None, target: Live) -> Effect:
    hollow = (
        function is not None and arm.has_statements and _is_hollow(arm.source, function, target)
    )
    if function is not None and function.kernel and hollow:
        return Effect.KERNEL_BODY
    if arm.is_sync:
        return Effect.SYNC
    if hollow and not arm.others:
        return Effect.FUNCTION_BODY
    if function is None and arm.introduces() - _defined(arm.gained, arm.others):
        return Effect.DEFINITION
    if arm.others or any(t.kind is Kind.DIRECTIVE for t in arm.gained):
        return Effect.ALTERNATIVE
    return Effect.FEATURE if arm.has_statements else Effect.UNKNOWN


def _is_hollow(source: Source, function: Function, target: Live) -> bool:
    """True when what the target keeps of the body does nothing."""
    kept = map(without_control, statements(source.body(function, target)))
    return all(_does_nothing(part, function.kernel) for part in kept)


def _does_nothing(part: Statement, kernel: bool) -> bool:
    if not part:
        return True
    if kernel and part[0].text == "return":
        return len(part) == 1
    return is_return(part) or is_declaration(part) or is_talk(part)


def _balanced(part: Iterable[Token]) -> bool:
    depth = 0
    for token in part:
        depth += (token.text == "{") - (token.text == "}")
        if depth < 0:
            return False
    return depth == 0


def _directive(token: Token) -> tuple[str, str]:
    match = _DIRECTIVE.match(token.text)
    return (match[1], match[2] or "") if match else ("", "")


def _defined(all_tokens: Iterable[Token], parts: Sequence[Statement]) -> frozenset[str]:
    """Names that a piece of file-level text introduces: macros, functions, types, variables."""
    names = {
        name
        for keyword, name in (_directive(t) for t in all_tokens if t.kind is Kind.DIRECTIVE)
        if keyword == "define"
    }
    includes = {t.text for t in all_tokens if t.kind is Kind.DIRECTIVE and "include" in t.text}
    return frozenset(names | includes | {name for part in parts for name in _introduced(part)})


def _introduced(part: Statement) -> Iterable[str]:
    """The last name before ``(``, ``=``, ``{``, ``[`` or the end of a declaration."""
    depth, last = 0, ""
    for position, token in enumerate(part):
        text = token.text
        if depth == 0 and (text in ("=", "[", "{") or (text == "(" and last)):
            break
        if text == "(":
            depth += 1
        elif text == ")":
            depth -= 1
        elif token.kind is Kind.NAME and depth == 0:
            last = text if position or is_declaration(part) else ""
    if last and is_declaration(part):
        yield last
