"""A C++ tokenizer on bytes, good enough to find statements, braces and names.

Directives are one token each, comments and white space none. A character that
starts no token becomes a token of kind OTHER; nothing is dropped silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

# Line splices may stand between tokens; inside a token they do not occur in practice.
_COMMENT = rb"//(?:[^\n\\]|\\\r?\n|\\.)*|/\*.*?(?:\*/|\Z)"
_RAW = rb'(?:u8|[uUL])?R"(?P<fence>[^\s()\\"]{0,16})\(.*?\)(?P=fence)"'
_STRING = rb'(?:u8|[uUL])?"(?:[^"\\\n]|\\\r?\n|\\.)*"'
_CHARACTER = rb"(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+'"
_TOKEN = re.compile(
    rb"(?P<skip>(?:[ \t\r\v\f]|\\\r?\n)+|" + _COMMENT + rb")"
    rb"|(?P<newline>\n)"
    rb"|(?P<directive>\#(?:[^\n\\/]|\\\r?\n|\\.|" + _COMMENT + rb"|/)*)"
    rb"|(?P<raw>" + _RAW + rb")"
    rb"|(?P<string>" + _STRING + rb"|" + _CHARACTER + rb")"
    rb"|(?P<name>[A-Za-z_$\x80-\xff][\w$\x80-\xff]*)"
    rb"|(?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)"
    rb"|(?P<punct>::|->|\+\+|--|<<=|>>=|&&|\|\||[-+*/%&|^=<>!]=|<<|[][{}()<>;,:?.~!%^&*+=|/\-])"
    rb"|(?P<other>.)",
    re.DOTALL,
)
# Every alternative begins with a plain character: the engine then skips all other bytes at once.
_PLAIN = rb'"[^"\\\n]*(?:\\(?:\r\n|.)[^"\\\n]*)*"'
_FENCED = rb'R"(?P<fence>[^\s()\\"]{0,16})\(.*?\)(?P=fence)"'
_QUOTED = rb"'(?<![0-9a-zA-Z_]')(?:[^'\\\n]|\\.)+'"
_STRINGS = _PLAIN + rb"(?:[^\"'/R]*" + _PLAIN + rb"){0,64}"  # a run of them is one match
_BLANK = re.compile(
    rb"/(?P<comment>/[^\n\\]*(?:\\(?:\r\n|.)[^\n\\]*)*|\*.*?(?:\*/|\Z))"
    rb"|" + _FENCED + rb"|" + _STRINGS + rb"|" + _QUOTED, re.DOTALL)
_LITERAL = re.compile(rb"(" + _FENCED + rb"|" + _PLAIN + rb"|" + _QUOTED + rb")", re.DOTALL)
_DIRECTIVE = re.compile(rb"#(?:[^\n\\]|\\\r?\n|\\.)*")
_WORD = re.compile(rb"[A-Za-z_$\x80-\xff][\w$\x80-\xff]*|\d[\w.']*|::|->|&&|<<|>>|[^\s\w]")
_SPACES = bytes(10 if byte == 10 else 32 for byte in range(256))


class Kind(str, Enum):
    NAME = "name"
    NUMBER = "number"
    STRING = "string"
    PUNCT = "punct"
    DIRECTIVE = "directive"
    OTHER = "other"


_KINDS = {
    "raw": Kind.STRING,
    "string": Kind.STRING,
    "name": Kind.NAME,
    "number": Kind.NUMBER,
    "punct": Kind.PUNCT,
    "other": Kind.OTHER,
}


class Token(NamedTuple):
    """A token and the 1-based physical line it starts on."""

    kind: Kind
    text: str
    line: int


def tokens(data: bytes, line: int = 1) -> Iterator[Token]:
    """The tokens of a piece of source that starts on ``line``, outside any comment."""
    fresh = True  # only white space and comments so far on this line
    for match in _TOKEN.finditer(data):
        group = match.lastgroup
        text = match.group()
        if group == "newline":
            fresh = True
        elif group == "directive":
            kind = Kind.DIRECTIVE if fresh else Kind.OTHER
            yield Token(kind, text.decode("utf-8", "replace"), line)
        elif group != "skip":
            yield Token(_KINDS[str(group)], text.decode("utf-8", "replace"), line)
            fresh = False
        line += text.count(b"\n")


def blank_comments(data: bytes) -> bytes:
    """The source with every comment replaced by spaces; offsets and lines stay."""
    return _BLANK.sub(_blank, data)


def bare_code(code: bytes) -> bytes:
    """Code without comments (``blank_comments``), its directives and literals blanked too."""
    parts = _LITERAL.split(_without_directives(code))  # text, literal, its fence, text, ...
    parts[1::3] = [literal.translate(_SPACES) for literal in parts[1::3]]
    del parts[2::3]
    return b"".join(parts)


def _without_directives(code: bytes) -> bytes:
    pieces, position = [], 0
    start, place = 0, code.find(b"#")
    while place >= 0:
        start = code.rfind(b"\n", start, place) + 1 or start
        directive = None if code[start:place].strip(b" \t") else _DIRECTIVE.match(code, place)
        if directive:
            pieces += [code[position:start], code[start : directive.end()].translate(_SPACES)]
            position = directive.end()
        start = directive.end() if directive else code.find(b"\n", place)
        place = code.find(b"#", start) if start >= 0 else -1
    return b"".join([*pieces, code[position:]])


def words(bare: bytes) -> list[str]:
    """The tokens of bare code as texts."""
    return [match.decode("utf-8", "replace") for match in _WORD.findall(bare)]


def _blank(match: re.Match[bytes]) -> bytes:
    text = match.group()
    if match.lastgroup != "comment":
        return text
    blank = text.translate(_SPACES)
    if b"\n" not in text:
        return blank
    head = match.string[match.string.rfind(b"\n", 0, match.start()) + 1 : match.start()]
    # a directive goes on behind a comment of several lines: a splice keeps it one
    return blank.replace(b" \n", b"\\\n") if head.lstrip().startswith(b"#") else blank


def comments(data: bytes) -> Iterator[tuple[int, str]]:
    """Every comment with the 1-based line it starts on."""
    line, counted = 1, 0
    for match in _BLANK.finditer(data):
        if match.lastgroup == "comment":
            line += data.count(b"\n", counted, match.start())
            counted = match.start()
            yield line, match.group().decode("utf-8", "replace")
