"""Pure text surgery on bytes: spans, edits, and unified diffs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A half-open range of byte offsets."""

    start: int
    end: int

    def touches(self, other: Span) -> bool:
        """True when the spans overlap or are adjacent."""
        return self.start <= other.end and other.start <= self.end


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Replace the bytes of ``span`` (in the base) by ``new``."""

    span: Span
    new: bytes


class EditClash(ValueError):
    """Two different edits overlap or touch."""

    def __init__(self, first: Edit, second: Edit) -> None:
        super().__init__(f"edits at bytes {first.span.start} and {second.span.start} overlap")
        self.first = first
        self.second = second


def merge_edits(edits: Iterable[Edit]) -> tuple[Edit, ...]:
    """Sort, drop equal edits, and raise EditClash for different ones that touch."""
    merged = sorted(set(edits))
    for first, second in zip(merged, merged[1:], strict=False):
        if first.span.touches(second.span):
            raise EditClash(first, second)
    return tuple(merged)


def apply_edits(base: bytes, edits: Iterable[Edit]) -> bytes:
    """The base with all edits made; raises EditClash, ValueError outside the base."""
    pieces, position = [], 0
    for edit in merge_edits(edits):
        if not 0 <= edit.span.start <= edit.span.end <= len(base):
            raise ValueError(f"edit {edit.span} lies outside {len(base)} bytes")
        pieces += [base[position:edit.span.start], edit.new]
        position = edit.span.end
    return b"".join([*pieces, base[position:]])


def unified_diff(old: bytes | None, new: bytes | None, path: str) -> str:
    """A git-apply-able diff of one text file; None stands for an absent file.

    Bytes that are not UTF-8 survive as surrogate escapes: encode the result
    with ``surrogateescape`` before writing it to a file.
    """
    before, after = _lines(old), _lines(new)
    if before == after and (old is None) == (new is None):
        return ""
    head = [f"diff --git a/{path} b/{path}\n"]
    if old is None:
        head.append("new file mode 100644\n")
    if new is None:
        head.append("deleted file mode 100644\n")
    names = (
        "/dev/null" if old is None else f"a/{path}",
        "/dev/null" if new is None else f"b/{path}",
    )
    body = []
    for line in difflib.unified_diff(before, after, *names, lineterm="\n"):
        body.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(head + body)


def _lines(data: bytes | None) -> list[str]:
    """Split on LF only, as diff and git do (str.splitlines also splits on form feeds)."""
    text = (data or b"").decode("utf-8", "surrogateescape")
    parts = text.split("\n")
    return [p + "\n" for p in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
