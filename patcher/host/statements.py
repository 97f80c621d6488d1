"""C++ tokens as statements: where one ends, what an ``if`` has, which ones refuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patcher.host.values import Value, Values, evaluate, words

_NEVER = (["false"], ["0"])


@dataclass(frozen=True, slots=True)
class If:
    """``if`` with its two parts as token ranges; the second may be empty."""

    first: int
    condition: Sequence[str]
    value: Value | None
    then: range
    other: range


def ifs(texts: Sequence[str], values: Values) -> Iterator[If]:
    """Every ``if`` of a function, outer ones first."""
    for position, text in enumerate(texts[:-1]):
        opening = position + 1 + (texts[position + 1] == "constexpr")
        if text == "if" and texts[opening : opening + 1] == ["("]:
            end = closing(texts, opening)
            inner = texts[opening + 1 : end]
            then = range(end + 1, statement_end(texts, end + 1))
            other = range(0)
            if texts[then.stop : then.stop + 1] == ["else"]:
                other = range(then.stop + 1, statement_end(texts, then.stop + 1))
            yield If(position, inner, evaluate(inner, values), then, other)


def refuses(block: Sequence[str]) -> bool:
    """True when the block's own statements (not those of nested blocks) refuse."""
    depth = 0
    for position, text in enumerate(block):
        depth += (text == "{") - (text == "}")
        if depth <= 1 and refusal(block, position):
            return True
    return False


def refusal(texts: Sequence[str], position: int) -> bool:
    """``throw``, a macro that throws, or a check of ``false``."""
    text = texts[position]
    if text in words("refusals"):
        return True
    return text in words("checks") and texts[position + 1 : position + 2] == ["("] and (
        arguments(texts[position + 2 : closing(texts, position + 1)])[0] in _NEVER)


def statement_end(texts: Sequence[str], start: int) -> int:
    """The index behind the statement that begins at ``start``, its else parts included."""
    position = start
    while texts[position : position + 1] == ["if"]:
        opening = position + 1 + (texts[position + 1 : position + 2] == ["constexpr"])
        position = statement_end(texts, closing(texts, opening) + 1)
        if texts[position : position + 1] != ["else"]:
            return position
        position += 1
    depth = 0
    for index in range(position, len(texts)):
        depth += (texts[index] in ("(", "{", "[")) - (texts[index] in (")", "}", "]"))
        if depth == 0 and texts[index] in (";", "}"):
            return index + 1
    return len(texts)


def closing(texts: Sequence[str], start: int) -> int:
    """The index of the bracket that closes the one at ``start``."""
    opener = texts[start] if start < len(texts) else "("
    closer = {"(": ")", "{": "}", "[": "]"}.get(opener, ")")
    depth = 0
    for index in range(start, len(texts)):
        depth += (texts[index] == opener) - (texts[index] == closer)
        if depth == 0:
            return index
    return len(texts)


def arguments(texts: Sequence[str]) -> list[list[str]]:
    """What stands between the commas of a call."""
    parts: list[list[str]] = [[]]
    depth = 0
    for text in texts:
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        if text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(text)
    return parts
