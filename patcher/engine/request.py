"""What a transaction is asked to do, and the steps it becomes, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from patcher.changes import Change
from patcher.edits import Edit
from patcher.engine.codec import shape_from_json, shape_to_json
from patcher.engine.target import Target
from patcher.journal import FileKey, Journal, Kind, Shape


@dataclass(frozen=True, slots=True)
class PatchChange:
    """One patch's side: edits against the bases of ``target``'s files, and whole-file changes."""

    id: str
    target: Target
    edits: Mapping[str, tuple[Edit, ...]] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupChange:
    id: str
    patches: tuple[PatchChange, ...]


@dataclass(frozen=True, slots=True)
class PatchsetChange:
    """Groups to apply or to replace. Applied groups that are not ``known`` any more leave."""

    name: str
    digest: str
    groups: tuple[GroupChange, ...]
    known: frozenset[str]


GroupName = tuple[str, str]  # patchset, group


@dataclass(frozen=True, slots=True)
class Request:
    """``expected`` holds the hash that a file had when it was planned, so that a race is seen."""

    adds: tuple[PatchsetChange, ...] = ()
    drops: frozenset[GroupName] = frozenset()
    expected: Mapping[FileKey, str] = field(default_factory=dict)

    def without(self, refused: frozenset[GroupName]) -> Request:
        """The same request less these groups (``--keep-going``)."""
        adds = tuple(
            PatchsetChange(a.name, a.digest, kept, a.known) for a in self.adds
            if (kept := tuple(g for g in a.groups if (a.name, g.id) not in refused)))
        return Request(adds, self.drops - refused, self.expected)


class Why(str, Enum):
    """Why a group cannot go through."""

    DRIFTED = "drifted"
    POISONED = "poisoned"
    CONFLICT = "conflict"
    UNSAFE = "unsafe"


@dataclass(frozen=True, slots=True)
class Refusal:
    """One obstacle: the groups it stops, the file, the reason, and a diff when one explains it."""

    groups: frozenset[GroupName]
    path: str
    why: Why
    reason: str
    diff: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """At ``place`` below root ``key.root``, turn ``before`` into ``after``."""

    key: FileKey
    place: str
    before: Shape
    after: Shape

    @property
    def makes_folder(self) -> bool:
        return self.before.kind is Kind.ABSENT and self.after.kind is Kind.FOLDER

    @property
    def drops_folder(self) -> bool:
        return self.before.kind is Kind.FOLDER and self.after.kind is Kind.ABSENT

    @property
    def inverse(self) -> Step:
        return Step(self.key, self.place, self.after, self.before)

    def to_json(self) -> dict[str, Any]:
        return {"root": self.key.root, "path": self.key.path, "place": self.place,
                "before": shape_to_json(self.before), "after": shape_to_json(self.after)}

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> Step:
        """The inverse of ``to_json``; raises KeyError, TypeError or ValueError."""
        return cls(FileKey(item["root"], item["path"]), item["place"],
                   shape_from_json(item["before"]), shape_from_json(item["after"]))


@dataclass(frozen=True, slots=True)
class Staged:
    """A request against the journal and the disk: what to do, or why not.

    ``changed`` names, per package, the paths whose bytes change. ``blobs`` are
    the contents that ``steps`` and the next journal refer to. ``warnings`` name
    the files that somebody else had edited, one line each.
    """

    steps: tuple[Step, ...]
    journal: Journal
    blobs: Mapping[str, bytes]
    refusals: tuple[Refusal, ...]
    warnings: tuple[str, ...]
    changed: Mapping[str, frozenset[str]]

    @property
    def refused(self) -> frozenset[GroupName]:
        return frozenset(name for refusal in self.refusals for name in refusal.groups)
