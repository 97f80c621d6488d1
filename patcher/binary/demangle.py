"""Readable C++ names, by the C++ runtime that is there; the mangled name otherwise."""

from __future__ import annotations

import ctypes
import ctypes.util
import re
from collections.abc import Iterator
from functools import cache

_LENGTH = re.compile(r"[1-9]\d{0,2}")
_NAME = re.compile(r"[A-Za-z_]\w*")
_NUMBERS = re.compile(r"L[a-z]n?\d+E|S[0-9A-Z]*_")  # literals, and references to earlier parts
_TELLING = 20  # characters: GemmUniversal is in every name, MainloopSm90TmaGmma... in some


@cache
def _demangler() -> tuple[ctypes.CDLL, ctypes.CDLL] | None:
    name = ctypes.util.find_library("stdc++") or "libstdc++.so.6"
    try:
        runtime, libc = ctypes.CDLL(name), ctypes.CDLL(None)
        runtime.__cxa_demangle.restype = ctypes.c_void_p
    except (OSError, AttributeError):
        return None
    return runtime, libc


def demangle(name: str) -> str:
    """``_ZN3c104cuda...`` as C++ writes it; unchanged when it cannot be read."""
    found = _demangler()
    if found is None or not name.startswith("_Z"):
        return name
    runtime, libc = found
    status = ctypes.c_int()
    result = runtime.__cxa_demangle(name.encode(), None, None, ctypes.byref(status))
    if status.value != 0 or not result:
        return name
    text = ctypes.string_at(result).decode("utf-8", "replace")
    libc.free(ctypes.c_void_p(result))
    return text


def readable(name: str, width: int = 120) -> str:
    """A name for people, cut to a width; of one that the runtime cannot read (those of CUTLASS
    are too deep for it) the long identifiers in it, which tell such kernels apart."""
    text = demangle(name)
    if text == name and name.startswith("_Z"):
        words = dict.fromkeys(word for word in _identifiers(name) if len(word) >= _TELLING)
        text = ", ".join(words) or name
    return text[:width]


def _identifiers(name: str) -> Iterator[str]:
    """The source names in a mangled one: each stands behind its own length."""
    name = _NUMBERS.sub("", name)
    position = 2
    while match := _LENGTH.search(name, position):
        position = match.end() + int(match[0])
        if position <= len(name) and _NAME.fullmatch(name, match.end(), position):
            yield name[match.end():position]
        else:
            position = match.end()  # a number of something else
