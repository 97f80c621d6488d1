"""Plain values to frozen dataclasses, driven by their annotations: parse, don't validate.

Every problem is collected with its path inside the document, so that a reader
sees all of them at once. What a type accepts is one row of ``_READERS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from patcher.arch import EMPTY, ArchSet, Capability, target
from patcher.errors import UsageError, did_you_mean
from patcher.patchset import schema

T = TypeVar("T")
_IDENTIFIER = re.compile(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*$")
_REFERENCE = re.compile(r"[\w.-]+(?:/[\w.-]+)?#\d+$|https?://\S+$")
_EXPECTATION = re.compile(r"(==|!=|>=|<=|>|<)?\s*(\d{1,9})$")
_FAILED: Any = object()


class Problems:
    """The problems found so far."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, path: str, what: str) -> Any:
        """Note a problem; returns the marker that stands for a value that could not be read."""
        self.found.append(f"{path or 'document'}: {what}")
        return _FAILED


def key_of(field: Field[Any]) -> str:
    """The document's key of a dataclass field."""
    return field.name.rstrip("_").replace("_", "-")


@cache
def annotations_of(kind: Hashable) -> dict[str, Any]:
    """The field types of a schema class, by field name."""
    return get_type_hints(kind)


def read_object(kind: type[T], value: Any, path: str, problems: Problems,
                extra: dict[str, Any] | None = None, also: tuple[str, ...] = ()) -> T:
    """Read a mapping into ``kind``; ``extra`` are fields that are not read from it.

    ``also`` are keys the caller reads itself. The result is only meaningful
    when ``problems`` stays empty.
    """
    if not isinstance(value, dict):
        problems.add(path, f"expected a mapping, got {type_name(value)}")
        return cast(T, _FAILED)
    values = dict(extra or {})
    keys = {key_of(f): f for f in fields(kind) if f.name not in values}  # type: ignore[arg-type]
    hints = annotations_of(cast(Hashable, kind))
    _unknown_keys(value, (*keys, *also), path, problems)
    for key, field in keys.items():
        inner = f"{path}.{key}" if path else key
        if key in value:
            values[field.name] = read(hints[field.name], value[key], inner, problems)
        elif field.default is MISSING and field.default_factory is MISSING:
            values[field.name] = problems.add(path, f"{key!r} is required")
    return cast(T, _FAILED) if _FAILED in values.values() else kind(**values)


def _unknown_keys(value: dict[str, Any], known: tuple[str, ...], path: str,
                  problems: Problems) -> None:
    for key in value:
        if key in known:
            continue
        advice = did_you_mean(key, known, most=1) or "known: " + ", ".join(sorted(known))
        problems.add(f"{path}.{key}" if path else key, f"unknown key; {advice}")


def read(kind: Any, value: Any, path: str, problems: Problems) -> Any:
    """Read ``value`` as ``kind``, an annotation of the schema."""
    if kind in _READERS:
        return _READERS[kind](value, path, problems)
    if get_origin(kind) is tuple:
        return _sequence(get_args(kind)[0], value, path, problems)
    if get_origin(kind) is UnionType or NoneType in get_args(kind):
        inner = next(k for k in get_args(kind) if k is not NoneType)
        return None if value is None else read(inner, value, path, problems)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _choice(kind, value, path, problems)
    assert is_dataclass(kind), kind
    return read_object(kind, value, path, problems)  # type: ignore[arg-type]


def _sequence(kind: Any, value: Any, path: str, problems: Problems) -> Any:
    if kind is schema.Expectation:
        return _expectations(value, path, problems)
    if not isinstance(value, list):
        return problems.add(path, f"expected a list, got {type_name(value)}")
    items = [read(kind, item, f"{path}[{i}]", problems) for i, item in enumerate(value)]
    return _FAILED if _FAILED in items else tuple(items)


def _choice(kind: type[Enum], value: Any, path: str, problems: Problems) -> Any:
    choices = [member.value for member in kind]
    if value in choices and isinstance(value, str):
        return kind(value)
    return problems.add(path, f"expected one of {', '.join(choices)}; got {shown(value)}")


def type_name(value: Any) -> str:
    """What a value is, in the words of the document."""
    names = {dict: "mapping", list: "list", NoneType: "null"}
    return names.get(type(value), type(value).__name__)


