"""Values of dataclasses as JSON and back, by their declared types.

Only what a report is made of: dataclasses, enums, sets of worlds, targets, paths,
tuples, mappings with text keys, and plain values. Nothing in a document can name a
type, so that a file on disk is data and never code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from patcher.arch import ArchSet, Target, target

Convert = Callable[[Any], Any]


def _plain(value: Any) -> Any:
    return value


@cache
def encoder(kind: Any) -> Convert:
    """Turns a value of this type into what JSON can hold. Raises TypeError for other types."""
    made = _special(kind)
    if made is not None:
        return made[0]
    inner = _inner(kind)
    if get_origin(kind) is tuple:
        one = encoder(inner[0])
        return lambda value: [one(item) for item in value]
    if get_origin(kind) is Mapping:
        one = encoder(inner[1])
        return lambda value: {key: one(item) for key, item in value.items()}
    if _is_optional(kind):
        one = encoder(inner[0])
        return lambda value: None if value is None else one(value)
    parts = [(name, encoder(hint)) for name, hint in _hints(kind)]
    return lambda value: [encode(getattr(value, name)) for name, encode in parts]


@cache
def decoder(kind: Any) -> Convert:
    """The way back; raises TypeError, ValueError or KeyError for a document of another shape."""
    made = _special(kind)
    if made is not None:
        return made[1]
    inner = _inner(kind)
    if get_origin(kind) is tuple:
        one = decoder(inner[0])
        if one is _plain:
            return tuple
        return lambda value: tuple([one(item) for item in value])
    if get_origin(kind) is Mapping:
        one = decoder(inner[1])
        return lambda value: {key: one(item) for key, item in value.items()}
    if _is_optional(kind):
        one = decoder(inner[0])
        return lambda value: None if value is None else one(value)
    parts = [decoder(hint) for _, hint in _hints(kind)]
    return lambda value: kind(
        *[part(item) for part, item in zip(parts, value, strict=True)])


def _special(kind: Any) -> tuple[Convert, Convert] | None:
    if kind in (str, int, bool, float, NoneType):
        return _plain, _plain
    if kind is Path:
        return str, Path
    if kind is bytes:
        return (lambda value: value.decode("latin-1")), (lambda value: value.encode("latin-1"))
    if get_origin(kind) is frozenset:
        return sorted, frozenset
    if kind is Target:
        return (lambda value: value.name), target
    if kind is ArchSet:
        return (lambda value: value.bits), ArchSet
    if isinstance(kind, type) and issubclass(kind, Enum):
        table: dict[str, Enum] = {member.value: member for member in kind}
        return (lambda value: value.value), table.__getitem__
    return None


def _inner(kind: Any) -> list[Any]:
    return [part for part in get_args(kind) if part not in (Ellipsis, NoneType)]


def _is_optional(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType) and len(_inner(kind)) == 1


def _hints(kind: Any) -> list[tuple[str, Any]]:
    if not is_dataclass(kind):
        raise TypeError(f"{kind} is nothing a report holds")
    hints = get_type_hints(kind)
    return [(field.name, hints[field.name]) for field in fields(kind)]
