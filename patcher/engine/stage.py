"""From a request, the journal and the disk to steps and the next journal; nothing is written."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace

from patcher.changes import Create, Delete, Link, Modify, Move, Unlink
from patcher.composition import foreign_edits
from patcher.edits import Edit
from patcher.engine.folders import created_folders, emptied_folders
from patcher.engine.merge import FileChange, Obstacle, merge_file
from patcher.engine.request import (
    GroupName,
    PatchChange,
    PatchsetChange,
    Refusal,
    Request,
    Staged,
    Step,
    Why,
)
from patcher.engine.target import Target, check_relative, real_place, sha256
from patcher.errors import InputError, UnsafePath
from patcher.journal import (
    ABSENT,
    AppliedGroup,
    AppliedPatch,
    AppliedPatchset,
    FileEntry,
    FileKey,
    Journal,
    Kind,
    Owner,
    Shape,
)
from patcher.state import StateHome


def stage(home: StateHome, journal: Journal, request: Request,
          targets: Mapping[str, Target]) -> Staged:
    """Decide what a request does to every file it concerns.

    ``targets`` are the packages by distribution name, as far as they are still
    there. Raises Refused when an original is damaged; obstacles of single
    groups are returned, not raised.
    """
    return _Stager(home, journal, request, targets).run()


@dataclass
class _Wanted:
    """What the added patches want at one path."""

    edits: dict[Owner, tuple[Edit, ...]]
    wants: dict[Owner, Shape]


class _Stager:
    def __init__(self, home: StateHome, journal: Journal, request: Request,
                 targets: Mapping[str, Target]) -> None:
        self._home = home
        self._journal = journal
        self._request = request
        self._targets = {home.key(t.root): t for t in targets.values()}
        self._by_package = dict(targets)
        self._blobs: dict[str, bytes] = {}
        self._wanted: dict[FileKey, _Wanted] = {}
        self._packages: dict[FileKey, str] = {}
        self._names = dict(journal.patchsets)
        self._leaving = self._leavers()
        self._real = {real_place(home.root(key.root), entry.place or key.path): key
                      for key, entry in journal.files.items()}

    def _leavers(self) -> frozenset[Owner]:
        """Owners whose groups are dropped, replaced, or gone from their document."""
        names = set(self._request.drops)
        for add in self._request.adds:
            applied = self._journal.patchsets.get(add.name)
            names |= {(add.name, group.id) for group in add.groups}
            names |= {(add.name, group) for group in (applied.groups if applied else ())
                      if group not in add.known}
        return frozenset(owner for patchset, group in names
                         for owner in self._journal.owners(patchset, [group]))

    def run(self) -> Staged:
        for add in self._request.adds:
            self._take(add)
        self._drop_groups()
        files = dict(self._journal.files)
        steps: list[Step] = []
        refusals: list[Refusal] = []
        warnings: list[str] = []
        for key in sorted(self._concerned()):
            try:
                done = self._merge(key)
            except Obstacle as obstacle:
                groups = frozenset((o.patchset, o.group) for o in obstacle.owners)
                refusals.append(Refusal(groups, key.path, obstacle.why, obstacle.reason,
                                        obstacle.diff))
                continue
            warnings += done.warnings
            self._blobs.update(done.blobs)
            files.pop(key, None)
            if done.entry is not None and done.entry.owners:
                files[key] = done.entry
            if done.before is not None and done.after is not None:
                steps.append(Step(key, done.place, done.before, done.after))
        return self._staged(files, steps, refusals, warnings)

    def _staged(self, files: dict[FileKey, FileEntry], steps: list[Step],
                refusals: list[Refusal], warnings: list[str]) -> Staged:
        new = created_folders(self._home, steps)
        old = emptied_folders(self._journal.folders, files, new)
        after = Journal(self._names, files, (self._journal.folders | set(new)) - set(old))
        made = [Step(key, key.path, ABSENT, Shape(Kind.FOLDER, mode=0o755)) for key in new]
        gone = [Step(key, key.path, Shape(Kind.FOLDER, mode=0o755), ABSENT) for key in old]
        changed: dict[str, set[str]] = {}
        for step in steps:
            changed.setdefault(self._package_of(step.key), set()).add(step.key.path)
        return Staged((*made, *steps, *gone), after, self._blobs, tuple(refusals),
                      tuple(warnings), {name: frozenset(paths) for name, paths in changed.items()})

    def _take(self, add: PatchsetChange) -> None:
        groups = {}
        for group in add.groups:
            patches = []
            for patch in group.patches:
                owner = Owner(add.name, group.id, patch.id)
                self._enter(owner, patch)
                paths = sorted({*patch.edits, *(change.path for change in patch.changes)})
                target = patch.target
                patches.append(AppliedPatch(patch.id, target.name, target.version,
                                            self._home.key(target.root), tuple(paths)))
            groups[group.id] = AppliedGroup(group.id, add.digest, tuple(patches))
        before = self._names.get(add.name)
        kept = {g: a for g, a in before.groups.items() if g in add.known} if before else {}
        self._names[add.name] = AppliedPatchset(add.name, add.digest, {**kept, **groups})

    def _enter(self, owner: Owner, patch: PatchChange) -> None:
        """Enter a patch's edits and whole files by path."""
        root = self._home.key(patch.target.root)
        self._targets[root] = patch.target
        for path, edits in patch.edits.items():
            self._want(FileKey(root, path), patch).edits[owner] = tuple(sorted(edits))
        for change in patch.changes:
            wanted = self._want(FileKey(root, change.path), patch)
            if isinstance(change, Modify):
                wanted.edits[owner] = foreign_edits(change.old, change.new)
            else:
                wanted.wants[owner] = self._shape(change)

    def _shape(self, change: Create | Link | Move | Delete | Unlink) -> Shape:
        """What a whole-file change wants at its path."""
        if isinstance(change, Create):
            digest = sha256(change.new)
            self._blobs[digest] = change.new
            return Shape(Kind.FILE, digest, change.mode)
        if isinstance(change, Link):
            return Shape(Kind.LINK, target=change.target)
        if isinstance(change, Move):
            folder = posixpath.dirname(change.path) or "."
            return Shape(Kind.MOVED, target=posixpath.relpath(change.new_path, folder))
        return ABSENT

    def _want(self, key: FileKey, patch: PatchChange) -> _Wanted:
        self._packages[key] = patch.target.name
        return self._wanted.setdefault(key, _Wanted({}, {}))

    def _drop_groups(self) -> None:
        for patchset, group in self._request.drops:
            applied = self._names.get(patchset)
            if applied is None:
                continue
            left = {name: item for name, item in applied.groups.items() if name != group}
            if left:
                self._names[patchset] = replace(applied, groups=left)
            else:
                del self._names[patchset]

    def _concerned(self) -> set[FileKey]:
        mine = {key for key, entry in self._journal.files.items() if entry.owners & self._leaving}
        return mine | set(self._wanted)

    def _package_of(self, key: FileKey) -> str:
        if key in self._packages:
            return self._packages[key]
        for patchset in self._journal.patchsets.values():
            for group in patchset.groups.values():
                for patch in group.patches:
                    if patch.root == key.root and key.path in patch.files:
                        return patch.package
        return ""

    def _merge(self, key: FileKey) -> FileChange:
        wanted = self._wanted.get(key, _Wanted({}, {}))
        entry = self._journal.files.get(key)
        target = self._by_package.get(self._package_of(key)) or self._targets.get(key.root)
        coming = frozenset(wanted.edits) | frozenset(wanted.wants)
        try:
            place = entry.place if entry is not None else _place(key, target)
            real = real_place(self._home.root(key.root), place or key.path)
        except (UnsafePath, InputError) as error:
            raise Obstacle(coming, Why.UNSAFE, str(error)) from error
        if self._real.setdefault(real, key) != key:
            raise Obstacle(coming, Why.UNSAFE,
                           f"{key.path} is the same file as {self._real[real].path}")
        return merge_file(self._home, key, place, entry, leaving=self._leaving,
                          edits=wanted.edits, wants=wanted.wants, target=target,
                          expected=self._request.expected.get(key))


def _place(key: FileKey, target: Target | None) -> str:
    """Where a new path stands below its root; "" when a package does not map its paths."""
    check_relative(key.path)
    place = os.path.relpath(target.locate(key.path), target.root) if target else key.path
    return "" if place == key.path else place


def groups_named(journal: Journal, patchset: str) -> frozenset[GroupName]:
    """Every applied group of a patchset, for a request that reverts it."""
    applied = journal.patchsets.get(patchset)
    return frozenset((patchset, group) for group in (applied.groups if applied else ()))