def shown(value: Any) -> str:
    """A value as an error names it: short, whatever the document holds."""
    text = repr(value) if isinstance(value, str | int) else type_name(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _plain(kind: type) -> Callable[[Any, str, Problems], Any]:
    def reader(value: Any, path: str, problems: Problems) -> Any:
        if type(value) is kind:  # bool is not an int here
            return value
        return problems.add(path, f"expected {kind.__name__}, got {type_name(value)}")

    return reader


def _text(check: Callable[[str], str | None]) -> Callable[[Any, str, Problems], Any]:
    """A string reader; ``check`` says what is wrong with it, or None."""

    def reader(value: Any, path: str, problems: Problems) -> Any:
        value = str(value) if type(value) is int else value  # 12 where "12" was meant
        if not isinstance(value, str):
            return problems.add(path, f"expected str, got {type_name(value)}")
        wrong = check(value)
        return problems.add(path, f"{wrong}: {shown(value)}") if wrong else value

    return reader


def wrong_path(text: str) -> str | None:
    """What is wrong with a path that must stay below the package root, or None."""
    if not text or "\0" in text or "\\" in text or "\n" in text:
        return "not a path with forward slashes"
    if text.startswith(("/", "~")) or re.match(r"[A-Za-z]:", text):
        return "absolute paths are not allowed"
    if any(part in ("", ".", "..") for part in text.split("/")):
        return "a path may not hold '..', '.' or empty parts"
    return None


def _wrong_specifier(text: str) -> str | None:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return "not a version specifier such as '>=0.5.3,<0.6.17'"
    return None


def _wrong_release(text: str) -> str | None:
    from packaging.version import InvalidVersion, Version

    try:
        Version(text)
    except InvalidVersion:
        return "not a version"
    return None


def _matching(pattern: re.Pattern[str], what: str) -> Callable[[str], str | None]:
    return lambda text: None if pattern.match(text) else what


def _count(value: Any, path: str, problems: Problems) -> Any:
    number = _plain(int)(value, path, problems)
    if number is _FAILED or 1 <= number <= 100_000:
        return number
    return problems.add(path, f"expected at least 1, got {number}")


def _worlds(value: Any, path: str, problems: Problems) -> Any:
    """Capabilities (every suffix) and targets: ``["12.0", sm_121a]``."""
    if not isinstance(value, list) or not value:
        return problems.add(path, f"expected a list of capabilities or targets, "
                                  f"got {'an empty list' if value == [] else type_name(value)}")
    worlds, before = EMPTY, len(problems.found)
    for index, item in enumerate(value):
        try:
            worlds |= _members(item)
        except UsageError as error:
            problems.add(f"{path}[{index}]", error.what)
    return _FAILED if len(problems.found) > before else worlds


def _members(item: Any) -> ArchSet:
    if not isinstance(item, str):
        raise UsageError(f"expected a capability such as \"12.0\", got {type_name(item)}")
    if not re.match(r"\d+\.\d+$", item):
        return ArchSet.of(target(item))
    worlds = ArchSet.of(Capability.parse(item))
    if not worlds:
        raise UsageError(f"no target has capability {item}")
    return worlds


def _expectations(value: Any, path: str, problems: Problems) -> Any:
    if not isinstance(value, dict):
        return problems.add(path, f"expected a mapping, got {type_name(value)}")
    found = []
    for name, bound in value.items():
        match = _EXPECTATION.match(str(bound)) if type(bound) in (int, str) else None
        if match:
            found.append(schema.Expectation(name, match[1] or "==", int(match[2])))
        else:
            problems.add(f"{path}.{name}", f"expected a number or '>0', got {shown(bound)}")
    return tuple(found) if len(found) == len(value) else _FAILED


def _cache_use(value: Any, path: str, problems: Problems) -> Any:
    """``flashinfer_nvcc_jit`` or ``{flashinfer_nvcc_jit: {modules: [...]}}``."""
    if isinstance(value, str):
        return schema.CacheUse(cache=value)
    if not isinstance(value, dict) or len(value) != 1:
        return problems.add(path, "expected a cache's name, or one name with its modules")
    (name, inner), = value.items()
    return read_object(schema.CacheUse, inner, f"{path}.{name}", problems, {"cache": name})


_READERS: dict[Any, Callable[[Any, str, Problems], Any]] = {
    str: _text(lambda text: None),
    int: _plain(int),
    bool: _plain(bool),
    schema.Count: _count,
    schema.RelativePath: _text(wrong_path),
    schema.Identifier: _text(_matching(_IDENTIFIER, "expected lower case words joined by '-'")),
    schema.Specifier: _text(_wrong_specifier),
    schema.Release: _text(_wrong_release),
    schema.Reference: _text(_matching(_REFERENCE, "expected 'project#123' or an URL")),
    ArchSet: _worlds,
    schema.CacheUse: _cache_use,
}
