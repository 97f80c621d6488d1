"""What an environment and a package are, and how a package compares with its RECORD."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from patcher.errors import InputError
from patcher.tree import Tree


@dataclass(frozen=True, slots=True)
class RecordEntry:
    """One line of a RECORD file. ``digest`` is lower-case hex, empty when RECORD has none."""

    path: str
    algorithm: str
    digest: str
    size: int | None


class RecordState(str, Enum):
    """How a file on disk compares with what was installed."""

    SAME = "same"
    DIFFERS = "differs"
    ABSENT = "absent"
    UNRECORDED = "unrecorded"  # not in RECORD, or listed there without a hash


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python environment as seen from outside; nothing in it was executed.

    ``site_packages`` is the search path in the order Python would use it (path
    lines of .pth files included). ``reason`` says why this environment was
    taken. ``prefix`` is None for ``--root``; ``include`` holds Python.h.
    """

    prefix: Path | None
    site_packages: tuple[Path, ...]
    python: str | None
    reason: str
    notes: tuple[str, ...] = ()
    version: tuple[int, int] | None = None
    include: Path | None = None
    root: Path | None = None  # the folder of --root


@dataclass(frozen=True, slots=True)
class Poisoned:
    """A file that differs from RECORD while other names share its bytes.

    Someone wrote through a hard link: ``links`` names (this one included) hold
    the edit, among them perhaps the installer's cache and other environments.
    """

    path: str
    links: int


@dataclass(frozen=True)
class Package:
    """An installed package, an unpacked wheel, an archive, or a source tree.

    ``name`` is the normalised distribution name, ``import_name`` the folder of
    its code. ``root`` holds the import packages (or is the archive), and every
    path is relative to it. ``version`` comes from metadata and only labels.
    """

    name: str
    import_name: str
    version: str | None
    root: Path
    tree: Tree
    environment: Environment | None = None
    editable: bool = False
    source_tree: bool = False
    read_only: bool = False  # a wheel or a source archive
    record: Mapping[str, RecordEntry] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    dist_info: str | None = None  # the metadata folder below root

    @property
    def top(self) -> str:
        """The folder of all its files; of a source tree the root, where csrc stands beside it."""
        return "" if self.source_tree else self.import_name

    def locate(self, path: str) -> Path:
        """Where a package path stands on disk; raises InputError for an archive."""
        if self.read_only:
            raise InputError("an archive has no files on disk", where=str(self.root),
                             next_step="unpack it or name an installed package")
        return Path(locate(self.tree, path))

    def differs_from_record(self, path: str) -> RecordState:
        """Compare a file with RECORD by hash (never by size or time)."""
        try:
            data = self.tree.read(path)
        except FileNotFoundError:
            return RecordState.ABSENT
        entry = self.record.get(path)
        if entry is None or not entry.digest:
            return RecordState.UNRECORDED
        same = hashlib.new(entry.algorithm, data).hexdigest() == entry.digest
        return RecordState.SAME if same else RecordState.DIFFERS

    def gone(self) -> tuple[str, ...]:
        """The files of RECORD that are not here, compiled Python aside."""
        here: dict[str, frozenset[str]] = {}
        found = []
        for path in self.record:
            folder, _, name = path.rpartition("/")
            if path.startswith(("../", "/")) or name.endswith(".pyc"):
                continue  # scripts and the like outside the root
            if folder not in here:
                here[folder] = self.tree.names(folder)
            if name not in here[folder]:
                found.append(path)
        return tuple(found)

    def poisoned(self, paths: Iterable[str] | None = None) -> tuple[Poisoned, ...]:
        """The files (of ``paths``, else of RECORD) edited in place through a shared hard link."""
        found = []
        for path in sorted(self.record if paths is None else paths):
            try:
                links = os.lstat(self.locate(path)).st_nlink
            except OSError:
                continue
            if links > 1 and self.differs_from_record(path) is RecordState.DIFFERS:
                found.append(Poisoned(path, links))
        return tuple(found)


def locate(tree: Tree, path: str) -> str:
    """The absolute path behind a tree's path; a tree that maps paths knows better than we do."""
    mapped = getattr(tree, "locate", None)
    return mapped(path) if mapped else os.path.join(tree.root, path)
