"""What planning sees of the journal: one package as if none of our patches were applied."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from pathlib import Path

from patcher.edits import Edit
from patcher.engine.inspect import Standing, inspect
from patcher.engine.target import Target, sha256, writable_place
from patcher.journal import FileEntry, FileKey, Journal, Kind
from patcher.state import StateHome
from patcher.tree import Tree


@dataclass(frozen=True)
class PackageView:
    """The journal's knowledge of one package; it is the State that plan asks.

    A file that was lost (reinstalled) counts as never touched: what stands on
    the disk is its base now.
    """

    home: StateHome
    journal: Journal
    target: Target
    seen: dict[str, str] = field(default_factory=dict)  # hash of each base that was read
    _standings: dict[str, Standing] = field(default_factory=dict)

    def entry(self, path: str) -> FileEntry | None:
        """The file's composition, if ours is (still) on the disk."""
        key = FileKey(self.home.key(self.target.root), path)
        entry = self.journal.files.get(key)
        if entry is None:
            return None
        if path not in self._standings:
            place = writable_place(self.target.root, entry.place or path)
            found = inspect(entry, place, path, self.target.record, self.home.original)
            self._standings[path] = found.standing
        gone = self._standings[path] in (Standing.LOST, Standing.SUPERSEDED)
        return None if gone else entry

    def base(self, path: str) -> bytes | None:
        """The file's bytes at its first apply; None when no patchset has touched it."""
        entry = self.entry(path)
        return self.home.original(entry.base.sha256) if entry and entry.base.sha256 else None

    def edits_of(self, path: str, patchset: str) -> tuple[Edit, ...]:
        """Edits of this patchset as they were applied, against the base."""
        return self._edits(path, patchset, mine=True)

    def edits_of_others(self, path: str, patchset: str) -> tuple[Edit, ...]:
        """Edits of every other applied patchset, against the base."""
        return self._edits(path, patchset, mine=False)

    def _edits(self, path: str, patchset: str, *, mine: bool) -> tuple[Edit, ...]:
        entry = self.entry(path)
        edits = entry.edits if entry else {}
        return tuple(sorted({edit for owner, own in edits.items()
                             if (owner.patchset == patchset) is mine for edit in own}))

    def groups_of(self, patchset: str) -> frozenset[str]:
        """Ids of this patchset's groups in the journal, lost ones included."""
        applied = self.journal.patchsets.get(patchset)
        return frozenset(applied.groups) if applied else frozenset()

    def tree(self) -> Tree:
        """The package's tree with every patched file as it was before."""
        key = self.home.key(self.target.root)
        paths = [k.path for k in self.journal.files if k.root == key]
        entries = {path: entry for path in paths if (entry := self.entry(path)) is not None}
        return BaseTree(self.target.tree, entries, self.home, self.seen)


class BaseTree:
    """A tree in which these files stand as their bases; everything else shows through.

    ``seen`` takes the hash of what was first read, for a later check that nothing changed.
    """

    def __init__(self, tree: Tree, entries: dict[str, FileEntry], home: StateHome,
                 seen: dict[str, str]) -> None:
        self._seen = seen
        self._tree = tree
        self._home = home
        self._entries = entries
        self._aside = {posixpath.join(posixpath.dirname(path), want.target): path
                       for path, entry in entries.items() for want in entry.wants.values()
                       if want.kind is Kind.MOVED}

    @property
    def root(self) -> Path:
        return self._tree.root

    def _source(self, path: str) -> str:
        """Where a path below something that was moved aside is now."""
        for new, old in self._aside.items():
            if path == old or path.startswith(old + "/"):
                return new + path[len(old):]
        return path

    def _hidden(self, path: str) -> bool:
        if any(path == new or path.startswith(new + "/") for new in self._aside):
            return True
        entry = self._entries.get(path)
        return entry is not None and entry.base.kind is Kind.ABSENT

    def read(self, path: str) -> bytes:
        if self._hidden(path):
            raise FileNotFoundError(path)
        entry = self._entries.get(path)
        if entry is not None and entry.base.sha256:
            return self._home.original(entry.base.sha256)
        data = self._tree.read(self._source(path))
        if path not in self._seen:
            self._seen[path] = sha256(data)
        return data

    def names(self, folder: str) -> frozenset[str]:
        prefix = f"{folder}/" if folder else ""
        there = {n for n in self._tree.names(self._source(folder)) if not self._hidden(prefix + n)}
        return frozenset(there) | self._restored(folder, Kind.FILE, Kind.LINK)

    def folders(self, folder: str) -> frozenset[str]:
        prefix = f"{folder}/" if folder else ""
        there = {n for n in self._tree.folders(self._source(folder))
                 if not self._hidden(prefix + n)}
        return frozenset(there) | self._restored(folder, Kind.FOLDER)

    def _restored(self, folder: str, *kinds: Kind) -> frozenset[str]:
        return frozenset(posixpath.basename(path) for path, entry in self._entries.items()
                         if posixpath.dirname(path) == folder and entry.base.kind in kinds)
