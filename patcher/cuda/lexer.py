"""Finds the directives of a file, in one pass over its bytes.

Follows the order of the language: continuations are removed first (with a map
back to the bytes), then strings, raw strings and comments hide what looks like
a directive.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from patcher.cuda.problems import MAX_DIRECTIVES, MAX_RAW_STRING_WORK
from patcher.edits import Span
from patcher.errors import InputError

_SPLICE = re.compile(r"\\[ \t\f\v\r]*\n")
_WS = r"[ \t\f\v\r\0]*"
_BLOCK = r"/\*(?:(?s:.*?)\*/|(?s:.*)\Z)"
_CLOSED = r"/\*[^*]*\*+(?:[^/*][^*]*\*+)*/"  # for patterns that may fail: matches one way only
_STRING = r'"(?:[^"\\\n]|\\.)*"?'
_CHAR = r"'(?:(?<=[0-9a-fA-F]')(?<!u8')(?=[0-9a-fA-F])|(?:[^'\\\n]|\\.)*'?)"
# the prefix is looked at from behind: every branch of _SCAN has to begin with a
# plain character, or the regular expression engine tries them all everywhere
_RAW = (r'R(?:(?<![\w$]R)|(?<=[^\w$]u8R)|(?<=[^\w$][uUL]R))"'
        r"(?P<{0}>[^ ()\\\t\v\f\n]{{0,16}})\((?s:.*?)\)(?P={0})\"")
_BODY = (r"(?:#|%:(?!%:))(?:[^\n/\"'R]+|" + _BLOCK + r"|//[^\n]*|" + _STRING + "|"
         + _CHAR + r"|{}|[/R])*")
_SCAN = re.compile(
    rf"\n{_WS}(?P<plain>{_BODY.format(_RAW.format('d1'))})"
    rf"|//[^\n]*(?:\n{_WS}//[^\n]*)*"
    rf"|/\*(?:(?s:.*?)\*/(?:{_WS}{_BLOCK})*(?:{_WS}(?P<late>{_BODY.format(_RAW.format('d2'))}))?"
    r"|(?s:.*)\Z)"
    rf"|{_STRING}|{_CHAR}|{_RAW.format('d3')}"
)
# a line without one holds no directive, and nothing that hides one further down
_STOP = re.compile(r'#|%:|/\*|R"')
_CLEAN = re.compile(rf"{_STRING}|{_CHAR}|{_RAW.format('d4')}|(?P<comment>{_BLOCK}|//[^\n]*)")
_WORD = re.compile(rf"(?:#|%:)(?:{_WS}{_CLOSED})*{_WS}([A-Za-z_]\w*)")
_BLANK = re.compile(rf"(?:{_WS}{_CLOSED})*{_WS}\Z")
_HEADER = re.compile(rf"(?:{_WS}{_CLOSED})*{_WS}(<[^>\n]*>|\"[^\"\n]*\")")
_EDGE = " \t\f\v\r\0\n"
CONDITIONAL = frozenset(
    ("if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif"))
KEPT = CONDITIONAL.union(
    ("include", "include_next", "import", "define", "undef", "pragma", "error"))


class Directive(NamedTuple):
    """One directive. ``text`` is what follows its name: a comment is one space there,
    continuations are gone. ``span`` are the bytes of that text without the white space
    and comments around it, ``word`` those of the name. Lines are 1-based."""

    name: str
    text: str
    line: int
    end_line: int
    word: Span
    span: Span


class _Source:
    """A file's text without continuations, and the way back to its bytes and lines."""

    def __init__(self, data: bytes) -> None:
        self.original = data.decode("latin-1")
        self._cuts: list[int] = []  # positions in the spliced text
        self._gone: list[int] = []  # characters removed up to there
        text = self.original
        if "\\" in text and _SPLICE.search(text):
            text = self._splice(text)
        start = 3 if text.startswith("\xef\xbb\xbf") else 0
        self.shift = 1 - start
        self.text = "\n" + text[start:]
        self._line, self._line_at = 1, 0

    def _splice(self, text: str) -> str:
        pieces, position, gone = [], 0, 0
        for match in _SPLICE.finditer(text):
            pieces.append(text[position:match.start()])
            self._cuts.append(match.start() - gone)
            gone += match.end() - match.start()
            self._gone.append(gone)
            position = match.end()
        pieces.append(text[position:])
        return "".join(pieces)

    def offset(self, position: int, *, before: bool = False) -> int:
        """The byte of a position in ``text``; at a cut, the one before or after it."""
        position -= self.shift
        if not self._cuts:
            return position
        index = bisect_right(self._cuts, position - before)
        return position + (self._gone[index - 1] if index else 0)

    def line(self, offset: int) -> int:
        """The line of a byte; asked for in ascending order."""
        self._line += self.original.count("\n", self._line_at, offset)
        self._line_at = offset
        return self._line


