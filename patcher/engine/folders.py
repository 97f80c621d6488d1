"""Folders that a transaction makes for new files, and those it may take away again."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Mapping

from patcher.engine.request import Step
from patcher.journal import FileEntry, FileKey, Kind
from patcher.state import StateHome


def created_folders(home: StateHome, steps: Iterable[Step]) -> list[FileKey]:
    """Missing folders above new files and links, parents first."""
    found = set()
    for step in steps:
        if step.before.kind is Kind.ABSENT and step.after.kind is not Kind.ABSENT:
            folder = posixpath.dirname(step.place)
            while folder and not os.path.lexists(home.root(step.key.root) / folder):
                found.add(FileKey(step.key.root, folder))
                folder = posixpath.dirname(folder)
    return sorted(found)


def emptied_folders(ours: Iterable[FileKey], files: Mapping[FileKey, FileEntry],
                    fresh: Iterable[FileKey]) -> list[FileKey]:
    """Folders we made in which no file of ours remains, children first."""
    used = set(fresh)
    for key, entry in files.items():
        folder = posixpath.dirname(entry.place or key.path)
        while folder:
            used.add(FileKey(key.root, folder))
            folder = posixpath.dirname(folder)
    return sorted(set(ours) - used, reverse=True)
