"""Architecture tags of templates: ``using ArchTag = cutlass::arch::Sm100``.

A tag picks which of a library's templates a kernel is made from, and states
the least capability that these are written for. It refuses nothing: a kernel
with the tag of another device compiles, and what is left of its body there is
decided by the guards of the headers it is made from. So a tag is what a source
says of itself, never a gate that is open or closed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from patcher.cuda.effects.tokens import blank_comments
from patcher.host.values import words

_TAG = re.compile(rb"\barch\s*::\s*Sm(\d{2,3})\b")
_STATEMENT = re.compile(rb"[;{}]")
_DEFINES = re.compile(rb"\s*template\b[^;{}]*\b(?:struct|class)\s+\w+\s*(?:<|$)")
_NEARBY = 1024  # bytes that are looked at of a statement before its tag


@dataclass(frozen=True, slots=True)
class Tag:
    """A place where a source takes a tag; ``minimum`` is its least capability, as 100."""

    minimum: int
    line: int


def find_tags(data: bytes) -> tuple[Tag, ...]:
    """Where a source takes a tag for a kernel, in its order.

    Not where it only asks for one (``is_same_v<ArchTag, arch::Sm90>``, an
    assertion) nor where a template is written for one. A macro's body counts.
    """
    if b"::Sm" not in data and b":: Sm" not in data:
        return ()
    code = blank_comments(data)
    asks = tuple(word.encode() for word in words("tag_questions"))
    found: list[Tag] = []
    line, counted = 1, 0
    for match in _TAG.finditer(code):
        before = _STATEMENT.split(code[max(0, match.start() - _NEARBY) : match.start()])[-1]
        if before.rpartition(b"\n")[2].count(b'"') % 2:
            continue  # within a text
        if not any(word in before for word in asks) and not _DEFINES.match(before):
            line += code.count(b"\n", counted, match.start())
            counted = match.start()
            found.append(Tag(int(match[1]), line))
    return tuple(found)
