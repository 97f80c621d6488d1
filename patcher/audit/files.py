"""The files of an installed package that are not as its installer wrote them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from patcher.composition import ForeignClash, recompose, transplant
from patcher.edits import apply_edits, unified_diff
from patcher.engine.target import matches_record
from patcher.errors import InputError, UnsafePath
from patcher.journal import FileEntry
from patcher.package.model import Package, RecordState
from patcher.tree import Tree, walk


class Change(str, Enum):
    """What became of a file, and by whom."""

    MODIFIED = "modified"
    MISSING = "missing"
    ADDED = "added"
    OURS = "ours"  # exactly what applied patchsets make of it
    OURS_AND_FOREIGN = "ours-and-foreign"  # that, and somebody's edit besides


@dataclass(frozen=True, slots=True)
class Difference:
    """One file. ``before`` are the bytes as installed, as far as they are known, ``after``
    those of now; ``foreign`` what is left of ``after`` without our own patches' edits."""

    path: str
    change: Change
    before: bytes | None
    after: bytes | None
    foreign: bytes | None
    owners: tuple[str, ...] = ()  # our patchsets in it
    links: int = 1

    @property
    def is_foreign(self) -> bool:
        return self.change is not Change.OURS

    @property
    def poisoned(self) -> bool:
        """True when other names (an installer's cache, other environments) share the edit."""
        return self.links > 1 and self.change is Change.MODIFIED

    @property
    def diff(self) -> str:
        """What somebody else changed; empty while the installed bytes are not known."""
        known = self.before is not None or self.change is Change.ADDED
        return unified_diff(self.before, self.foreign, self.path) if known else ""


Entry = Callable[[str], FileEntry | None]
Original = Callable[[str], bytes]
Kept = Callable[[str], bytes | None]


def differences(package: Package, entry: Entry, original: Original,
                pristine: Tree | None = None, kept: Kept = lambda _path: None
                ) -> list[Difference]:
    """Every file that differs from RECORD, is gone, or stands where RECORD lists nothing.

    ``entry`` and ``original`` are the journal's; ``pristine`` is the wheel as it
    was, ``kept`` whatever else still has a file's installed bytes. Raises
    InputError for a package without RECORD, or a ``pristine`` that is not what
    was installed.
    """
    if not any(row.digest for row in package.record.values()):
        raise InputError(f"{package.name} has no RECORD to compare with",
                         where=str(package.root), next_step="install it from a wheel")
    reader = _Reader(package, entry, original, pristine, kept)
    found = [reader.listed(path) for path in sorted(package.record) if not _is_metadata(path)]
    return [d for d in (*found, *reader.added()) if d is not None]


def _is_metadata(path: str) -> bool:
    """What installers write themselves, and what Python leaves."""
    folder = path.partition("/")[0]
    return folder.endswith(".dist-info") or path.endswith(".pyc")


@dataclass(frozen=True)
class _Reader:
    package: Package
    entry: Entry
    original: Original
    pristine: Tree | None
    kept: Kept

    def listed(self, path: str) -> Difference | None:
        state = self.package.differs_from_record(path)
        if state in (RecordState.SAME, RecordState.UNRECORDED):
            return None
        before = self._before(path)
        if state is RecordState.ABSENT:
            return Difference(path, Change.MISSING, before, None, None)
        return self._changed(path, before, Change.MODIFIED)

    def added(self) -> Iterator[Difference]:
        """Files below the import package that no RECORD lists."""
        for path in walk(self.package.tree, self.package.import_name):
            if path not in self.package.record and "__pycache__" not in path \
                    and not path.endswith(".pyc"):
                try:
                    yield self._changed(path, None, Change.ADDED)
                except (OSError, InputError, UnsafePath):
                    continue  # a link out of the package, a device: not a file of it

    def _changed(self, path: str, before: bytes | None, otherwise: Change) -> Difference:
        after = self.package.tree.read(path)
        links = os.lstat(self.package.locate(path)).st_nlink
        entry = self.entry(path)
        if entry is None:
            return Difference(path, otherwise, before, after, after, links=links)
        owners = tuple(sorted({f"{o.patchset}/{o.group}" for o in entry.owners}))
        if entry.wants:
            return Difference(path, Change.OURS, before, after, before, owners, links)
        base = self.original(entry.base.sha256)
        ours = apply_edits(base, entry.all_edits)
        if after == ours and entry.pristine is not False:
            return Difference(path, Change.OURS, before or base, after, base, owners, links)
        foreign = _without_ours(base, entry, ours, after)
        return Difference(path, Change.OURS_AND_FOREIGN, before or base, after, foreign, owners,
                          links)

    def _before(self, path: str) -> bytes | None:
        """The bytes that RECORD lists: of the wheel, the journal's originals, a cache."""
        entry = self.entry(path)
        if self.pristine is not None:
            try:
                data = self.pristine.read(path)
            except FileNotFoundError:
                data = None
            if data is None or matches_record(self.package.record, path, data) is False:
                raise InputError(f"its {path} is not what was installed: another release",
                                 where=str(self.pristine.root),
                                 next_step=f"name the wheel of {self.package.name} "
                                           f"{self.package.version}")
            return data
        if entry is not None and entry.pristine and entry.base.sha256:
            return self.original(entry.base.sha256)
        return self.kept(path)


def _without_ours(base: bytes, entry: FileEntry, ours: bytes, after: bytes) -> bytes:
    """The file with our edits taken back and the others' kept; as it is where they meet."""
    try:
        return transplant(ours, after, recompose(base, entry.all_edits, ()))
    except ForeignClash:
        return after

