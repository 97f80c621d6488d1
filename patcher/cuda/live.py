"""Which lines of a file are compiled, world by world."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from patcher.cuda.directives import SourceFile
from patcher.cuda.model import UNREACHED, Context


class Segment(NamedTuple):
    """Lines ``first`` to ``last`` (1-based, inclusive) between two conditional directives.

    ``open`` are the worlds that compile them, ``unknown`` those that may.
    """

    first: int
    last: int
    open: int
    unknown: int


def segments(source: SourceFile, context: Context, lines: int) -> Iterator[Segment]:
    """A file of so many lines in one inclusion, in order; directive lines are left out."""
    stack = [(lines + 1, context.worlds & ~context.maybe, context.maybe)]
    at = 1
    for line in sorted(source.arms):
        _, arm = source.arms[line]
        while line >= stack[-1][0] and len(stack) > 1:
            yield from _segment(at, stack[-1][0] - 1, stack[-1])
            at = _after(source, stack[-1][0])
            stack.pop()
        yield from _segment(at, line - 1, stack[-1])
        state = context.arms.get(line, UNREACHED)
        stack.append((arm.end_line, state.open, state.unknown))
        at = arm.body_line
    while stack:
        yield from _segment(at, stack[-1][0] - 1, stack[-1])
        at = _after(source, stack[-1][0])
        stack.pop()


def _segment(first: int, last: int, inside: tuple[int, int, int]) -> Iterator[Segment]:
    if first <= last:
        yield Segment(first, last, inside[1], inside[2])


def _after(source: SourceFile, end_line: int) -> int:
    """The first line below a directive; an #endif may go over several lines."""
    if end_line in source.arms:
        return end_line
    return source.ends.get(end_line, end_line + 1)
