"""What conditions came to in earlier processes, with the values of the macros they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from patcher.cuda.conditions import Known, Truths
from patcher.cuda.shelf import Shelf
from patcher.cuda.values import BUILTIN, VISITED, Macro, Mixed, Open, Value, Values

_PLAIN: Mapping[str, Value] = {"undefined": None, "builtin": BUILTIN, "visited": VISITED}
_NAMES = {id(value): name for name, value in _PLAIN.items()}


class Recall:
    """Reads and keeps results; values come back as the very objects of ``values``."""

    def __init__(self, shelf: Shelf, values: Values) -> None:
        self._shelf = shelf
        self._values = values
        self._seen: dict[str, int] = {}  # condition -> results that came from the shelf

    def of(self, condition: str) -> list[Known]:
        """What is known of a condition."""
        rows = self._shelf.get(condition) or []
        self._seen[condition] = len(rows)
        return [Known(tuple(names), tuple(map(self._value, values)),
                      Truths(true, false, tuple(deciders), problem))
                for names, values, (true, false, deciders, problem) in rows]

    def save(self, known: Mapping[str, Sequence[Known]]) -> None:
        """Keep the conditions of which more is known now."""
        for condition, results in known.items():
            if len(results) > self._seen.get(condition, 0):
                self._shelf.put(condition, [(names, list(map(_pack, values)), truths)
                                            for names, values, truths in results])
        self._shelf.save()

    def _value(self, packed: Any) -> Value:
        if isinstance(packed, str):
            return _PLAIN[packed]
        kind, *parts = packed
        if kind == "macro":
            return self._values.macro(*parts)
        if kind == "open":
            return self._values.open(parts)
        return self._values.mix((mask, self._value(part)) for mask, part in parts)


def _pack(value: Value) -> object:
    if isinstance(value, Macro):
        return "macro", value.spelled, value.body
    if isinstance(value, Open):
        return "open", *value.deciders
    if isinstance(value, Mixed):
        return "mixed", *((mask, _pack(part)) for mask, part in value.parts)
    return _NAMES[id(value)]
