"""What each target's assembler accepts, and the names in source text that need it.

Both tables are data: ``instructions.json`` holds what four releases of ptxas
said of 271 instructions, ``markers.json`` the patterns that point at them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from pathlib import Path

from patcher.arch import Target

_STEM = 4  # bytes
_DATA = Path(__file__).parent / "data"


class Verdict(str, Enum):
    """What is known of an instruction on a target."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"  # by every measured release that knows the target
    NEWER_TOOLKIT = "newer-toolkit"  # a later release than the one asked about accepts it
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Marker:
    """A pattern in source text, and the instructions it stands for."""

    kind: str
    pattern: re.Pattern[str]
    literals: tuple[str, ...]
    features: tuple[str, ...]
    weak: bool  # dispatch code mentions the name without using the instruction
    note: str

    def verdict(self, target: Target, toolkit: str | None = None) -> Verdict:
        """The verdict that all of the marker's instructions share, else UNKNOWN."""
        verdicts = {verdict(feature, target, toolkit) for feature in self.features}
        return verdicts.pop() if len(verdicts) == 1 else Verdict.UNKNOWN


@dataclass(frozen=True, slots=True)
class Hit:
    """A marker found on a 1-based line."""

    line: int
    marker: Marker


@cache
def _acceptance() -> dict[str, dict[str, tuple[int, ...]]]:
    """Feature -> target name -> the first release, as numbers, that accepts it."""
    rows = json.loads((_DATA / "instructions.json").read_text("utf-8"))["features"]
    return {
        row["name"]: {
            f"sm_{name}": release(since)
            for since, names in row["accepted"].items()
            for name in names.split()
        }
        for row in rows
    }


def features() -> tuple[str, ...]:
    """The names of all instructions that were measured."""
    return tuple(_acceptance())


