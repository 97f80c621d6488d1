"""The markers of a unit in the order in which a compiler meets them, as the walker has it."""

from __future__ import annotations

from collections.abc import Iterator

from patcher.cuda.lexer import CONDITIONAL, Directive, directives
from patcher.cuda.model import TranslationUnit
from patcher.cuda.record import Record
from patcher.cuda.walk import Walker
from patcher.tree import Tree

Mark = tuple[str, int]  # path, and the line that the marker follows
_INCLUDES = ("include", "include_next", "import")
_OPENING = ("if", "ifdef", "ifndef")


class RecordingWalker(Walker):
    """A walker that also gives the records behind a report."""

    def record(self, unit: TranslationUnit) -> Record:
        """The root of the unit's records, in the order of its text."""
        self.walk(unit, every=True)
        files = self._files_for(unit.configuration.std)
        return self._round(unit, files, frozenset())


class Sequences:
    """Replays records; ``tree`` gives the text of the files inside it.

    A header that ``#pragma once`` keeps out has no record: an include is matched with the
    next record when that is of the same file. Outside the tree there are no markers.
    """

    def __init__(self, tree: Tree, std: str = "c++17") -> None:
        self._tree = tree
        newer = std.startswith("gnu") or std[-2:] in ("23", "2b", "26", "2c")
        self._ignored = () if newer else ("elifdef", "elifndef")  # gcc takes them for nothing
        self._events: dict[str, tuple[Directive, ...]] = {}
        self._marked: dict[int, tuple[Record, bool]] = {}  # whether there are markers below

    def of(self, root: Record, bit: int) -> list[Mark]:
        """Every marker that the world of ``bit`` compiles, in order."""
        found: list[Mark] = []
        for child in root.children:
            self._replay(child, bit, found)
        return found

    def unknown(self, root: Record, bit: int) -> list[Mark]:
        """Arms inside the tree that are unknown for the world."""
        return sorted({(record.path, row[0]) for record in root.below()
                       if not record.path.startswith("/")
                       for rows, _ in record.ladders for row in rows if row[3] & bit})

    def _events_of(self, path: str) -> tuple[Directive, ...]:
        if path not in self._events:
            wanted = (*CONDITIONAL, *_INCLUDES)
            self._events[path] = tuple(
                item for item in directives(self._tree.read(path)) if item.name in wanted)
        return self._events[path]

    def _has_marks(self, record: Record) -> bool:
        known = self._marked.get(id(record))
        if known is None:
            answer = not record.path.startswith("/") or any(
                self._has_marks(child) for child in record.children)
            known = self._marked[id(record)] = record, answer  # kept: its id stays its own
        return known[1]

    def _replay(self, record: Record, bit: int, found: list[Mark]) -> None:
        if not record.worlds & bit or not self._has_marks(record):
            return
        path = record.path
        inside = not path.startswith("/")
        found += [(path, 0)] if inside else []
        arms = {row[0]: (bool(row[1] & bit), bool(row[1] | row[3]))
                for rows, _ in record.ladders for row in rows}
        includes, children = iter(record.includes), _Ahead(record.children)
        stack: list[tuple[bool, bool]] = []
        here = (True, True)  # live in this world, and in any
        for event in self._events_of(path):
            if event.name in _INCLUDES:
                if here[1]:
                    child = children.take(next(includes, ""))
                    if child is not None:
                        self._replay(child, bit, found)
                continue
            if event.name in _OPENING:
                stack.append(here)
            dead = (False, False)
            if not stack or event.name in self._ignored:
                pass  # without an #if it is an error, and ignored
            elif event.name == "endif":
                here = stack.pop()
            else:
                here = arms.get(event.line, dead)
            if here[0] and inside:
                found.append((path, event.end_line))


class _Ahead:
    """Records in order, the next one taken only when it is of the file that is asked for."""

    def __init__(self, records: list[Record]) -> None:
        self._records: Iterator[Record] = iter(records)
        self._next = next(self._records, None)

    def take(self, path: str) -> Record | None:
        record = self._next
        if record is None or record.path != path:
            return None
        self._next = next(self._records, None)
        return record
