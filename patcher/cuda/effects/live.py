"""Which lines of a file one world compiles, from the states of its arms in one inclusion."""

from __future__ import annotations

from collections.abc import Iterator

from patcher.arch import Target
from patcher.cuda.directives import Arm, Ladder, SourceFile
from patcher.cuda.effects.classify import Extent, Live
from patcher.cuda.model import ArmState, Context


def live_lines(context: Context, file: SourceFile, target: Target, line_count: int) -> Live:
    """One byte per line (index 0 unused), zero where the target does not compile it.

    An unknown arm counts as compiled.
    """
    bit = 1 << target.index
    lines = bytearray(b"\1" * (line_count + 2))
    for line, state in context.arms.items():
        if not state.live & bit and line in file.arms:
            _, arm = file.arms[line]
            first, last = arm.body_line, min(arm.end_line, len(lines))
            if last > first:
                lines[first:last] = bytes(last - first)
    return bytes(lines)


def extent(ladder: Ladder, arm: Arm) -> Extent:
    """The arm's place, as effects are asked for."""
    return Extent(arm.line, arm.end_line, ladder.line, ladder.end_line)


def condition_text(ladder: Ladder, arm: Arm) -> str:
    """The arm's condition; a bare #else is the complement of the arms before it."""
    if arm.condition:
        return arm.condition
    before = [a.condition for a in ladder.arms if a.line < arm.line]
    return "!(" + " || ".join(f"({c})" if len(before) > 1 else c for c in before) + ")"


def later_states(context: Context, ladder: Ladder, arm: Arm) -> Iterator[ArmState]:
    """States of the later arms that have a condition of their own."""
    for other in ladder.arms:
        if other.line > arm.line and other.condition and other.line in context.arms:
            yield context.arms[other.line]


def nested(context: Context, file: SourceFile, arm: Arm) -> Iterator[tuple[Arm, ArmState]]:
    """The arms inside an arm, with their states."""
    first, end = arm.line, arm.end_line
    for line in sorted([line for line in context.arms if first < line < end]):
        if line in file.arms:
            yield file.arms[line][1], context.arms[line]
