"""YAML text to plain values, strictly.

Patchsets are reviewed by people and fetched from anywhere, so the reader takes
a small language: mappings, lists, scalars. Anchors, aliases and tags are
refused (they are how YAML bombs are made), a key may stand once, depth and size
are bounded, and only ``true``, ``false``, ``null`` and decimal integers are not
strings: 12.0 and 0.10 stay as written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from patcher.errors import SchemaError

MAX_BYTES = 1 << 20
MAX_DEPTH = 32
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_INTEGER = re.compile(r"-?(0|[1-9]\d{0,17})$")

Value = dict[str, Any] | list[Any] | str | int | bool | None


def parse_document(data: bytes, where: str) -> tuple[Value, list[str]]:
    """The document's value and its problems (duplicate keys, anchors, tags), each with a path.

    Raises SchemaError when there is no value to go on with: not UTF-8, too
    large, too deep, not YAML, or more than one document.
    """
    if len(data) > MAX_BYTES:
        raise SchemaError([f"larger than {MAX_BYTES >> 10} KiB"], where=where)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SchemaError([f"not UTF-8 at byte {error.start}"], where=where) from None
    builder = _Builder(where)
    for event in _events(text, where):
        builder.take(event)
    return builder.root, builder.problems


def _events(text: str, where: str) -> Iterator[Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        yield from yaml.parse(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "unreadable"
        raise SchemaError([f"{line}not YAML: {problem}"], where=where) from None


@dataclass(slots=True)
class _Open:
    """A collection that is being read; ``key`` is the mapping key whose value comes next."""

    value: dict[str, Any] | list[Any]
    path: str
    key: str | None = None
    seen: set[str] = field(default_factory=set)


class _Builder:
    """Builds the value from the event stream; a stack, no recursion."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.root: Value = None
        self.problems: list[str] = []
        self._stack: list[_Open] = []
        self._documents = 0

    def take(self, event: Any) -> None:
        kind = type(event).__name__
        if kind == "DocumentStartEvent":
            self._documents += 1
            if self._documents > 1:
                raise SchemaError(["more than one document"], where=self.where)
        elif kind == "AliasEvent":
            self._complain(event, f"alias *{event.anchor} is not allowed; write the value out")
            self._place(None, event)
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            self._check(event, implicit=event.implicit)
            self._open({} if kind == "MappingStartEvent" else [], event)
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            self._stack.pop()
        elif kind == "ScalarEvent":
            self._check(event, implicit=any(event.implicit))
            plain = event.implicit[0] and event.style in (None, "")
            self._place(_scalar(event.value) if plain else event.value, event)

    def _check(self, event: Any, *, implicit: bool) -> None:
        if event.anchor is not None:
            self._complain(event, f"anchor &{event.anchor} is not allowed")
        if not implicit:
            self._complain(event, f"tag {event.tag} is not allowed")

    def _open(self, value: dict[str, Any] | list[Any], event: Any) -> None:
        if len(self._stack) >= MAX_DEPTH:
            raise SchemaError([f"nested deeper than {MAX_DEPTH}"], where=self.where)
        if self._awaits_key():
            raise SchemaError([f"line {event.start_mark.line + 1}: a key must be a plain word"],
                              where=self.where)
        path = self._next_path()
        self._place(value, event)
        self._stack.append(_Open(value, path))

    def _awaits_key(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1].value, dict) \
            and self._stack[-1].key is None

    def _next_path(self) -> str:
        if not self._stack:
            return ""
        top = self._stack[-1]
        if isinstance(top.value, list):
            return f"{top.path}[{len(top.value)}]"
        return f"{top.path}.{top.key}" if top.path else str(top.key)

    def _place(self, value: Value, event: Any) -> None:
        if not self._stack:
            self.root = value
            return
        top = self._stack[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        elif top.key is None:
            top.key = str(event.value) if type(event).__name__ == "ScalarEvent" else "*"
            if top.key in top.seen:
                self._complain(event, f"duplicate key {top.key!r}", path=top.path)
            top.seen.add(top.key)
        else:
            top.value.setdefault(top.key, value)
            top.key = None

    def _complain(self, event: Any, what: str, path: str | None = None) -> None:
        place = self._next_path() if path is None else path
        line = f"line {event.start_mark.line + 1}"
        self.problems.append(f"{place or 'document'}: {what} ({line})")


def _scalar(text: str) -> Value:
    if text in _WORDS:
        return _WORDS[text]
    return int(text) if _INTEGER.match(text) else text
