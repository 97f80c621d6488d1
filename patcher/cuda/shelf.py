"""Many small results in one entry of the store, each unpacked when it is asked for."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

from patcher.cuda.store import Store, key_of

_FEW = 64  # new rows that are not worth writing all again
_MAX_TEXT = 16 << 20  # characters; beyond, what was not asked for goes


class Shelf:
    """Rows by name, as JSON. Whoever saves last wins: a row that is lost is made again."""

    def __init__(self, store: Store, *name: object) -> None:
        self._store = store
        self._key = key_of("shelf", *name)
        self._fresh: dict[str, str] = {}
        self._asked: set[str] = set()

    @cached_property
    def _rows(self) -> dict[str, str]:
        rows: dict[str, str] = self._store.get(self._key) or {}
        return rows

    @property
    def empty(self) -> bool:
        """Whether earlier processes left nothing."""
        return not self._rows

    def get(self, name: str) -> Any:
        """The row, or None."""
        text = self._rows.get(name)
        if text is None:
            return None
        self._asked.add(name)
        return json.loads(text)

    def put(self, name: str, row: object) -> None:
        """Add or replace a row; kept when the shelf is saved."""
        self._fresh[name] = json.dumps(row, separators=(",", ":"))

    def save(self) -> None:
        """Write the rows if more than a few are new."""
        if len(self._fresh) <= _FEW:
            return
        rows = {**self._rows, **self._fresh}
        if sum(map(len, rows.values())) > _MAX_TEXT:
            rows = {name: text for name, text in rows.items()
                    if name in self._asked or name in self._fresh}
        self._store.put(self._key, rows)
