"""What a scan was made from: every file that was read and every folder that was listed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from patcher.errors import PatcherError
from patcher.package.model import locate
from patcher.tree import Tree

_REFUSED = ""  # in place of a digest: absent, or not to be read


class WatchedTree:
    """A tree that notes what is asked of it, by content."""

    def __init__(self, base: Tree) -> None:
        self._base = base
        self._files: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._folders: dict[str, str] = {}
        self._looked: dict[str, str] = {}  # digests of files that nothing was made from yet

    @property
    def root(self) -> Path:
        return self._base.root

    @property
    def unwatched(self) -> Tree:
        """The tree that is watched."""
        base = self._base
        return base.unwatched if isinstance(base, WatchedTree) else base

    def locate(self, path: str) -> str:
        """The absolute path on disk."""
        return locate(self._base, path)

    def read(self, path: str) -> bytes:
        try:
            data = self._base.read(path)
        except (OSError, PatcherError):
            self._files[path] = _REFUSED
            raise
        if path not in self._files:
            base = self._base
            self._files[path] = (
                base.look(path) if isinstance(base, WatchedTree) else _digest(data))
        return data

    def names(self, folder: str) -> frozenset[str]:
        found = self._base.names(folder)
        if folder not in self._names:
            self._names[folder] = digest_of(found)
        return found

    def folders(self, folder: str) -> frozenset[str]:
        found = self._base.folders(folder)
        if folder not in self._folders:
            self._folders[folder] = digest_of(found)
        return found

    def look(self, path: str) -> str:
        """Names a file's content without noting it."""
        known = self._files.get(path) or self._looked.get(path)
        if known is None:
            base = self._base
            known = self._looked[path] = (
                base.look(path) if isinstance(base, WatchedTree) else _digest_in(base, path))
        return known

    def use(self, path: str) -> str:
        """Names a file's content, and notes it as ``read`` does."""
        digest = self._files[path] = self.look(path)
        if isinstance(self._base, WatchedTree):
            self._base.use(path)
        return digest

    def note(self, trace: Mapping[str, Mapping[str, str]]) -> None:
        """Something that was kept was made from these."""
        for own, kept in ((self._files, trace["files"]), (self._names, trace["names"]),
                          (self._folders, trace["folders"])):
            own.update(kept)
        if isinstance(self._base, WatchedTree):
            self._base.note(trace)

    def trace(self) -> dict[str, Mapping[str, str]]:
        """Everything noted so far."""
        return {"files": self._files, "names": self._names, "folders": self._folders}


def unchanged(tree: WatchedTree, trace: Mapping[str, Any]) -> bool:
    """True when each file and listing of a trace is what it was. Times on disk say nothing."""
    plain = tree.unwatched
    for folder, digest in trace["names"].items():
        if digest_of(plain.names(folder)) != digest:
            return False
    for folder, digest in trace["folders"].items():
        if digest_of(plain.folders(folder)) != digest:
            return False
    return all(tree.look(path) == digest for path, digest in trace["files"].items())


def _digest_in(tree: Tree, path: str) -> str:
    try:
        return _digest(tree.read(path))
    except (OSError, PatcherError):
        return _REFUSED


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=20).hexdigest()


def digest_of(names: Iterable[str]) -> str:
    """Names a set of names."""
    return _digest("\0".join(sorted(names)).encode("utf-8", "surrogateescape"))
