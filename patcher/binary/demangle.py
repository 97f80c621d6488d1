"""Readable C++ names, by the C++ runtime that is there; the mangled name otherwise."""

from __future__ import annotations

import ctypes
import ctypes.util
from functools import cache


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
