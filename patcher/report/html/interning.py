"""Values that a document names often, written once: a number stands for each."""

from __future__ import annotations

from collections.abc import Iterable

from patcher.arch import ArchSet


class Interned:
    """Strings, lists of strings and sets of targets by number, in the order of first use."""

    def __init__(self) -> None:
        self._strings: dict[str, int] = {}
        self._lists: dict[tuple[int, ...], int] = {}
        self._sets: dict[tuple[int, ...], int] = {}

    def string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def list(self, texts: Iterable[str]) -> int:
        key = tuple(map(self.string, texts))
        return self._lists.setdefault(key, len(self._lists))

    def set(self, worlds: ArchSet) -> int:
        """The device targets of a set, by their place in the table of known targets."""
        key = tuple(target.index for target in worlds)
        return self._sets.setdefault(key, len(self._sets))

    def tables(self) -> dict[str, object]:
        """What the numbers stand for; ask when all is interned."""
        return {"strings": list(self._strings), "lists": list(self._lists),
                "sets": list(self._sets)}
