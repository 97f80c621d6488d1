"""The lines of source around gates, as much of them as a page may hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from patcher.gates import Gate

Read = Callable[[str], "bytes | None"]

_BEFORE, _AFTER = 3, 9  # lines around a gate's own line
_END = 2  # lines around the line that ends its arm
_ROWS = 3  # equal gates of one row that are shown
_WIDTH = 180  # characters of a line
_BUDGET = 1_800_000  # characters of one page
_INCLUDE = re.compile(rb'[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]')


class Excerpts:
    """Windows into files, merged where they meet; the first asked for get the room there is."""

    def __init__(self, read: Read, budget: int = _BUDGET) -> None:
        self._read = read
        self._left = budget
        self._lines: dict[str, list[bytes] | None] = {}
        self._shown: dict[str, set[int]] = {}
        self._including: dict[tuple[str, str], int] = {}

    def gate(self, gate: Gate) -> None:
        """Take in a gate's lines, and those by which its include chain comes to it."""
        place = gate.location
        for line in (gate.lines or (place.line,))[:_ROWS]:
            self._window(place.path, line - _BEFORE, line + _AFTER)
        if gate.count == 1 and place.end_line > place.line:
            self._window(place.path, place.end_line - _END, place.end_line + _END)

    def chain(self, via: Sequence[str]) -> list[int]:
        """For each file of an include chain the line that includes the next; 0 if not found."""
        found = []
        for path, wanted in zip(via, via[1:], strict=False):
            line = self._include_line(path, wanted)
            found.append(line)
            if line:
                self._window(path, line - 2, line + 2)
        return found

    def files(self) -> dict[str, list[list[object]]]:
        """By path the windows: number of the first line, and the text of all its lines."""
        return {path: [[run[0], "\n".join(self._text(path, line) for line in run)]
                       for run in _runs(sorted(lines))]
                for path, lines in sorted(self._shown.items()) if lines}

    def _window(self, path: str, first: int, last: int) -> None:
        lines = self._file(path)
        if lines is None or first > len(lines):
            return
        shown = self._shown.setdefault(path, set())
        wanted = set(range(max(1, first), min(last, len(lines)) + 1)) - shown
        cost = sum(len(self._text(path, line)) + 1 for line in wanted)
        if cost <= self._left:
            self._left -= cost
            shown |= wanted

    def _file(self, path: str) -> list[bytes] | None:
        if path not in self._lines:
            data = self._read(path)
            self._lines[path] = None if data is None else data.split(b"\n")
        return self._lines[path]

    def _text(self, path: str, line: int) -> str:
        text = (self._lines[path] or [])[line - 1].rstrip(b"\r").decode("utf-8", "replace")
        return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"

    def _include_line(self, path: str, wanted: str) -> int:
        """Where ``path`` includes ``wanted``: the directive that agrees with most of its path."""
        key = (path, wanted)
        if key not in self._including:
            best = (0, 0)
            for number, line in enumerate(self._file(path) or (), 1):
                if match := _INCLUDE.match(line):
                    agreed = _common_tail(match[1].decode("utf-8", "replace"), wanted)
                    best = max(best, (agreed, -number))
            self._including[key] = -best[1]
        return self._including[key]


def _common_tail(written: str, path: str) -> int:
    """How many parts of the path, from the last, an include names; 0 unless all it names."""
    parts = [part for part in written.split("/") if part not in (".", "..")]
    ends = path.split("/")[-len(parts):] == parts if parts else False
    return len(parts) if ends else 0


def _runs(numbers: Sequence[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs
