"""TOML, read by the standard library where it has a reader (Python 3.11)."""

from __future__ import annotations

import sys
from typing import Any

from patcher.errors import InputError


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """The document as plain values; raises InputError with the line that is wrong."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        document: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not TOML: {error}", where=where) from error
    return document
