"""What the scan reads from one file: text, tokens, comments, markers; each made once."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from patcher import instructions
from patcher.arch import Target
from patcher.cuda.directives import Arm, ladders_of, parse
from patcher.cuda.directives import SourceFile as Directives
from patcher.cuda.effects.calls import Body, bodies
from patcher.cuda.effects.classify import Live, Source
from patcher.cuda.effects.live import live_lines
from patcher.cuda.effects.tokens import comments
from patcher.cuda.lexer import Directive
from patcher.cuda.model import Context
from patcher.errors import InputError
from patcher.instructions import Hit
from patcher.tree import Tree

# What a walker has lexed of a file: the line behind it, and its conditional directives.
Conditionals = Callable[[str], tuple[int, tuple[Directive, ...]] | None]
_NEAR = 30  # lines above a gate in which a comment may begin that speaks of it
_SHORT = 64  # lines that are found faster without a table of all lines
_KEEP = 64  # files; the largest generated sources are a few megabytes each


@dataclass
class SourceFile:
    """One file's text and what is derived from it."""

    path: str
    data: bytes
    _hits: dict[str, dict[int, tuple[Hit, ...]]] = field(default_factory=dict)  # by path
    _live: dict[tuple[int, int], tuple[Context, Live]] = field(default_factory=dict)
    _rejected: dict[int, list[int]] = field(default_factory=dict)
    _may: dict[int, bool] = field(default_factory=dict)
    _conditionals: Conditionals = field(default=lambda path: None)

    @cached_property
    def source(self) -> Source:
        return Source(self.data)

    @property
    def code(self) -> bytes:
        """The text with comments blanked."""
        return self.source.code

    @cached_property
    def lines(self) -> list[bytes]:
        return self.data.split(b"\n")

    @cached_property
    def code_lines(self) -> list[bytes]:
        return self.code.split(b"\n")

    @cached_property
    def hits(self) -> dict[int, tuple[Hit, ...]]:
        """Markers by line, comments not counted."""
        known = self._hits.get(self.path)
        if known is None:
            table: dict[int, list[Hit]] = {}
            for hit in instructions.find(self.code):
                table.setdefault(hit.line, []).append(hit)
            known = self._hits[self.path] = {line: tuple(hits) for line, hits in table.items()}
        return known

    @cached_property
    def bodies(self) -> tuple[Body, ...]:
        """Functions, macros and types with the names they use, whatever the target."""
        return bodies(self.code, self.source.outline(b"\1" * (self.source.line_count + 2)))

    def suspects(self, lines: Sequence[int], target: Target) -> list[int]:
        """Those of ascending lines that may hold what the target lacks; looks no further."""
        if not lines:
            return []
        starts = self.source.starts
        first = starts[lines[0]]
        part = self.code[first : starts[lines[-1] + 1]]
        found = {bisect_right(starts, first + place, 1) - 1
                 for place in instructions.suspects(part, target)}
        return [line for line in lines if line in found] if found else []

    def rejected_lines(self, target: Target) -> Sequence[int]:
        """The lines, ascending, with a marker that the target rejects for sure."""
        found = self._rejected.get(target.index)
        if found is None:
            found = self._rejected[target.index] = instructions.rejected_lines(self.code, target)
        return found

    def may_reject(self, arm: Arm, target: Target) -> bool:
        """False when an arm's lines hold nothing, in comments neither, that the target rejects."""
        if arm.end_line - arm.line <= _SHORT:
            return instructions.may_reject(self._lines_of(arm), target)
        found = self._may.get(target.index)
        if found is None:
            found = self._may[target.index] = instructions.may_reject(self.data, target)
        if not found:
            return False
        starts = self.source.starts
        last = min(arm.end_line, len(starts) - 1)
        return instructions.may_reject(self.data[starts[arm.line] : starts[last]], target)

    def _lines_of(self, arm: Arm) -> bytes:
        """A short arm's lines without its directive's own, and perhaps some behind them."""
        end = arm.span.end
        for _ in range(arm.line, arm.end_line):
            end = self.data.find(b"\n", end) + 1 or len(self.data)
        return self.data[arm.span.end : end]

    @cached_property
    def directives(self) -> Directives:
        """The file's ladders."""
        known = self._conditionals(self.path)
        last = self.data.count(b"\n") + 2
        if known is not None and known[0] == last:
            return ladders_of(known[1], last)
        return parse(self.data)

    def comments_above(self, line: int) -> tuple[tuple[int, str], ...]:
        """The comments that could speak of a gate on this line, each with its line."""
        first = max(0, line - _NEAR)
        near = b"\n".join(self.lines[first:line])
        return tuple((first + start, text) for start, text in comments(near))

    def live(self, context: Context, target: Target) -> Live:
        """The lines a target compiles in one inclusion."""
        key = (id(context), target.index)
        found = self._live.get(key)
        if found is None:
            lines = live_lines(context, self.directives, target, self.source.line_count)
            found = self._live[key] = context, lines  # the context is kept: its id stays its own
        return found[1]

    def text(self, line: int) -> str:
        """A 1-based line, stripped."""
        if not 0 < line <= len(self.lines):
            return ""
        return self.lines[line - 1].decode("utf-8", "replace").strip()


class Files:
    """Files of a tree by path, the latest few kept; an unreadable one is empty."""

    def __init__(self, tree: Tree, conditionals: Conditionals = lambda path: None) -> None:
        self._tree = tree
        self._conditionals = conditionals
        self._kept: OrderedDict[str, SourceFile] = OrderedDict()
        self._hits: dict[str, dict[int, tuple[Hit, ...]]] = {}  # small, and asked for twice

    def get(self, path: str) -> SourceFile:
        found = self._kept.pop(path, None)
        if found is None:
            try:
                data = self._tree.read(path)
            except (OSError, InputError):
                data = b""
            found = SourceFile(path, data, self._hits, _conditionals=self._conditionals)
        self._kept[path] = found
        while len(self._kept) > _KEEP:
            self._kept.popitem(last=False)
        return found