def directives(data: bytes) -> list[Directive]:
    """Every directive that matters to conditions, includes and macros, in order.

    Raises InputError for a file that would take too long.
    """
    if b"#" not in data and b"%:" not in data:
        return []
    if data.count(b'R"') * len(data) > MAX_RAW_STRING_WORK:
        raise InputError("too many raw strings for a file of this size")
    source = _Source(data)
    text = source.text
    found: list[Directive] = []
    for match in _matches(text):
        group = match.lastgroup
        if group is None or group == "d3":
            continue
        late = match.start("late")
        start = late if late >= 0 else match.start("plain")
        if start < 0:
            continue
        if late >= 0 and not _BLANK.match(text, text.rfind("\n", 0, match.start()) + 1, late):
            continue
        word = _WORD.match(text, start)
        if word and word[1] in KEPT:
            found.append(_directive(source, word, start, match.end()))
            if len(found) > MAX_DIRECTIVES:
                raise InputError(f"more than {MAX_DIRECTIVES} directives")
    return found


def _matches(text: str) -> Iterator[re.Match[str]]:
    """The matches of _SCAN in the lines that hold a stop: most lines of a kernel have none."""
    position = 0
    while stop := _STOP.search(text, position):
        position = max(position, text.rfind("\n", position, stop.start()))
        while position <= stop.start():
            match = _SCAN.search(text, position)
            if match is None:
                return
            yield match
            position = match.end()


def _directive(source: _Source, word: re.Match[str], hash_at: int, end: int) -> Directive:
    name, begin = word[1], word.end()
    raw = source.text[begin:end]
    first = source.offset(hash_at)
    line = source.line(first)
    clean, start, stop = raw, begin, end
    if "/" in raw:
        header = _HEADER.match(raw) if name.startswith("i") else None
        if header and name in ("include", "include_next", "import"):
            clean, start, stop = header[1], begin + header.start(1), begin + header.end(1)
        else:
            clean, start, stop = _uncomment(raw, begin)
    stripped = clean.lstrip(_EDGE)
    if clean is raw:
        start += len(clean) - len(stripped)
        clean = stripped.rstrip(_EDGE)
        stop = start + len(clean)
    else:
        clean = stripped.rstrip(_EDGE)
    last = source.offset(end, before=True)
    span = Span(source.offset(start), source.offset(max(stop, start), before=stop > start))
    name_span = Span(source.offset(word.start(1)), source.offset(word.end(1), before=True))
    return Directive(name, clean, line, source.line(max(last, first)), name_span, span)


def _uncomment(raw: str, begin: int) -> tuple[str, int, int]:
    """The text with comments as spaces, and where its first and last own characters are."""
    start, stop = len(raw), 0
    pieces, position = [], 0

    def own(low: int, high: int) -> None:
        nonlocal start, stop
        chunk = raw[low:high]
        if chunk.strip(_EDGE):
            start = min(start, low + len(chunk) - len(chunk.lstrip(_EDGE)))
            stop = low + len(chunk.rstrip(_EDGE))

    for match in _CLEAN.finditer(raw):
        if match.group("comment") is None:
            continue
        own(position, match.start())
        pieces += [raw[position:match.start()], " "]
        position = match.end()
    own(position, len(raw))
    pieces.append(raw[position:])
    if stop <= start:
        start = stop = len(raw) - len(raw.lstrip(_EDGE))
    return "".join(pieces), begin + start, begin + stop
