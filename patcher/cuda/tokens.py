"""Preprocessing tokens of one logical line, comments and continuations already gone.

Text is bytes decoded as Latin-1 throughout: one character is one byte, and the
bytes of UTF-8 identifiers count as letters.
"""

from __future__ import annotations

import re

Tokens = tuple[str, ...]

SPACES = re.compile(r"[ \t\f\v\r\n\0]+")
_TOKEN = re.compile(
    r"[ \t\f\v\r\n\0]+"
    r'|(?:u8|[uUL])?R"([^ ()\\\t\v\f\n]{0,16})\((?s:.*?)\)\1"'
    r"|(?:u8|[uUL])?\"(?:\\.|[^\"\\])*\"|(?:u8|[uUL])?'(?:\\.|[^'\\])*'"
    r"|[A-Za-z_$\x80-\xff][\w$\x80-\xff]*"
    r"|\.?[0-9](?:[eEpP][+-]|'(?=[0-9A-Za-z_])|[\w.\x80-\xff])*"
    r"|%:%:|<=>|\.\.\.|<<=|>>=|->\*|##|%:|<%|%>|<:(?!:(?![:>]))|:>"
    r"|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|->|::|[-+*/%&|^]=|\.\*|(?s:.)"
)
_DIGRAPHS = {"%:": "#", "%:%:": "##", "<%": "{", "%>": "}", "<:": "[", ":>": "]"}
ALTERNATIVE = {
    "and": "&&", "or": "||", "not": "!", "xor": "^", "bitand": "&", "bitor": "|",
    "compl": "~", "not_eq": "!=", "and_eq": "&=", "or_eq": "|=", "xor_eq": "^=",
}
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_$").union(
    map(chr, range(0x80, 0x100))
)


def tokenise(text: str) -> Tokens:
    """Tokens in order; a run of white space is one token ``" "``, none at the ends."""
    found = []
    for match in _TOKEN.finditer(text.strip(" \t\f\v\r\n\0")):
        token = match[0]
        if token[0] in " \t\f\v\r\n\0":
            found.append(" ")
        else:
            found.append(_DIGRAPHS.get(token, token))
    return tuple(found)


def is_identifier(token: str) -> bool:
    """True for names; the alternative tokens are operators in C++."""
    return token[0] in _LETTERS and token[-1] not in "\"'" and token not in ALTERNATIVE


def significant(tokens: Tokens | list[str]) -> list[str]:
    """The tokens without white space."""
    return [token for token in tokens if token != " "]
