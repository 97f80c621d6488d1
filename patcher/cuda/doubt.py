"""Which names a missing header may define: those that the tree's own files use and nothing that
was scanned settles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from patcher.cuda.files import Files
from patcher.cuda.record import Record
from patcher.cuda.state import not_the_compilers
from patcher.cuda.values import Value

_KEPT = 16  # sets of headers whose names are remembered; neighbours share them


class _Names(NamedTuple):
    """Of some headers: names that a #define there or the compiler settles, and others that the
    tree's own among them use."""

    settled: frozenset[str]
    open: frozenset[str]


class Doubt:
    """Remembers the headers below records, and their names. A walker's records may become
    another's, who counts files as ``base`` does."""

    def __init__(self, base: Doubt | None = None) -> None:
        self._numbers: dict[str, int] = base._numbers if base else {}
        self._names: dict[tuple[int, int, int], _Names] = {}

    def names(self, path: str, root: Record, files: Files, predefined: Mapping[str, Value],
              ) -> frozenset[str]:
        """The names in doubt in the unit at ``path``, which was walked up to ``root``.

        The toolkit's and the compiler's headers are whole; what only they test, no missing
        header is there to define.
        """
        headers = 0
        for record in root.children:
            for child in record.children if record.path == path else [record]:
                headers |= self._below(child)
        found = self._of(headers & ~self._bit(path), files, predefined)
        own = not_the_compilers(files.mentions(path) - found.settled)
        return (found.open | own) - files.defines(path)

    def _bit(self, path: str) -> int:
        return 1 << self._numbers.setdefault(path, len(self._numbers))

    def _below(self, record: Record) -> int:
        """The files of a record and of all below it, as bits."""
        if record.headers is None:
            headers = self._bit(record.path)
            for child in record.children:
                headers |= self._below(child)
            record.headers = headers
        return record.headers

    def _of(self, headers: int, files: Files, predefined: Mapping[str, Value]) -> _Names:
        key = headers, id(files), id(predefined)
        found = self._names.get(key)
        if found is None:
            paths = [path for path, number in self._numbers.items() if headers >> number & 1]
            settled = frozenset(predefined).union(*map(files.defines, paths))
            used = (files.mentions(path) for path in paths if not path.startswith("/"))
            found = _Names(settled, not_the_compilers(frozenset().union(*used) - settled))
            if len(self._names) >= _KEPT:
                self._names.clear()
            self._names[key] = found
        return found
