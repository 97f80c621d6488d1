"""One file of a transaction: its entry, who leaves, who comes, and the disk."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from patcher.composition import ForeignClash, recompose, transplant
from patcher.edits import Edit, EditClash, apply_edits, merge_edits, unified_diff
from patcher.engine.inspect import Inspection, Standing, inspect, wanted
from patcher.engine.request import Why
from patcher.engine.target import (
    Recorded,
    Target,
    matches_record,
    observe,
    sha256,
    writable_place,
)
from patcher.errors import InputError, UnsafePath
from patcher.journal import ABSENT, FileEntry, FileKey, Kind, Owner, Shape
from patcher.state import StateHome


class Obstacle(Exception):
    """Why this file stops its groups; ``owners`` are the patches concerned."""

    def __init__(self, owners: Collection[Owner], why: Why, reason: str, diff: str = "") -> None:
        super().__init__(reason)
        self.owners = frozenset(owners)
        self.why = why
        self.reason = reason
        self.diff = diff


@dataclass(frozen=True, slots=True)
class FileChange:
    """The next entry (None: nothing to remember) and the step, if the disk changes at all."""

    place: str
    entry: FileEntry | None
    before: Shape | None = None
    after: Shape | None = None
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def merge_file(home: StateHome, key: FileKey, place: str, entry: FileEntry | None, *,
               leaving: frozenset[Owner], edits: Mapping[Owner, tuple[Edit, ...]],
               wants: Mapping[Owner, Shape], target: Target | None,
               expected: str | None) -> FileChange:
    """Decide one file. Raises Obstacle, or Refused when its original is damaged."""
    merger = _Merger(home, key, place or key.path, entry, leaving, edits, wants, target, expected)
    try:
        return merger.merge()
    except (UnsafePath, InputError) as error:
        raise Obstacle(merger.concerned, Why.UNSAFE, str(error)) from error
    except EditClash as error:
        raise Obstacle(merger.clashing(error), Why.CONFLICT, merger.clash_reason(error)) from error


@dataclass
class _Merger:
    home: StateHome
    key: FileKey
    place: str
    entry: FileEntry | None
    leaving: frozenset[Owner]
    edits: Mapping[Owner, tuple[Edit, ...]]
    wants: Mapping[Owner, Shape]
    target: Target | None
    expected: str | None

    @property
    def coming(self) -> frozenset[Owner]:
        return frozenset(self.edits) | frozenset(self.wants)

    @property
    def concerned(self) -> frozenset[Owner]:
        return self.coming | (self.entry.owners & self.leaving if self.entry else frozenset())

    @property
    def record(self) -> Mapping[str, Recorded]:
        return self.target.record if self.target else {}

    @property
    def path(self) -> Path:
        return writable_place(self.home.root(self.key.root), self.place)

    def merge(self) -> FileChange:
        if self.entry is None:
            return self._fresh()
        found = inspect(self.entry, self.path, self.key.path, self.record, self.home.original)
        if found.standing in (Standing.LOST, Standing.SUPERSEDED):
            if self.coming:
                return self._fresh()
            return FileChange(self.place, self.entry.without(self.leaving))
        after = self.entry.without(self.leaving)
        after = replace(after, edits={**after.edits, **self.edits},
                        wants={**after.wants, **self.wants})
        self._check_kinds(after)
        if (self.entry.edits and after.wants) or (self.entry.wants and after.edits):
            raise Obstacle(self.coming, Why.CONFLICT, f"{self.key.path} is edited by one patch "
                           "and replaced as a whole by another: revert the other first")
        if self.entry.edits:
            return self._edited(found, self.entry, after)
        return self._replaced(found, self.entry, after)

    def _check_kinds(self, entry: FileEntry) -> None:
        shapes = list(entry.wants.values())
        if (entry.edits and shapes) or any(not s.same(shapes[0]) for s in shapes):
            raise Obstacle(self.coming, Why.CONFLICT,
                           f"{self.key.path}: patches want different things in its place")
        merge_edits(entry.all_edits)

    def _fresh(self) -> FileChange:
        """A file that nobody of ours has touched, or that was reinstalled since."""
        shape, data = observe(self.path)
        if self.edits and shape.kind is Kind.LINK:
            data = self._linked()
            mode = stat.S_IMODE(os.stat(self.path).st_mode)
            base = Shape(Kind.LINK, sha256(data), mode, shape.target)
        else:
            base = shape
        if data is not None and self.expected not in (None, sha256(data)):
            raise Obstacle(self.coming, Why.CONFLICT,
                           f"{self.key.path} changed while it was planned: run again")
        pristine = None if data is None else matches_record(self.record, self.key.path, data)
        place = "" if self.place == self.key.path else self.place
        entry = FileEntry(base, pristine, dict(self.edits), dict(self.wants), place)
        self._check_kinds(entry)
        warnings = self._base_warnings(shape, pristine)
        if self.wants:
            after = wanted(entry)
            self._check_room(shape, after)
            blobs = {base.sha256: data} if data is not None else {}
            return FileChange(self.place, entry, shape, after, blobs, warnings)
        if data is None:
            raise Obstacle(self.coming, Why.CONFLICT, f"{self.key.path} is not a file")
        try:
            new = apply_edits(data, entry.all_edits)
        except EditClash:
            raise
        except ValueError as error:
            raise Obstacle(self.coming, Why.CONFLICT, f"{self.key.path}: {error}") from error
        after = Shape(Kind.FILE, sha256(new), base.mode)
        return FileChange(self.place, entry, shape, after,
                          {base.sha256: data, after.sha256: new}, warnings)

    def _linked(self) -> bytes:
        if self.target is None:
            raise InputError("the package is gone", where=self.key.path)
        return self.target.tree.read(self.key.path)

    def _base_warnings(self, shape: Shape, pristine: bool | None) -> tuple[str, ...]:
        if pristine is not False:
            return ()
        links = os.lstat(self.path).st_nlink
        if shape.kind is Kind.FILE and links > 1:
            text = (f"{self.key.path} had been edited in place before, and {links - 1} other names "
                    "share that edit (RECORD differs, hard link): reinstall the package with a "
                    "clean installer cache")
        else:
            text = f"{self.key.path} had been edited before (RECORD differs): kept as its base"
        return (text,)

    def _check_room(self, shape: Shape, after: Shape) -> None:
        """A new file never replaces one; what is moved or deleted has to be there."""
        if after.kind in (Kind.FILE, Kind.LINK):
            if shape.kind is not Kind.ABSENT:
                raise Obstacle(self.coming, Why.CONFLICT, f"{self.key.path} exists already")
        elif shape.kind is Kind.ABSENT:
            raise Obstacle(self.coming, Why.CONFLICT, f"{self.key.path} is not there")
        elif after.kind is Kind.MOVED:
            aside = writable_place(self.path.parent, after.target)
            # an older copy of ours goes when the lock is taken
            ours = self.entry is not None and wanted(self.entry).same(after)
            if os.path.lexists(aside) and not ours:
                raise Obstacle(self.coming, Why.CONFLICT, f"{aside} is in the way: remove it")

    def _edited(self, found: Inspection, entry: FileEntry, after: FileEntry) -> FileChange:
        """Edits on edits: go from one composition to the other, keeping what others wrote."""
        if found.hit & self.concerned or found.data is None or found.expected is None:
            raise self._drift(found, found.hit & self.concerned or self.concerned)
        base = self.home.original(entry.base.sha256)
        if entry.pristine and matches_record(self.record, self.key.path, base) is False:
            raise Obstacle(self.concerned, Why.CONFLICT, f"{self.key.path}: its original is not "
                           "what RECORD lists now: reinstall the package")
        steps = recompose(base, entry.all_edits, after.all_edits)
        try:
            new = transplant(found.expected, found.data, steps)
        except ForeignClash:
            raise self._drift(found, self.concerned) from None
        warnings: tuple[str, ...] = ()
        if found.data != found.expected:
            warnings = (f"{self.key.path} has an edit that is not ours: kept",)
        if not after.edits and new == base:
            shape = entry.base  # restores a link as a link
        else:
            shape = Shape(Kind.FILE, sha256(new), found.shape.mode)
        if shape.same(found.shape):
            return FileChange(self.place, after, warnings=warnings)
        blobs = {found.shape.sha256: found.data, sha256(new): new}
        return FileChange(self.place, after, found.shape, shape, blobs, warnings)

    def _replaced(self, found: Inspection, entry: FileEntry, after: FileEntry) -> FileChange:
        """Whole files: from what stands there to what the remaining owners want, or the base."""
        if found.standing is not Standing.IN_PLACE:
            raise self._drift(found, self.concerned)
        old, new = wanted(entry), wanted(after)
        if new.same(old):
            return FileChange(self.place, after)
        if not after.wants and old.kind is Kind.MOVED:
            return FileChange(self.place, after, old, new)
        if after.wants and Kind.MOVED in (old.kind, new.kind):
            raise Obstacle(self.coming, Why.CONFLICT, f"{self.key.path} was moved aside by "
                           "another patch: revert that first")
        blobs = {found.shape.sha256: found.data} if found.data is not None else {}
        return FileChange(self.place, after, found.shape, new, blobs)

    def _drift(self, found: Inspection, owners: Collection[Owner]) -> Obstacle:
        diff = ""
        if found.expected is not None and (found.data is not None or found.shape is ABSENT):
            diff = unified_diff(found.expected, found.data, self.key.path)
        if found.standing is Standing.POISONED:
            return Obstacle(owners, Why.POISONED, f"{self.key.path} was edited in place through a "
                            "hard link: reinstall the package with a clean installer cache", diff)
        return Obstacle(owners, Why.DRIFTED, f"{self.key.path} was edited where we had changed it: "
                        "undo that edit, or reinstall the package", diff)

    def clashing(self, clash: EditClash) -> frozenset[Owner]:
        """The coming patches that one of the two clashing edits belongs to."""
        pair = {clash.first, clash.second}
        mine = frozenset(owner for owner, edits in self.edits.items() if pair & set(edits))
        return mine or self.coming

    def clash_reason(self, clash: EditClash) -> str:
        """Names both sides of a clash."""
        everyone = {**(self.entry.edits if self.entry else {}), **self.edits}
        names = sorted({f"{o.patchset}/{o.group}/{o.patch}" for o, edits in everyone.items()
                        if {clash.first, clash.second} & set(edits)})
        return f"{self.key.path}: {' and '.join(names)} change the same place differently"
