"""The walker: units in, reports out. It remembers across units what they share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from patcher.cuda.conditions import Conditions
from patcher.cuda.doubt import Doubt
from patcher.cuda.files import Content, Files
from patcher.cuda.includes import Folders, SearchPath
from patcher.cuda.lexer import Directive
from patcher.cuda.model import Configuration, Part, TranslationUnit, UnitReport
from patcher.cuda.predefined import ToolkitMacros, base_table
from patcher.cuda.problems import deep_recursion
from patcher.cuda.recall import Recall
from patcher.cuda.record import Memo, Record
from patcher.cuda.report import Reporter
from patcher.cuda.results import Results
from patcher.cuda.shelf import Shelf
from patcher.cuda.state import State, Table
from patcher.cuda.store import Store
from patcher.cuda.together import Together
from patcher.cuda.unit import UnitWalk
from patcher.cuda.values import Value, Values
from patcher.room import collector_at_rest
from patcher.tree import ChangedTree, Tree

MAX_ROUNDS = 4  # of a unit with missing headers, until the names in doubt are settled


class Walker:
    """Walks the units of one tree for every world at once.

    ``toolkit`` gives the macros that exist before the first line. A walker is
    meant to be kept: what it learns of a header serves the next unit. It holds
    the content of the tree as it was at first reading. With a ``store`` it also
    remembers across processes, by content: lexed files, and ``reports`` unless the caller
    keeps what it makes of them. Set before a walk, ``content`` spares it the files whose
    content is known by name and that were lexed before.
    """

    def __init__(self, tree: Tree, *, toolkit: ToolkitMacros | None = None,
                 store: Store | None = None, reports: bool = True,
                 conditions: Conditions | None = None) -> None:
        self._tree = tree
        self.content: Content = lambda path: ""
        self._toolkit = toolkit or ToolkitMacros()
        self._answers = self._toolkit.answers
        self._values = Values()
        self._folders = Folders(tree)
        self._searches: dict[tuple[tuple[str, ...], tuple[str, ...]], SearchPath] = {}
        self._files: dict[bool, Files] = {}
        self._bases: dict[Configuration, dict[str, Value]] = {}
        self._memo = Memo()
        self._conditions = conditions or Conditions()
        if store and conditions is None:
            self._conditions.earlier = Recall(Shelf(store, "conditions", self._toolkit.platform),
                                              self._values)
        self._reporter = Reporter()
        self._doubt = Doubt()
        self._roots: dict[int, tuple[TranslationUnit, Record]] = {}  # of those that were gathered
        self._base_walker: Walker | None = None
        self._changed: frozenset[str] = frozenset()
        self._store = store
        self._results = store and reports and Results(store, str(tree.root), self._toolkit,
                                           self._folders)

    @property
    def listed(self) -> Mapping[str, frozenset[str]]:
        """Every folder in which a header was looked for, with its names."""
        return self._folders.listed

    def conditionals(self, path: str) -> tuple[int, tuple[Directive, ...]] | None:
        """The line behind a file of the tree and its conditional directives, if it was lexed."""
        known = (files.conditionals(path) for files in self._files.values())
        return next((found for found in known if found is not None), None)

    def save(self) -> None:
        """Keep for later processes what was learnt of files and conditions; many walks are
        worth that, one is not."""
        for files in self._files.values():
            files.save()
        self._conditions.save()

    def on(self, tree: ChangedTree) -> Walker:
        """A walker for this walker's tree after some changes, which shares what these leave alone.

        Raises ValueError for changes of another tree.
        """
        if tree.base is not self._tree:
            raise ValueError("the changes belong to another tree")
        walker = Walker(tree, toolkit=self._toolkit, store=self._store)
        walker._base_walker, walker._changed = self, tree.changed_paths
        walker._values, walker._conditions = self._values, self._conditions
        walker._reporter, walker._bases = self._reporter, self._bases
        walker._doubt = Doubt(self._doubt)
        walker._memo = Memo(self._memo, tree.changed_paths)
        return walker

    def walk(self, unit: TranslationUnit, *, every: bool = False,
             only: frozenset[str] | None = None) -> UnitReport:
        """Everything the unit's conditions decide; bounded in time and memory.

        With ``every`` all ladders are reported, and the contexts of each file; of the files
        in ``only``, if that is given.
        Nothing is raised for a broken file: it is a warning with its place.
        """
        files = self._files_of(unit)
        with deep_recursion(), collector_at_rest():
            if self._results and not every:
                kept = self._results.find(unit, files)
                if kept is not None:
                    return kept
            report = self._reporter.report(unit, self._root(unit, files), every=every, only=only)
            if self._results and not every:
                self._results.keep(report, files)
            return report

    def gather(self, units: Iterable[tuple[int, TranslationUnit]]) -> list[tuple[Part, int]]:
        """What many units consist of, each part with the units that have it, as a bit set of
        the numbers given here."""
        together = Together()
        with deep_recursion(), collector_at_rest():
            for number, unit in units:
                root = self._root(unit, self._files_of(unit))
                self._roots[id(unit)] = unit, root
                together.add(root, 1 << number)
            return [(self._reporter.part(record), having) for record, having in together]

    def _root(self, unit: TranslationUnit, files: Files) -> Record:
        if id(unit) in self._roots:
            return self._roots[id(unit)][1]
        root = self._round(unit, files, frozenset())
        return self._settle(unit, files, root) if root.lost else root

    def _settle(self, unit: TranslationUnit, files: Files, root: Record) -> Record:
        """Walk again, in doubt of the names that a missing header may define."""
        predefined = self._base(unit.configuration)
        doubtful: frozenset[str] = frozenset()
        for _ in range(MAX_ROUNDS):
            names = self._doubt.names(unit.path, root, files, predefined)
            if names == doubtful:
                break
            doubtful = names
            root = self._round(unit, files, doubtful)
        return root

    def _round(self, unit: TranslationUnit, files: Files, doubtful: frozenset[str]) -> Record:
        configuration = unit.configuration
        table = Table(self._base(configuration).items(), self._values)
        table.doubt(doubtful)
        walk = UnitWalk(files, self._values, self._memo, self._conditions,
                        self._search(configuration), self._answers, State(table, self._values))
        return walk.start(unit.path, configuration.forced)

    def _files_of(self, unit: TranslationUnit) -> Files:
        files = self._files_for(unit.configuration.std)
        if unit.content is not None:
            files.add(unit.path, unit.content)
        return files

    def _files_for(self, std: str) -> Files:
        elifdef = std.startswith("gnu") or std[-2:] in ("23", "2b", "26", "2c")
        if elifdef not in self._files:
            base = self._base_walker._files_for(std) if self._base_walker else None
            shelf = Shelf(self._store, "skeletons", elifdef, str(self._tree.root)) if (
                self._store and not base) else None
            self._files[elifdef] = Files(self._tree, self._values, elifdef=elifdef,
                                         shelf=shelf, base=base, changed=self._changed,
                                         content=self.content)
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
