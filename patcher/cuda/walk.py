"""The walker: units in, reports out. It remembers across units what they share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from patcher.cuda.conditions import Conditions
from patcher.cuda.files import Files, LoadedFile
from patcher.cuda.includes import Folders, SearchPath
from patcher.cuda.model import Configuration, TranslationUnit, UnitReport
from patcher.cuda.predefined import ToolkitMacros, base_table
from patcher.cuda.record import Memo, Record
from patcher.cuda.report import Reporter
from patcher.cuda.state import State, Table
from patcher.cuda.unit import UnitWalk
from patcher.cuda.values import Value, Values
from patcher.tree import Tree

MAX_ROUNDS = 4  # of a unit with missing headers, until the names its files define are settled
_RECURSION = 6000  # includes nest 200 deep, and macro arguments below them


class Walker:
    """Walks the units of one tree for every world at once.

    ``toolkit`` gives the macros that exist before the first line. A walker is
    meant to be kept: what it learns of a header serves the next unit. It holds
    the content of the tree as it was at first reading.
    """

    def __init__(self, tree: Tree, *, toolkit: ToolkitMacros | None = None) -> None:
        self._tree = tree
        self._toolkit = toolkit or ToolkitMacros()
        self._answers = self._toolkit.answers
        self._values = Values()
        self._folders = Folders(tree)
        self._searches: dict[tuple[tuple[str, ...], tuple[str, ...]], SearchPath] = {}
        self._files: dict[bool, Files] = {}
        self._bases: dict[Configuration, dict[str, Value]] = {}
        self._memo = Memo()
        self._conditions = Conditions()
        self._reporter = Reporter()

    def walk(self, unit: TranslationUnit, *, every: bool = False) -> UnitReport:
        """Everything the unit's conditions decide; bounded in time and memory.

        With ``every`` all ladders are reported, and the contexts of each file.
        Nothing is raised for a broken file: it is a warning with its place.
        """
        configuration = unit.configuration
        files = self._files_for(configuration.std)
        if unit.content is not None:
            files.add(unit.path, unit.content)
        with _deep_recursion():
            root, _ = self._round(unit, files, None)
            if any(record.missing for record in root.below()):
                root = self._settle(unit, files, root)
        return self._reporter.report(unit, root, every=every)

    def _settle(self, unit: TranslationUnit, files: Files, root: Record) -> Record:
        """Walk again with the names that no scanned file defines in doubt."""
        known: frozenset[str] = frozenset()
        for _ in range(MAX_ROUNDS):
            paths = {record.path for record in root.below()}
            known |= _defined_names(files, paths)
            root, table = self._round(unit, files, known)
            fresh = {record.path for record in root.below()} - paths
            if not table.doubted & _defined_names(files, fresh):
                break
        return root

    def _round(self, unit: TranslationUnit, files: Files, known: frozenset[str] | None,
               ) -> tuple[Record, Table]:
        configuration = unit.configuration
        base = self._base(configuration)
        table = Table(base.items(), self._values)
        if known is not None:
            table.doubt(known | base.keys())
        walk = UnitWalk(files, self._values, self._memo, self._conditions,
                        self._search(configuration), self._answers, State(table, self._values))
        return walk.start(unit.path, configuration.forced), table

    def _files_for(self, std: str) -> Files:
        elifdef = std.startswith("gnu") or std[-2:] in ("23", "2b", "26", "2c")
        if elifdef not in self._files:
            self._files[elifdef] = Files(self._tree, self._values, elifdef=elifdef)
        return self._files[elifdef]

    def _base(self, configuration: Configuration) -> dict[str, Value]:
        if configuration not in self._bases:
            self._bases[configuration] = base_table(configuration, self._toolkit, self._values)
        return self._bases[configuration]

    def _search(self, configuration: Configuration) -> SearchPath:
        key = (configuration.include, configuration.system)
        if key not in self._searches:
            self._searches[key] = SearchPath(*key, self._folders)
        return self._searches[key]


def _defined_names(files: Files, paths: set[str]) -> frozenset[str]:
    loaded = (files.load(path) for path in paths if path)
    return frozenset().union(*(f.defines for f in loaded if isinstance(f, LoadedFile)))


@contextmanager
def _deep_recursion() -> Iterator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
