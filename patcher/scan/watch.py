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

    @property
    def root(self) -> Path:
        return self._base.root

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
            self._files[path] = _digest(data)
        return data

    def names(self, folder: str) -> frozenset[str]:
        found = self._base.names(folder)
        if folder not in self._names:
            self._names[folder] = _digest_of(found)
        return found

    def folders(self, folder: str) -> frozenset[str]:
        found = self._base.folders(folder)
        if folder not in self._folders:
            self._folders[folder] = _digest_of(found)
        return found

    def trace(self) -> dict[str, Mapping[str, str]]:
        """Everything noted so far."""
        return {"files": self._files, "names": self._names, "folders": self._folders}


def unchanged(tree: Tree, trace: Mapping[str, Any]) -> bool:
    """True when each file and listing of a trace is what it was. Times on disk say nothing."""
    for folder, digest in trace["names"].items():
        if _digest_of(tree.names(folder)) != digest:
            return False
    for folder, digest in trace["folders"].items():
        if _digest_of(tree.folders(folder)) != digest:
            return False
    for path, digest in trace["files"].items():
        try:
            now = _digest(tree.read(path))
        except (OSError, PatcherError):
            now = _REFUSED
        if now != digest:
            return False
    return True


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=20).hexdigest()


def _digest_of(names: Iterable[str]) -> str:
    return _digest("\0".join(sorted(names)).encode("utf-8", "surrogateescape"))
