"""Which file an #include names."""

from __future__ import annotations

import os.path
import posixpath
from collections.abc import Mapping
from typing import NamedTuple

from patcher.tree import Tree


class Found(NamedTuple):
    """A header, and the folder of the search path it was found in ("" beside the includer)."""

    path: str
    folder: str


Lookup = tuple[str, str, str | None]  # the includer's folder, the include, #include_next's folder


class Folders:
    """Remembers a tree's folder listings; several search paths share one."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._names: dict[str, frozenset[str]] = {}
        self._files: dict[tuple[str, str], str | None] = {}

    @property
    def listed(self) -> Mapping[str, frozenset[str]]:
        """Every folder that was asked about, with its names."""
        return self._names

    def names(self, folder: str) -> frozenset[str]:
        names = self._names.get(folder)
        if names is None:
            names = self._names[folder] = self._tree.names(folder)
        return names

    def file(self, folder: str, name: str) -> str | None:
        """The path of an include's name seen from a folder, if a file is there."""
        key = (folder, name)
        try:
            return self._files[key]
        except KeyError:
            path = posixpath.normpath(posixpath.join(folder, name))
            found = self._files[key] = path if self._exists(path) else None
            return found

    def _exists(self, path: str) -> bool:
        folder, slash, name = path.rpartition("/")
        if path.startswith("../"):
            return False
        return name in self.names(folder or ("/" if slash else ""))


class SearchPath:
    """The include folders of a configuration, first -I and then -isystem, as gcc orders them."""

    def __init__(self, include: tuple[str, ...], system: tuple[str, ...], folders: Folders) -> None:
        self._folders = folders
        self.folders = _unique(include, system)
        self._found: dict[Lookup, Found | None] = {}

    def find(self, lookup: Lookup) -> Found | None:
        """Resolve ``<name>`` or ``"name"``; the third part is set for #include_next."""
        try:
            return self._found[lookup]
        except KeyError:
            found = self._found[lookup] = self._search(lookup)
            return found

    def _search(self, lookup: Lookup) -> Found | None:
        beside, include, after = lookup
        name = include[1:-1]
        if not name or "\0" in name:
            return None
        file = self._folders.file
        if name.startswith("/"):
            path = file("", name)
            return Found(path, "") if path is not None else None
        candidates = self.folders
        if after is not None:
            start = self.folders.index(after) + 1 if after in self.folders else 0
            candidates = self.folders[start:]
        elif include[0] == '"':
            path = file(beside, name)
            if path is not None:
                return Found(path, "")
        for folder in candidates:
            path = file(folder, name)
            if path is not None:
                return Found(path, folder)
        return None


def _unique(include: tuple[str, ...], system: tuple[str, ...]) -> tuple[str, ...]:
    """Without repeats: a folder given with -I and -isystem counts as -isystem, as in gcc."""
    seen: set[str] = set()
    chain: list[str] = []
    later = {_identity(folder) for folder in system}
    for folder in include:
        key = _identity(folder)
        if key not in later and key not in seen:
            seen.add(key)
            chain.append(posixpath.normpath(folder))
    for folder in system:
        key = _identity(folder)
        if key not in seen:
            seen.add(key)
            chain.append(posixpath.normpath(folder))
    return tuple("" if folder == "." else folder for folder in chain)


def _identity(folder: str) -> str:
    return os.path.realpath(folder) if folder.startswith("/") else posixpath.normpath(folder)
