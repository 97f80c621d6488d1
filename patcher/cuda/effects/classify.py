"""What lies behind an arm of a ladder: the ordered definition of an effect."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

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
_NEWLINE = re.compile(rb"\n")
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
        starts = [0, 0]
        for match in _NEWLINE.finditer(self.data):
            starts.append(match.end())
        starts.append(len(self.data))
        return starts

    @property
    def line_count(self) -> int:
        return len(self.starts) - 2

    @cached_property
    def _bare(self) -> bytes:
        return bare_code(self.data)

    def outline(self, live: Live) -> Outline:
        """Functions by braces matched over the live lines."""
        found = self._outlines.get(live)
        if found is None:
            starts, bare = self.starts, self._bare
            lines = (
                bare[starts[n] : starts[n + 1]] if live[n] else b" " * (starts[n + 1] - starts[n])
                for n in range(1, self.line_count + 1)
            )
            found = self._outlines[live] = outline(b"".join(lines))
        return found

    def between(self, first: int, last: int) -> Sequence[Token]:
        """The tokens of lines first <= line <= last."""
        if last < first:
            return ()
        end = self.starts[min(last, self.line_count) + 1]
        return tuple(tokens(self.code[self.starts[first] : end], first))

    def line(self, number: int) -> bytes:
        """A line's code without the white space around it."""
        return self.code[self.starts[number] : self.starts[number + 1]].strip()

    def body(self, function: Function) -> Sequence[Token]:
        """The tokens between a function's braces."""
        line = bisect_right(self.starts, function.first, 1) - 1
        return tuple(tokens(self.code[function.first + 1 : function.last], line))

    def function_at(self, line: int, live: Live) -> Function | None:
        """The function that a line is in."""
        return self.outline(live).around(self.starts[min(line, self.line_count)])


def effect_of(source: Source, extent: Extent, reference: Live, target: Live) -> ArmEffect:
    """The effect of an arm that is live for a reference and not for the target.

    The definitions are tried in the order of :class:`patcher.gates.Effect`.
    """
    lines = tuple(
        line for line in range(extent.line + 1, extent.end_line)
        if reference[line] and not target[line] and source.line(line)
    )
    if not lines:
        return ArmEffect(Effect.UNKNOWN)
    function = source.function_at(extent.line, reference)
    found = ArmEffect(Effect.UNKNOWN, function.name if function else "",
                      bool(function and function.kernel), lines)
    gained = [
        token
        for first, last in ((extent.ladder_line + 1, extent.line - 1),
                            (extent.end_line, extent.ladder_end_line - 1))
        for token in source.between(first, last)
        if target[token.line]
    ]
    others = statements(gained)
    instead = _instead(gained, others)
    if instead is not None:
        return replace(found, effect=instead)
    lost = [t for t in source.between(lines[0], lines[-1])
            if reference[t.line] and not target[t.line]]
    parts = statements(lost)
    effect = _behind(source, function, lost, parts, gained, others, target)
    if effect is Effect.FEATURE and not source.outline(reference).balanced:
        effect = Effect.UNKNOWN
    return replace(found, effect=effect, names=_names(lost, parts),
                   known=bool(parts) and all(is_sync(part) for part in parts))


def _instead(gained: Sequence[Token], others: Sequence[Statement]) -> Effect | None:
    """ERROR or TRAP when that is what the target gets in place of the arm."""
    for token in gained:
        if token.kind is Kind.DIRECTIVE and _directive(token)[0] == "error":
            return Effect.ERROR
    for part in others:
        if [t.text for t in part[:3]] in (
            ["static_assert", "(", "false"], ["static_assert", "(", "0"]
        ):
            return Effect.ERROR
    rest = [without_control(part) for part in others]
    if any(part and is_trap(part) for part in rest) and all(
        not part or is_trap(part) or is_talk(part) or is_declaration(part) or is_return(part)
        for part in rest
    ):
        return Effect.TRAP
    return None

def _behind(
    source: Source,
    function: Function | None,
    lost: Sequence[Token],
    parts: Sequence[Statement],
    gained: Sequence[Token],
    others: Sequence[Statement],
    target: Live,
) -> Effect:
    hollow = function is not None and bool(parts) and _is_hollow(source, function, target)
    if function is not None and function.kernel and hollow:
        return Effect.KERNEL_BODY
    if parts and all(is_sync(part) for part in parts) and _balanced(lost):
        return Effect.SYNC
    if hollow and not others:
        return Effect.FUNCTION_BODY
    if function is None and _defined(lost, parts) - _defined(gained, others):
        return Effect.DEFINITION
    if others or any(t.kind is Kind.DIRECTIVE for t in gained):
        return Effect.ALTERNATIVE
    return Effect.FEATURE if parts else Effect.UNKNOWN

def _is_hollow(source: Source, function: Function, target: Live) -> bool:
    """True when what the target keeps of the body does nothing."""
    kept = statements(t for t in source.body(function) if target[t.line])
    return all(_does_nothing(without_control(part), function.kernel) for part in kept)

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

def _names(lost: Sequence[Token], parts: Sequence[Statement]) -> tuple[str, ...]:
    called = {
        first.text
        for first, second in zip(lost, lost[1:], strict=False)
        if first.kind is Kind.NAME and second.text == "("
    }
    return tuple(sorted(called | _defined(lost, parts)))
