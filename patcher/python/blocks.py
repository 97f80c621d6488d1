"""Leave out long top-level blocks that cannot hold a gate, before a file is parsed.

Generated planners and kernels are mostly such blocks. Lines keep their
numbers. When the cut cannot be made safely the whole file stays.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from patcher.python.sieve import Marks

# Each begins with a literal: such are found ten times faster than what begins with ``^``.
_START = re.compile(rb"\n(?=[A-Za-z_@])(?!else\b|elif\b|except\b|finally\b)")
_METHOD = re.compile(rb"\n    (?=def |async def |@|class )")
_CLASS = re.compile(rb"(?:@[^\n]*\n)*class\b")
_DEFINITION = re.compile(rb"@|def\b|async def\b|class\b")
_QUOTES = (re.compile(rb'"""'), re.compile(rb"'''"))
SMALL_FILE = 20_000  # bytes; not worth the trouble
SHORT = 10  # lines of a block that always stays: imports, constants, small helpers


def condensed(source: bytes, marks: Marks) -> tuple[list[bytes], bytes]:
    """The blocks of a source, with those and the methods that are long and that there is no
    reason to look into made empty; and what was in these."""
    strings = _triple_quoted(source) if len(source) >= SMALL_FILE else None
    if strings is None:
        return [source], b""
    blocks = _starts(_START, source, 0, len(source), strings)
    cut: list[bytes] = []
    return [_kept(source, start, end, strings, marks, cut)
            for start, end in zip(blocks, [*blocks[1:], len(source)], strict=True)], b"".join(cut)


def changed(before: list[bytes], after: list[bytes]) -> tuple[bytes, list[tuple[int, int]]]:
    """The blocks that are not as before, on their lines, and the first and last line of each."""
    parts, lines, line = [], [], 1
    for old, new in zip(before, after, strict=True):
        count = new.count(b"\n")
        parts.append(b"\n" * count if old == new else new)
        if old != new:
            lines.append((line, line + count - new.endswith(b"\n")))
        line += count
    return b"".join(parts), lines


def _kept(source: bytes, start: int, end: int, strings: list[tuple[int, int]],
          marks: Marks, cut: list[bytes]) -> bytes:
    block = source[start:end]
    lines = block.count(b"\n")
    if lines <= SHORT:
        return block
    if not marks.between(start, end) and _DEFINITION.match(block):
        cut.append(block)
        return b"\n" * lines  # other statements bind names that gates elsewhere read
    if not _CLASS.match(block):
        return block
    parts = _starts(_METHOD, source, start, end, strings)
    if len(parts) == 1:
        return block
    kept = [source[start:parts[1]]]
    for first, last in zip(parts[1:], [*parts[2:], end], strict=True):
        lines = source.count(b"\n", first, last)
        if lines > SHORT and not marks.between(first, last):
            cut.append(source[first:last])
            kept.append(b"    pass" + b"\n" * lines)
        else:
            kept.append(source[first:last])
    return b"".join(kept)


def _triple_quoted(source: bytes) -> list[tuple[int, int]] | None:
    """Spans of triple-quoted strings; None when the quotes do not pair up."""
    found: list[tuple[int, int]] = []
    start, quote = 0, b""
    for place, kind in sorted((m.start(), m[0]) for p in _QUOTES for m in p.finditer(source)):
        if not quote:
            start, quote = place, kind
        elif kind == quote:
            found.append((start, place + len(kind)))
            quote = b""
    return None if quote else found


def _starts(pattern: re.Pattern[bytes], source: bytes, start: int, end: int,
            strings: list[tuple[int, int]]) -> list[int]:
    """Offsets at which statements of one depth begin, decorators with what they decorate."""
    starts, decorated = [start], pattern is _START and source.startswith(b"@", start)
    position = bisect_left(strings, (start, start))
    for match in pattern.finditer(source, start, end):
        place = match.start() + 1
        while position < len(strings) and strings[position][1] <= place:
            position += 1
        if position < len(strings) and strings[position][0] < place:
            continue
        if not decorated and place > start:
            starts.append(place)
        decorated = source.startswith(b"@", match.end())
    return starts
