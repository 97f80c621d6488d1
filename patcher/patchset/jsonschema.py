"""The JSON Schema of patchsets for editors, made from the same classes as the loader."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import MISSING, fields
from enum import Enum
from types import NoneType
from typing import Any, cast, get_args, get_origin

from patcher.arch import ArchSet
from patcher.patchset import schema
from patcher.patchset.parse import annotations_of, key_of

_TEXT: dict[str, Any] = {"type": "string"}
_WORLDS: dict[str, Any] = {
    "type": "array", "minItems": 1, "items": {"type": ["string", "number"]},
    "description": "capabilities (every suffix) and targets: [\"12.0\", sm_121a]"}
_SIMPLE: dict[Any, dict[str, Any]] = {
    str: {"type": ["string", "integer"]},
    bool: {"type": "boolean"},
    schema.Count: {"type": "integer", "minimum": 1},
    schema.RelativePath: {**_TEXT, "pattern": r"^(?![/~])(?!.*(^|/)\.\.?(/|$))[^\\]+$"},
    schema.Identifier: {**_TEXT, "pattern": "^[a-z0-9]+([-_.][a-z0-9]+)*$"},
    schema.Specifier: _TEXT,
    schema.Release: {"type": ["string", "number"]},
    schema.Reference: _TEXT,
    ArchSet: _WORLDS,
    schema.CacheUse: {
        "type": ["string", "object"], "maxProperties": 1, "additionalProperties": {
            "type": "object", "additionalProperties": False,
            "properties": {"modules": {"type": "array", "items": _TEXT}}}},
}
_LISTS = {schema.Patch: "patch", schema.Variant: "variant", schema.Group: "group"}


def json_schema() -> dict[str, Any]:
    """The whole schema. It is looser than the loader where JSON Schema cannot follow."""
    document = _object(schema.Patchset, {"sm-patch": {"const": 1}},
                       leave=("digest", "source"), required=("sm-patch",))
    operations = {name: _object(kind) for name, kind in schema.OPERATIONS.items()}
    patch = _object(schema.Patch, operations, leave=("operation",))
    patch["oneOf"] = [{"required": [name]} for name in operations]
    group = _object(schema.Group, leave=("parts",))
    group["oneOf"] = [{"required": [key]} for key in ("patches", "variants", "include")]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "sm-patch patchset",
        **document,
        "$defs": {"patch": patch, "group": group, "variant": _object(schema.Variant)},
    }


def _object(kind: type, more: dict[str, Any] | None = None, leave: tuple[str, ...] = (),
            required: tuple[str, ...] = ()) -> dict[str, Any]:
    hints = annotations_of(cast(Hashable, kind))
    properties, needed = dict(more or {}), list(required)
    for field in fields(kind):
        if field.name in leave:
            continue
        properties[key_of(field)] = _of(hints[field.name])
        if field.default is MISSING and field.default_factory is MISSING:
            needed.append(key_of(field))
    found: dict[str, Any] = {"type": "object", "additionalProperties": False,
                             "properties": properties}
    if needed:
        found["required"] = needed
    return found


def _of(kind: Any) -> dict[str, Any]:
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if get_origin(kind) is tuple:
        return _list(get_args(kind)[0])
    if NoneType in get_args(kind):
        return _of(next(k for k in get_args(kind) if k is not NoneType))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    return _object(kind)


def _list(kind: Any) -> dict[str, Any]:
    if kind is schema.Expectation:
        return {"type": "object", "additionalProperties": {
            "type": ["string", "integer"], "pattern": r"^(==|!=|>=|<=|>|<)?\s*\d+$"}}
    if kind in _LISTS:
        return {"type": "array", "minItems": 1, "items": {"$ref": f"#/$defs/{_LISTS[kind]}"}}
    return {"type": "array", "items": _of(kind)}