def release(text: str) -> tuple[int, ...]:
    """A CUDA release as numbers that compare: ``"12.9"`` is (12, 9)."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


@cache
def verdict(feature: str, target: Target, toolkit: str | None = None) -> Verdict:
    """What ptxas says of a feature on a target; without ``toolkit``, the newest measured one."""
    accepted = _acceptance().get(feature)
    if accepted is None:
        return Verdict.UNKNOWN
    since = accepted.get(target.name)
    if since is None:
        return Verdict.REJECTED
    if toolkit is not None and release(toolkit) < since:
        return Verdict.NEWER_TOOLKIT
    return Verdict.ACCEPTED


@cache
def markers() -> tuple[Marker, ...]:
    """Every pattern of the table."""
    rows = json.loads((_DATA / "markers.json").read_text("utf-8"))["markers"]
    return tuple(
        Marker(
            row["kind"],
            re.compile(row["pattern"]),
            tuple(row["literals"]),
            tuple(row["features"]),
            row.get("weak", False),
            row.get("note", ""),
        )
        for row in rows
    )


@cache
def _by_literal() -> dict[bytes, tuple[Marker, ...]]:
    table: dict[bytes, list[Marker]] = {}
    for marker in markers():
        for literal in marker.literals:
            table.setdefault(literal.encode(), []).append(marker)
    return {literal: tuple(found) for literal, found in table.items()}


@cache
def _telling(target: Target) -> tuple[bytes, ...]:
    """Pieces of text of which every marker that is evidence against a target holds one."""
    literals = {literal.encode() for marker in markers() for literal in marker.literals
                if _is_evidence(marker, target)}
    return tuple(sorted(literal for literal in literals
                        if not any(other in literal for other in literals - {literal})))


def _is_evidence(marker: Marker, target: Target) -> bool:
    return not marker.weak and marker.verdict(target) is Verdict.REJECTED


def may_reject(data: bytes, target: Target) -> bool:
    """False when a source, comments included, holds nothing that the target rejects."""
    return any(literal in data for literal in _telling(target))


def rejected_lines(code: bytes, target: Target) -> list[int]:
    """The lines, ascending, of text without comments with a marker that the target rejects
    for sure."""
    starts: set[int] = set()
    for literal in _telling(target):
        _lines_with(literal, code, starts)
    return [number for number, line in _numbered(code, starts)
            if any(_is_evidence(marker, target) for marker in _markers_on(line))]


def suspects(code: bytes, target: Target) -> set[int]:
    """Where lines begin (offsets) in text without comments that may hold what a target lacks:
    each that ``Marker.verdict`` rejects, or that speaks of more shared memory than there is."""
    found: set[int] = set()
    for literal in _telling(target):
        _lines_with(literal, code, found)
    speaking: set[int] = set()
    lowered = code.lower()
    for word in (b"smem", b"shared"):
        _lines_with(word, lowered, speaking)
    for start in speaking - found:
        end = code.find(b"\n", start)
        if _SIZE.search(code, start, end if end >= 0 else len(code)):
            found.add(start)
    return found


def _lines_with(literal: bytes, code: bytes, starts: set[int]) -> None:
    """Add where each line begins that holds a literal."""
    position = code.find(literal)
    while position >= 0:
        starts.add(code.rfind(b"\n", 0, position) + 1)
        end = code.find(b"\n", position)
        position = -1 if end < 0 else code.find(literal, end)


@cache
def _stems() -> dict[bytes, tuple[bytes, ...]]:
    """The literals by a piece they share: a text without the piece has none of them."""
    left = dict.fromkeys(_by_literal())
    table: dict[bytes, tuple[bytes, ...]] = {}
    while left:
        counts = Counter(piece for literal in left for piece in {
            literal[n : n + _STEM] for n in range(max(1, len(literal) - _STEM + 1))})
        stem = min(counts, key=lambda piece: (-counts[piece], piece))
        table[stem] = tuple(literal for literal in left if stem in literal)
        for literal in table[stem]:
            del left[literal]
    return table


def find(code: bytes) -> tuple[Hit, ...]:
    """Every marker in text whose comments were blanked, by line, each once per line."""
    starts: set[int] = set()
    for stem, literals in _stems().items():
        if stem in code:
            for literal in literals:
                _lines_with(literal, code, starts)
    return tuple([Hit(number, marker) for number, line in _numbered(code, starts)
                  for marker in _markers_on(line)])


def _numbered(code: bytes, starts: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """The lines that begin at these offsets, in order, with their numbers."""
    number, counted = 1, 0
    for start in sorted(starts):
        number += code.count(b"\n", counted, start)
        counted = start
        end = code.find(b"\n", start)
        yield number, code[start : end if end >= 0 else len(code)]


_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"')
_MESSAGE = re.compile(r"CUTE_INVALID_CONTROL_PATH|printf|assert|_ERROR|_THROW|CHECK|#\s*error")


@lru_cache(maxsize=1 << 15)  # generated sources share most of their lines
def _markers_on(line: bytes) -> tuple[Marker, ...]:
    wanted = {marker for literal, found in _by_literal().items() if literal in line
              for marker in found}
    text = line.decode("utf-8", "replace")
    bare = _LITERAL.sub('""', text)
    speaks = _MESSAGE.search(bare) is not None
    # instructions stand in literals (asm), but so do messages about them
    return tuple([marker for marker in sorted(wanted, key=lambda m: m.pattern.pattern)
                  if marker.pattern.search(
                      text if marker.kind == "ptx" and not speaks else bare)])


@cache
def _limits() -> dict[int, int]:
    data = json.loads((_DATA / "markers.json").read_text("utf-8"))["shared_memory"]
    return {int(number): size for number, size in data["limits"].items()}


def shared_memory_limit(target: Target) -> int | None:
    """Bytes of shared memory one block may opt in to, None when not recorded."""
    return _limits().get(target.number)


_SHARED = re.compile(rb"smem|shared", re.IGNORECASE)
_SIZE = re.compile(rb"\b(?:(\d{2,3})[uU]?[lL]*\s*(?:\*\s*1024|<<\s*10)|(\d{5,6}))\b")


def shared_memory_size(line: bytes) -> int | None:
    """The largest literal byte size on a line that speaks of shared memory."""
    if not _SHARED.search(line):
        return None
    sizes = [int(m[1]) * 1024 if m[1] else int(m[2]) for m in _SIZE.finditer(line)]
    return max(sizes, default=None)
