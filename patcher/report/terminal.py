"""How text is shown: as wide as there is room, in colour only on a terminal.

Pipes get 80 columns, whole words and no colour, so that what reads them finds paths and
commands in one piece. A terminal gets its own width, strictly: what is too long breaks after
a ``/``, and a command goes on behind a ``\\``, which a shell takes as it stands.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import IO

PIPE = 80
WIDEST = 120  # longer lines are hard to read
_WHOLE = re.compile(r"\s*(?:next|Next|repair|or|this goes through|also there)\b[^:]*: "
                    r"|\s*sm-patch [a-z]+ |absent +\S+: |\S+ --hash=")
_HUNK = re.compile(r"\s*@@ -\d")
_COLOURS = (  # first that matches a line, or a part of it
    (re.compile(r"^(?:next|Next): .*"), "36"),
    (re.compile(r"\[critical\]|\bcritical:|(?<!\bno )(?<!\b0 )(?<!without a )\bhollow\b"
                r"|\bNOT proven\b|\bconflict\b|\bdrifted\b|\blost\b"
                r"|\berror\b(?=[: ])|^sm-patch: "), "31"),
    (re.compile(r"\[warning\]|\bwarning:|\bpartial\b|\bnote:|\beffective: (?:no|after-restart)"),
     "33"),
    (re.compile(r"\bopened by \S+|\bapplicable\b|\bcan be opened\b"), "34"),
    (re.compile(r"\bProven\b|\beffective: yes\b|\balready-applied\b|\bnothing to do\b"), "32"),
)
_DIFF = ((("+++", "---", "diff ", "# "), "1"), (("@@",), "36"), (("+",), "32"), (("-",), "31"))


def is_terminal(stream: IO[str]) -> bool:
    """False too for a stream that is closed."""
    try:
        return stream.isatty()
    except ValueError:
        return False


def columns(stream: IO[str] | None = None, environ: Mapping[str, str] = os.environ) -> int:
    """The width to write for: the terminal's, or 80."""
    if not is_terminal(stream or sys.stdout):
        return PIPE
    known = environ.get("COLUMNS", "")
    if known.isdigit() and int(known) > 0:
        return max(20, min(int(known), WIDEST))
    return max(20, min(shutil.get_terminal_size((PIPE, 24)).columns, WIDEST))


def wants_colour(stream: IO[str], environ: Mapping[str, str] = os.environ) -> bool:
    """Only on a terminal that can, and never against https://no-color.org."""
    return (is_terminal(stream) and not environ.get("NO_COLOR")
            and environ.get("TERM", "") not in ("dumb", ""))


def shown(text: str, stream: IO[str], *, answer: bool = True) -> str:
    """Text for people as this stream shows it; ``answer``: the first line is the answer."""
    fitted = fit(text, columns(stream), strict=is_terminal(stream))
    return paint(fitted, answer=answer) if wants_colour(stream) else fitted


def fit(text: str, width: int, *, strict: bool) -> str:
    """Lines of at most ``width``; not ``strict``: longer words, commands and the answer stay."""
    return "\n".join(_fitted(text.split("\n"), width, strict))


def _fitted(lines: Iterable[str], width: int, strict: bool) -> Iterator[str]:
    """Lines of a diff stay as they are: what they hold is not talk."""
    margin: str | None = None  # that of the diff we are in
    for number, line in enumerate(lines):
        if _HUNK.match(line):
            margin = line[: line.index("@")]
        elif margin is not None and not line.startswith(
                (f"{margin}+", f"{margin}-", f"{margin} ", f"{margin}\\")):
            margin = None
        if margin is not None or len(line) <= width or (number == 0 and not strict):
            yield line
        else:
            yield from _fit_line(line, width, strict)


def _fit_line(line: str, width: int, strict: bool) -> Iterator[str]:
    lead = len(line) - len(line.lstrip(" "))
    if _WHOLE.match(line):
        yield from _fit_command(line, width, lead + 8) if strict else (line,)
        return
    indent = " " * min(lead + 2, width // 2)
    current = ""
    for word in _words(line, width - len(indent), strict):
        if current and len(current) + len(word.rstrip(" ")) > width:
            yield current.rstrip(" ")
            current = indent
            word = word.lstrip(" ")
        current += word
    yield current.rstrip(" ")


def _words(line: str, room: int, strict: bool) -> Iterator[str]:
    """The line's words, each with the blanks before it; over-long ones in parts."""
    for word in re.findall(r" *[^ ]+| +$", line):
        if strict and len(word) > room:
            yield from _parts(word, room)
        else:
            yield word


def _parts(word: str, room: int) -> Iterator[str]:
    """Pieces that end behind a slash, or where there is none wherever it has to be."""
    while len(word) > room:
        cut = max(word.rfind(sign, 1, room) for sign in "/_,") + 1
        cut = cut if cut > room // 3 else room
        yield word[:cut]
        word = word[cut:]
    if word:
        yield word


def _fit_command(line: str, width: int, indent: int) -> Iterator[str]:
    """A command over several lines, each but the last with a backslash behind it."""
    current = ""
    for word in re.findall(r" *[^ ]+", line):
        if current.strip() and len(current) + len(word) > width - 2:
            yield f"{current} \\"
            current, word = " " * min(indent, width // 2), word.lstrip(" ")
        current += word
    yield current


def paint(text: str, *, answer: bool = True) -> str:
    """The answer in bold, the next command and what is grave in colour."""
    first, *rest = text.split("\n")
    return "\n".join([_colour(first, "1") if answer else _painted(first), *map(_painted, rest)])


def _painted(line: str) -> str:
    for pattern, code in _COLOURS:
        if pattern.search(line):
            return pattern.sub(f"\x1b[{code}m\\g<0>\x1b[0m", line)
    return line


def paint_diff(text: str) -> str:
    """A diff as git shows it."""
    return "\n".join(
        next((_colour(line, code) for starts, code in _DIFF if line.startswith(starts)), line)
        for line in text.split("\n"))


def _colour(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if text else text
