"""Statements of a token sequence, and what kind each of them is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from patcher.cuda.effects.outline import angle_end
from patcher.cuda.effects.tokens import Kind, Token

Statement = tuple[Token, ...]

_CONTROL = frozenset({"if", "else", "for", "while", "switch", "do", "try", "catch"})
_DECLARES = frozenset(
    {
        "using", "typedef", "namespace", "static_assert", "struct", "class", "union", "enum",
        "extern", "template", "friend", "const", "constexpr", "static", "volatile", "auto",
        "alignas", "register", "thread_local", "inline", "typename", "unsigned", "signed", "bool",
        "char", "short", "int", "long", "float", "double", "void", "size_t", "__shared__",
        "__constant__", "__device__", "__align__", "__restrict__",
    }
)
_QUALIFIERS = frozenset({"*", "&", "&&", "const", "volatile", "__restrict__"})
_NO_STATEMENT = frozenset({"return", "goto", "delete", "throw", "new", "case", "default", "asm"})
_ASM = frozenset({"asm", "__asm__", "__asm"})
_BLOCK_WORDS = frozenset({"else", "do", "try"})


@cache
def _table() -> dict[str, dict[str, tuple[str, ...]]]:
    data = json.loads((Path(__file__).parents[2] / "data" / "sync.json").read_text("utf-8"))
    return {
        part: {key: tuple(values) for key, values in data[part].items()}
        for part in ("sync", "trap")
    }


def statements(tokens: Iterable[Token]) -> Iterator[Statement]:
    """Split at semicolons and block braces; blocks are flattened, directives dropped.

    An ``if (...)`` in front of a block becomes a statement of its own.
    """
    current: list[Token] = []
    depth = 0  # parentheses and braces of an initialiser or a lambda
    for token in tokens:
        if token.kind is Kind.DIRECTIVE:
            continue
        text = token.text if token.kind is Kind.PUNCT else ""
        if text in ("(", "[") or (text == "{" and (depth or _initialises(current))):
            depth += 1
        elif text in (")", "]", "}") and depth:
            depth -= 1
        elif text in ("{", "}", ";") and not depth:
            if current:
                yield tuple(current)
            current = []
            continue
        current.append(token)
    if current:
        yield tuple(current)


def _initialises(before: Sequence[Token]) -> bool:
    """True when a brace after these tokens begins a value, not a block."""
    if not before or before[0].text in _CONTROL | {"namespace", "struct", "class", "union", "enum"}:
        return False
    last = before[-1]
    if last.kind is Kind.NAME:
        return last.text not in _BLOCK_WORDS
    return last.text in ("=", ",", "]", ">")


def without_control(statement: Statement) -> Statement:
    """The statement behind any ``if (...)``, ``else``, ``for (...)`` in front of it."""
    rest = statement
    while rest and rest[0].text in _CONTROL:
        rest = rest[1:]
        if rest and rest[0].text == "constexpr":
            rest = rest[1:]
        if rest and rest[0].text == "(":
            rest = rest[_closing(rest) + 1 :]
    return rest


def _closing(tokens: Sequence[Token]) -> int:
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0:
            return index
    return len(tokens) - 1


def is_declaration(statement: Statement) -> bool:
    """A declaration, static_assert, using or namespace alias, whatever its initialiser."""
    if not statement or statement[0].kind is not Kind.NAME:
        return False
    if statement[0].text in _DECLARES:
        return True
    if statement[0].text in _NO_STATEMENT:
        return False
    index = _type_end(statement)
    while index < len(statement) and statement[index].text in _QUALIFIERS:
        index += 1
    if index >= len(statement) or statement[index].kind is not Kind.NAME:
        return False
    after = statement[index + 1].text if index + 1 < len(statement) else ""
    return after in ("", "=", "[", "{", "(", ",")


def _type_end(statement: Statement) -> int:
    """The index behind ``A::B<...>::C`` at the start."""
    index = 1
    while index < len(statement):
        text = statement[index].text
        if text == "<":
            end = angle_end(_texts(statement), index)
            if end == index:
                break
            index = end
        elif text == "::":
            index += 2
        else:
            break
    return index


def is_return(statement: Statement) -> bool:
    """A return without a call."""
    return bool(statement) and statement[0].text == "return" and "(" not in _texts(statement)


def is_sync(statement: Statement) -> bool:
    """Nothing but synchronisation, by the table; an unknown token is never sync."""
    if not statement or any(t.kind is Kind.OTHER for t in statement):
        return False
    if statement[0].text in _ASM:
        return _asm_holds(statement, _table()["sync"]["asm"])
    texts = _texts(statement)
    if texts[-1] != ")":
        return False
    opening = _last_opening(texts)
    arguments = statement[opening + 1 : -1]
    if any(t.kind not in (Kind.NAME, Kind.NUMBER) and t.text != "," for t in arguments):
        return False
    name, before = texts[opening - 1], texts[: opening - 1]
    if name in _table()["sync"]["calls"]:
        return all(text == "::" or _is_name(text) for text in before) and (
            not before or before[-1] == "::"
        )
    receiver = all(text in ("::", ".", "->", "(", ")") or _is_name(text) for text in before)
    return (name in _table()["sync"]["methods"] and receiver and bool(before)
            and before[-1] in (".", "->"))


def is_trap(statement: Statement) -> bool:
    """A statement that ends the kernel, or a message that says the code is not for this arch."""
    table = _table()["trap"]
    texts = _texts(statement)
    if any(message in t.text for t in statement if t.kind is Kind.STRING
           for message in table["strings"]):
        return True
    if statement[0].text in _ASM:
        return _asm_holds(statement, table["asm"])
    for position, text in enumerate(texts[:-1]):
        if texts[position + 1] == "(" and text in table["calls"]:
            return True
        arguments = texts[position + 1 : position + 3]
        if text in table["asserts"] and arguments in (["(", "0"], ["(", "false"]):
            return True
    return False


def is_talk(statement: Statement) -> bool:
    """A message, or a cast to void: of no consequence beside a trap."""
    texts = _texts(statement)
    return texts[0] in _table()["trap"]["talk"] or texts[:3] == ["(", "void", ")"]


def _asm_holds(statement: Statement, prefixes: tuple[str, ...]) -> bool:
    """True when the assembler text holds only instructions with these prefixes."""
    texts = [t.text for t in statement[1:] if t.text not in ("volatile", "__volatile__")]
    if len(texts) < 3 or texts[0] != "(" or texts[-1] != ")":
        return False
    strings = [t.text for t in statement if t.kind is Kind.STRING]
    operands = [text for text in texts[1:-1] if not text.startswith('"')]
    if any(text not in (":", "::", ",") for text in operands):
        return False  # it reads or writes something
    program = "".join(text.strip('"') for text in strings if text != '"memory"')
    parts = [part.strip() for part in re.split(r";|\\n|\\t|\n|[{}]", program)]
    wanted = [part for part in parts if part]
    return bool(wanted) and all(part.startswith(prefixes) for part in wanted)


def _last_opening(texts: Sequence[str]) -> int:
    depth = 0
    for index in range(len(texts) - 1, -1, -1):
        depth += (texts[index] == ")") - (texts[index] == "(")
        if depth == 0:
            return index
    return 0


def _is_name(text: str) -> bool:
    return text[0].isalpha() or text[0] == "_"


def _texts(statement: Statement) -> list[str]:
    return [token.text for token in statement]
