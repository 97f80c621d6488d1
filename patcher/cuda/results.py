"""A unit's report kept on disk, good as long as everything it was made from is the same:
the bytes of each file, and where each include was found or not found."""

from __future__ import annotations

from typing import Any

from patcher.cuda.files import Files
from patcher.cuda.includes import Found, Lookup, SearchPath
from patcher.cuda.model import ArmKey, ArmState, Missing, TranslationUnit, UnitReport
from patcher.cuda.predefined import ToolkitMacros
from patcher.cuda.record import Record
from patcher.cuda.store import Store, key_of


class _Words:
    """A table of texts; entries hold positions in it."""

    def __init__(self) -> None:
        self._positions: dict[str, int] = {}

    def add(self, word: str) -> int:
        return self._positions.setdefault(word, len(self._positions))

    @property
    def table(self) -> list[str]:
        return list(self._positions)


class Results:
    """Reports of one tree and toolkit in a store."""

    def __init__(self, store: Store, root: str, toolkit: ToolkitMacros) -> None:
        self._store = store
        self._made_from = (root, toolkit)
        self._states: dict[tuple[Any, ...], ArmState] = {}
        self._words: dict[str, str] = {}

    def _key(self, unit: TranslationUnit) -> str:
        configuration = unit.configuration
        open_macros = sorted(configuration.open_macros)
        parts = [getattr(configuration, name) for name in (
            "include", "system", "defines", "forced", "std")]
        return key_of("unit", self._made_from, unit.path, parts, open_macros)

    def find(self, unit: TranslationUnit, files: Files, search: SearchPath) -> UnitReport | None:
        """The report, when nothing it depends on has changed."""
        entry = self._store.get(self._key(unit))
        if entry is None:
            return None
        words = [self._words.setdefault(word, word) for word in entry["words"]]
        if any(files.digest(words[path]) != digest for path, digest in entry["files"]):
            return None
        for beside, include, after, path, folder in entry["lookups"]:
            following = None if after < 0 else words[after]
            found = search.find((words[beside], words[include], following))
            if found != (None if path < 0 else (words[path], words[folder])):
                return None
        return self._unpack(unit, entry, words)

    def _unpack(self, unit: TranslationUnit, entry: dict[str, Any], words: list[str]) -> UnitReport:
        states = []
        for opened, closed, unreached, unknown, names in entry["states"]:
            key = (opened, closed, unreached, unknown, *names)
            if key not in self._states:
                self._states[key] = ArmState(opened, closed, unreached, unknown, tuple(names))
            states.append(self._states[key])
        groups = [tuple([states[n] for n in group]) for group in entry["groups"]]
        arms: dict[ArmKey, tuple[ArmState, ...]] = {}
        for path, lines in entry["arms"]:
            name = words[path]
            for line, group in lines:
                arms[name, line] = groups[group]
        includes = {words[path]: tuple([words[n] for n in below])
                    for path, below in entry["includes"]}
        return UnitReport(
            unit, arms, frozenset([words[path] for path, _ in entry["files"]]),
            tuple([Missing(*fields) for fields in entry["missing"]]), tuple(entry["warnings"]),
            includes)

    def keep(self, report: UnitReport, root: Record, files: Files) -> None:
        """Keep a report, with the records that say what it was made from."""
        words = _Words()
        lookups: dict[tuple[Lookup, Found | None], None] = {}
        for record in root.below():
            lookups.update(dict.fromkeys(record.lookups))
        states: dict[ArmState, int] = {}
        groups: dict[tuple[int, ...], int] = {}
        arms: dict[int, list[tuple[int, int]]] = {}
        for (path, line), group in report.arms.items():
            numbers = tuple([states.setdefault(state, len(states)) for state in group])
            arms.setdefault(words.add(path), []).append(
                (line, groups.setdefault(numbers, len(groups))))
        entry = {
            "files": [(words.add(path), files.digest(path)) for path in sorted(report.files)],
            "lookups": [(*_lookup(lookup, words), *_found(found, words))
                        for lookup, found in lookups],
            "states": [(s.open, s.closed, s.unreached, s.unknown, s.decided_by) for s in states],
            "groups": list(groups), "arms": list(arms.items()),
            "includes": [(words.add(path), [words.add(p) for p in below])
                         for path, below in report.includes.items()],
            "missing": [(m.include, m.source, m.line) for m in report.missing],
            "warnings": report.warnings,
        }
        self._store.put(self._key(report.unit), entry | {"words": words.table})


def _lookup(lookup: Lookup, words: _Words) -> tuple[int, int, int]:
    beside, include, after = lookup
    return words.add(beside), words.add(include), -1 if after is None else words.add(after)


def _found(found: Found | None, words: _Words) -> tuple[int, int]:
    return (-1, -1) if found is None else (words.add(found.path), words.add(found.folder))
