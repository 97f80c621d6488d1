"""What stands beside a gate: comments, messages, and words that name hardware."""

from __future__ import annotations

import ast
import re

from patcher.arch import ArchSet
from patcher.gates import Cause, Evidence
from patcher.python.index import Module
from patcher.python.vocabulary import vocabulary

_COMMENT = re.compile(r"^[^\"'#]*#\s?(.*)$")
_MAX_BLOCK = 12
_MAX_TEXT = 300


class Notes:
    """Comments of one module by line."""

    def __init__(self, module: Module) -> None:
        self._path = module.path
        self._lines = module.lines

    def beside(self, first: int, last: int) -> list[Evidence]:
        """The comment block above a statement (or above the plain statement before it), the
        comments on its own lines, and those that begin the arm below it."""
        found = self._block_above(first)
        for line in range(first, min(last, first + _MAX_BLOCK) + 1):
            if text := self._comment(line):
                found.append(Evidence(self._path, line, text))
        return found

    def _block_above(self, first: int) -> list[Evidence]:
        line = first - 1
        if not self._is_comment(line) and self._is_plain(line, first):
            line -= 1
        block: list[str] = []
        while self._is_comment(line) and len(block) < _MAX_BLOCK:
            block.append(self._comment(line))
            line -= 1
        text = " ".join(reversed(block)).strip()
        return [Evidence(self._path, line + 1, text)] if text else []

    def _line(self, line: int) -> str:
        text = self._lines[line - 1] if 0 < line <= len(self._lines) else b""
        return text.decode("utf-8", "replace")

    def _is_comment(self, line: int) -> bool:
        return self._line(line).lstrip().startswith("#")

    def _is_plain(self, line: int, below: int) -> bool:
        """A one-line assignment at the same depth as the line below."""
        text, under = self._line(line), self._line(below)
        depth = len(text) - len(text.lstrip())
        same_depth = depth == len(under) - len(under.lstrip())
        return same_depth and bool(re.match(r"\s*\w+ = .*[)\w]$", text))

    def _comment(self, line: int) -> str:
        match = _COMMENT.match(self._line(line))
        return match[1].strip() if match else ""


def message(path: str, body: list[ast.stmt]) -> list[Evidence]:
    """What the error says that a refusing arm raises."""
    for statement in body:
        if isinstance(statement, ast.Raise) and statement.exc is not None:
            text = ast.unparse(statement.exc)[:_MAX_TEXT]
            return [Evidence(path, statement.lineno, text)]
    return []


def judge(notes: list[Evidence], place: str, opened: ArchSet) -> tuple[Cause, tuple[Evidence, ...]]:
    """The cause that words beside a gate support, with those words; unknown without any."""
    words = vocabulary()
    for note in notes:
        said = words.intended.search(note.text)
        if said and words.names_an_architecture.search(note.text):
            return Cause.INTENDED, (_quoted(note, said),)
    for marker in words.hardware_markers:
        able = ArchSet.of(*marker.has)
        if not opened or not opened <= able:
            continue
        for note in notes:
            if said := marker.word.search(note.text):
                why = Evidence(note.path, note.line, marker.why)
                return Cause.HARDWARE, (_quoted(note, said), why)
        if match := marker.word.search(place):
            line = notes[0].line if notes else 0
            return Cause.HARDWARE, (
                Evidence(place.split("\0")[0], line, f"{match[0]}: {marker.why}"),)
    told = [n for n in notes if words.names_an_architecture.search(n.text)]
    return Cause.UNKNOWN, tuple(_quoted(note, None) for note in told[:2])


def _quoted(note: Evidence, said: re.Match[str] | None) -> Evidence:
    """The note with at most ``_MAX_TEXT`` characters, those that were said among them."""
    if len(note.text) <= _MAX_TEXT:
        return note
    start = max(0, (said.end() if said else 0) - _MAX_TEXT + 40)
    cut = note.text[start:start + _MAX_TEXT]
    return Evidence(note.path, note.line, f"... {cut}" if start else cut)
