"""Lists, versions, order and regular expressions as CMake has them."""

from __future__ import annotations

import re
from functools import cmp_to_key, lru_cache

HOLE = "\0unknown\0"  # in place of a value that only the machine could give
MAX_VALUE = 1 << 20  # characters of a value
_MAX_MATCHED = 64 << 10
_MAX_REPEATS = 6
_FALSE = frozenset({"", "0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND"})
_TRUE = frozenset({"1", "ON", "YES", "TRUE", "Y"})


def is_unknown(text: str) -> bool:
    """True for a value that an unknown one is a part of."""
    return HOLE in text


def is_false(text: str) -> bool:
    return text.upper() in _FALSE or text.upper().endswith("-NOTFOUND")


def is_true_constant(text: str) -> bool:
    if text.upper() in _TRUE:
        return True
    try:
        return float(text) != 0
    except ValueError:
        return False


def split_list(text: str) -> list[str]:
    """The items of ``a;b``; none for an empty text. ``\\;`` and brackets keep one together."""
    if not text:
        return []
    if "\\" not in text and "[" not in text:
        return text.split(";")
    items, start, depth = [""], 0, 0
    while start < len(text):
        char = text[start]
        if char == "\\" and text[start + 1:start + 2] == ";":
            items[-1] += ";"
            start += 2
            continue
        depth += (char == "[") - (char == "]" and depth > 0)
        if char == ";" and not depth:
            items.append("")
        else:
            items[-1] += char
        start += 1
    return items


def join_list(items: list[str]) -> str:
    return ";".join(items)


def compare_versions(left: str, right: str) -> int:
    """Negative, 0 or positive. Number by number; what is no number counts as 0 and ends it."""
    a, b = 0, 0
    while left[a:a + 1].isdigit() or right[b:b + 1].isdigit():
        x, a = _number(left, a)
        y, b = _number(right, b)
        if x != y:
            return -1 if x < y else 1
        a += left[a:a + 1] == "."
        b += right[b:b + 1] == "."
    return 0


def _number(text: str, start: int) -> tuple[int, int]:
    end = start
    while text[end:end + 1].isdigit() and text[end].isascii():
        end += 1
    return int(text[start:end][:18] or "0"), end


def compare_natural(left: str, right: str) -> int:
    """The order of ``list(SORT COMPARE NATURAL)``: runs of digits by their value.

    A run with a leading zero is a fraction there; then the characters decide.
    """
    at, run, zeros = 0, 0, True
    while at < len(left) and at < len(right) and left[at] == right[at]:
        if not left[at].isdigit():
            run, zeros = at + 1, True
        elif left[at] != "0":
            zeros = False
        at += 1
    if at == len(left) and at == len(right):
        return 0
    a, b = left[at:at + 1] or "\0", right[at:at + 1] or "\0"
    if left[run:run + 1] != "0" and right[run:run + 1] != "0":
        long_left, long_right = _digits(left, at), _digits(right, at)
        if long_left != long_right:
            return 1 if long_left > long_right else -1
    elif zeros and run < at and (a.isdigit() or b.isdigit()):
        return ((ord(a) - 48) & 255) - ((ord(b) - 48) & 255)
    return ord(a) - ord(b)


def _digits(text: str, start: int) -> int:
    end = start
    while text[end:end + 1].isdigit():
        end += 1
    return end - start


natural_key = cmp_to_key(compare_natural)


@lru_cache(maxsize=512)
def pattern(text: str) -> re.Pattern[str] | None:
    """CMake's regular expression as ours; None for one that is wrong, or could take for ever.

    There braces are plain characters and a backslash in brackets is one, too.
    """
    if _is_costly(text):
        return None
    parts, at = [], 0
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            parts.append(re.escape(text[at + 1]))
            at += 2
        elif char == "[":
            end = text.find("]", at + 2 + (text[at + 1:at + 2] == "^"))
            if end < 0:
                return None
            parts.append(text[at:end].replace("\\", "\\\\").replace("&&", "&\\&") + "]")
            at = end + 1
        else:
            parts.append({"{": r"\{", "}": r"\}", "$": r"\Z"}.get(char, char))
            at += 1
    try:
        return re.compile("".join(parts), re.DOTALL)
    except re.error:
        return None


def search(expression: str, text: str) -> re.Match[str] | None:
    """The first match; raises ValueError where no answer can be had."""
    compiled = pattern(expression)
    if compiled is None or len(text) > _MAX_MATCHED:
        raise ValueError("not to be matched")
    return compiled.search(text)


def _is_costly(text: str) -> bool:
    """A repeated group that itself repeats or chooses; or many repetitions in a row."""
    bare = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "x", text)
    if len(re.findall(r"[*+?]", bare)) > _MAX_REPEATS:
        return True
    return bool(re.search(r"\([^()]*(?:[*+?|]|\()[^()]*\)+[*+]", bare))
