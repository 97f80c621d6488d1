"""What units showed, kept by content: after an edit only the units that reach an edited file
are walked again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from patcher.cuda.model import ArmState, Configuration, Missing, TranslationUnit
from patcher.cuda.walk import Walker
from patcher.scan.arms import members
from patcher.scan.codec import encoder
from patcher.scan.stages import Stages
from patcher.scan.subject import Made
from patcher.scan.walks import Facts
from patcher.scan.watch import digest_of
from patcher.tree import Tree


class _Sets:
    """Numbers for sets of units (bits); few are distinct."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}

    def of(self, units: int) -> int:
        return self.numbers.setdefault(units, len(self.numbers))

    def packed(self) -> list[str]:
        return [f"{units:x}" for units in self.numbers]


class Known:
    """The facts of one scan's units in the store. ``tree`` is what the walker reads: the
    package's and the generated files, of which the key tells."""

    def __init__(self, stages: Stages, tree: Tree, walker: Walker,
                 units: Sequence[TranslationUnit], made: Iterable[Made]) -> None:
        self._stages = stages
        self._tree = tree
        self._walker = walker
        self._every = (1 << len(units)) - 1
        self._made = frozenset(file.path for file in made)
        self._made |= frozenset(unit.path for unit in units if unit.content is not None)
        self._folders: dict[str, str] = {}
        self._listing = ""  # names them all, once the units are walked
        self._closures: dict[int, str] = {}  # by the units that reach the same files
        self._shared: list[tuple[int, str]] = []  # those of several units
        self._key = stages.key("facts", _of_texts(repr(file) for file in made),
                               _of_texts(map(_told, units)))

    def digest(self, path: str) -> str:
        """Names a file's content; the key tells that of the generated ones."""
        return self._key if path in self._made else self._stages.tree.look(path)

    def use(self, path: str) -> str:
        """As ``digest``, for who makes something of the file; "" for a generated one."""
        return "" if path in self._made else self._stages.tree.use(path)

    def load(self, facts: Facts) -> int:
        """Enter what still holds; the units (bits) that are to be walked."""
        entry = self._stages.store.get(self._key)
        if entry is None or any(digest_of(self._tree.names(folder)) != names
                                for folder, names in entry["folders"].items()):
            return self._every
        self._folders = entry["folders"]
        sets = [int(units, 16) for units in entry["sets"]]
        stale = 0
        same: dict[str, str] = {}
        for path, digest, number in entry["files"]:
            if self.digest(path) != digest:
                stale |= sets[number]
            elif digest and path not in self._made:
                same[path] = digest
        self._stages.tree.note({"files": same, "names": {}, "folders": {}})
        _enter(facts, entry, [units & ~stale for units in sets])
        return stale

    def save(self, facts: Facts) -> None:
        """Keep the facts of all units."""
        sets = _Sets()
        states: dict[ArmState, int] = {}
        arms: dict[str, list[Any]] = {}
        for (path, line), row in facts.table.rows():
            packed = [(states.setdefault(state, len(states)), sets.of(units))
                      for state, units in row.items()]
            arms.setdefault(path, []).append((line, packed))
        listed = self._walker.listed
        self._folders |= {folder: digest_of(names) for folder, names in listed.items()}
        entry = {
            "folders": self._folders,
            "files": [(path, self.digest(path), sets.of(units))
                      for path, units in _files(facts)],
            "missing": [(m.include, m.source, m.line, sets.of(units))
                        for m, units in facts.missing.items()],
            "warnings": [(text, sets.of(units)) for text, units in facts.warnings.items()],
            "states": [(s.open, s.closed, s.unreached, s.unknown, s.decided_by) for s in states],
            "arms": list(arms.items()), "sets": sets.packed(),
        }
        self._stages.store.put(self._key, entry)

    def of_files(self, paths: Iterable[str]) -> str:
        """Names the content of files, and where headers were looked for."""
        if not self._listing:
            self._listing = _of_texts(f"{folder} {names}"
                                      for folder, names in sorted(self._folders.items()))
        return _of_texts([self._listing, *(f"{path} {self.digest(path)}" for path in paths)])

    def closure(self, facts: Facts, units: int) -> str:
        """Names the content of all files that some units reach, and who else reaches them."""
        if not self._closures:
            groups: dict[int, list[str]] = {}
            for path, reached in sorted(_files(facts)):
                groups.setdefault(reached, []).append(f"{path} {self.digest(path)}")
            self._closures = {reached: _of_texts([f"{reached:x}", *texts])
                              for reached, texts in groups.items()}
            self._shared = [item for item in self._closures.items() if item[0].bit_count() > 1]
        own = (1 << number for number in members(units))
        return _of_texts([self._key,
                          *(digest for reached, digest in self._shared if reached & units),
                          *(self._closures[bit] for bit in own if bit in self._closures)])


def _files(facts: Facts) -> Iterator[tuple[str, int]]:
    yield from facts.reached.items()
    yield from facts.outside.items()


def _enter(facts: Facts, entry: Mapping[str, Any], sets: Sequence[int]) -> None:
    """Put an entry's facts back, of the units that are left in ``sets``."""
    for path, _, number in entry["files"]:
        if sets[number]:
            table = facts.outside if path.startswith("/") else facts.reached
            table[path] = sets[number]
    for include, source, line, number in entry["missing"]:
        if sets[number]:
            facts.missing[Missing(include, source, line)] = sets[number]
    for text, number in entry["warnings"]:
        if sets[number]:
            facts.warnings[text] = sets[number]
    states = [ArmState(opened, closed, unreached, unknown, tuple(names))
              for opened, closed, unreached, unknown, names in entry["states"]]
    for path, lines in entry["arms"]:
        for line, row in lines:
            kept = {states[state]: sets[number] for state, number in row if sets[number]}
            if kept:
                facts.table.enter((path, line), kept)


def _told(unit: TranslationUnit) -> str:
    """All that a unit is, the same in every process."""
    told = encoder(Configuration)(unit.configuration)
    return repr((unit.path, unit.modules, unit.content, told))


def _of_texts(texts: Iterable[str]) -> str:
    state = hashlib.blake2b(digest_size=20)
    for text in texts:
        state.update(text.encode("utf-8", "surrogateescape") + b"\0")
    return state.hexdigest()
