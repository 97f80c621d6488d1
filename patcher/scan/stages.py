"""Parts of a scan that are kept by themselves, each with what it was made from.

A kept report is of no use after an edit; the parts that never saw the edited file are.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from patcher.cuda.store import Store, key_of
from patcher.scan.codec import decoder, encoder
from patcher.scan.watch import WatchedTree, unchanged
from patcher.tree import Tree

T = TypeVar("T")


class Table(Generic[T]):
    """Small results by name, each with a digest of what it was made from. What a scan does
    not ask for is dropped when it is saved. A large table lies in several ``pieces``: only
    those in which something is new are written again."""

    def __init__(self, stages: Stages | None, name: object, kind: Any, pieces: int = 1) -> None:
        self._store = stages.store if stages else None
        self._keys = [stages.key("table", name, n) for n in range(pieces)] if stages else []
        self._encode, self._decode = encoder(kind), decoder(kind)
        self._old: dict[str, Any] = {}
        for key in self._keys:
            self._old |= (self._store and self._store.get(key)) or {}
        self._rows: dict[str, Any] = {}
        self._changed: set[int] = set()

    def _piece(self, name: str) -> int:
        return zlib.crc32(name.encode("utf-8", "surrogateescape")) % len(self._keys)

    def of(self, name: str, made_from: str, make: Callable[[], T]) -> T:
        """The kept result, or what is made now."""
        if self._store is None:
            return make()
        row = self._old.get(name)
        if row is not None and row[0] == made_from:
            self._rows[name] = row
            kept: T = self._decode(row[1])
            return kept
        made = make()
        self._rows[name] = [made_from, self._encode(made)]
        self._changed.add(self._piece(name))
        return made

    def peek(self, name: str) -> T | None:
        """What was kept, whatever it was made from."""
        row = self._old.get(name)
        return None if row is None else self._decode(row[1])

    def put(self, name: str, made: T) -> None:
        """Keep a result that tells itself what it was made from."""
        row = ["", self._encode(made)]
        if self._store is not None and self._old.get(name) != row:
            self._changed.add(self._piece(name))
        self._rows[name] = row

    def save(self) -> None:
        """Keep the results of this scan."""
        pieces: dict[int, dict[str, Any]] = {number: {} for number in self._changed}
        for name, row in self._rows.items() if pieces else ():
            if (number := self._piece(name)) in pieces:
                pieces[number][name] = row
        for number, rows in pieces.items():
            assert self._store is not None
            self._store.put(self._keys[number], rows)


@dataclass(frozen=True)
class Stages:
    """The parts of one scan; ``made_from`` is what all of them depend on besides the tree."""

    store: Store
    made_from: str
    tree: WatchedTree

    def key(self, *parts: object) -> str:
        """A key for what depends on these, too."""
        return key_of("part", self.made_from, *parts)

    def of(self, name: object, kind: Any, make: Callable[[Tree], Any]) -> Any:
        """What ``make`` gives for the tree, made anew only when something it read has changed.

        ``kind`` is its type, one that the codec knows.
        """
        key = self.key(name)
        entry = self.store.get(key)
        if entry is not None and unchanged(self.tree, entry["trace"]):
            self.tree.note(entry["trace"])
            return decoder(kind)(entry["made"])
        part = WatchedTree(self.tree)
        made = make(part)
        self.store.put(key, {"trace": part.trace(), "made": encoder(kind)(made)})
        return made
