"""A unit's report kept on disk, good as long as everything it was made from is the same:
the bytes of each file, and the names in each folder where a header was looked for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from patcher.cuda.files import Files
from patcher.cuda.includes import Folders
from patcher.cuda.model import ArmKey, ArmState, Missing, TranslationUnit, UnitReport
from patcher.cuda.predefined import ToolkitMacros
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
    """Reports of one tree and toolkit in a store.

    The folders are those that the walker has listed so far, for all units together: a unit
    alone has looked into fewer, so that a name that comes or goes forgets too much, at most.
    """

    def __init__(self, store: Store, root: str, toolkit: ToolkitMacros, folders: Folders) -> None:
        self._store = store
        self._folders = folders
        self._listing = (0, "")  # folders in it, and its key
        self._listings: dict[str, bool] = {}  # key -> whether it still holds
        self._made_from = (root, toolkit)
        self._states: dict[tuple[Any, ...], ArmState] = {}
        self._words: dict[str, str] = {}

    def _key(self, unit: TranslationUnit) -> str:
        configuration = unit.configuration
        open_macros = sorted(configuration.open_macros)
        parts = [getattr(configuration, name) for name in (
            "include", "system", "defines", "forced", "std")]
        return key_of("unit", self._made_from, unit.path, parts, open_macros)

    def find(self, unit: TranslationUnit, files: Files) -> UnitReport | None:
        """The report, when nothing it depends on has changed."""
        entry = self._store.get(self._key(unit))
        if entry is None:
            return None
        words = [self._words.setdefault(word, word) for word in entry["words"]]
        if _sum([words[path] for path in entry["files"]], files) != entry["sum"]:
            return None
        return self._unpack(unit, entry, words) if self._holds(entry["listing"]) else None

    def _holds(self, name: str) -> bool:
        """Whether every folder of a listing has the names it had."""
        if name not in self._listings:
            listing = self._store.get(name)
            self._listings[name] = listing is not None and all(
                _names_of(self._folders.names(folder)) == names
                for folder, names in listing.items())
        return self._listings[name]

    def _keep_listing(self) -> str:
        listed = self._folders.listed
        if self._listing[0] != len(listed):
            listing = {folder: _names_of(names) for folder, names in sorted(listed.items())}
            self._listing = len(listed), key_of("listing", listing)
            self._store.put(self._listing[1], listing)
        return self._listing[1]

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
            unit, arms, frozenset([words[path] for path in entry["files"]]),
            tuple([Missing(*fields) for fields in entry["missing"]]), tuple(entry["warnings"]),
            includes)

    def keep(self, report: UnitReport, files: Files) -> None:
        """Keep a report, with what says whether it still holds."""
        words = _Words()
        paths = sorted(report.files)
        states: dict[ArmState, int] = {}
        groups: dict[tuple[int, ...], int] = {}
        arms: dict[int, list[tuple[int, int]]] = {}
        for (path, line), group in report.arms.items():
            numbers = tuple([states.setdefault(state, len(states)) for state in group])
            arms.setdefault(words.add(path), []).append(
                (line, groups.setdefault(numbers, len(groups))))
        entry = {
            "files": [words.add(path) for path in paths], "sum": _sum(paths, files),
            "listing": self._keep_listing(),
            "states": [(s.open, s.closed, s.unreached, s.unknown, s.decided_by) for s in states],
            "groups": list(groups), "arms": list(arms.items()),
            "includes": [(words.add(path), [words.add(p) for p in below])
                         for path, below in report.includes.items()],
            "missing": [(m.include, m.source, m.line) for m in report.missing],
            "warnings": report.warnings,
        }
        self._store.put(self._key(report.unit), entry | {"words": words.table})


def _sum(paths: Iterable[str], files: Files) -> str:
    """Names the content of files together."""
    return hashlib.blake2b("".join([files.digest(path) for path in paths]).encode(),
                           digest_size=20).hexdigest()


def _names_of(names: frozenset[str]) -> str:
    return hashlib.blake2b("\0".join(sorted(names)).encode("utf-8", "surrogateescape"),
                           digest_size=20).hexdigest()
