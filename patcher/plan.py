"""Plan: what applying patchsets to packages would do, as one value; nothing is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from patcher.arch import EMPTY, ArchSet
from patcher.changes import Change
from patcher.edits import Edit
from patcher.operations.base import Outcome
from patcher.patchset.schema import Affects, Group, Patch, Patchset


class State(Protocol):
    """What the journal knows of one package's files (patcher.journal publishes it)."""

    def base(self, path: str) -> bytes | None:
        """The file's bytes at its first apply; None when no patchset has touched it."""

    def edits_of_others(self, path: str, patchset: str) -> tuple[Edit, ...]:
        """Edits of every other applied patchset, against the base."""

    def edits_of(self, path: str, patchset: str) -> tuple[Edit, ...]:
        """Edits of this patchset as they were applied."""

    def groups_of(self, patchset: str) -> frozenset[str]:
        """Ids of this patchset's applied groups."""


@dataclass(frozen=True, slots=True)
class PatchPlan:
    """One patch: its outcome and the edits (against the base) or whole-file changes it makes."""

    patch: Patch
    package: str
    outcome: Outcome
    reason: str
    edits: Mapping[str, tuple[Edit, ...]] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    asked: ArchSet = EMPTY
    effective: ArchSet = EMPTY

    @property
    def id(self) -> str:
        return self.patch.id

    @property
    def affects(self) -> Affects:
        return self.patch.affects

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(sorted({*self.edits, *(change.path for change in self.changes)}))


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One group, all or nothing. ``selected`` is False when it was only looked at."""

    group: Group
    outcome: Outcome
    reason: str
    patches: tuple[PatchPlan, ...]
    selected: bool = True

    @property
    def id(self) -> str:
        return self.group.id


@dataclass(frozen=True, slots=True)
class PatchsetPlan:
    patchset: Patchset
    groups: tuple[GroupPlan, ...]


@dataclass(frozen=True, slots=True)
class PackagePlan:
    """The changes to one package: ready to write, against what is on disk now."""

    name: str
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """One invocation's plan. ``diff`` is git-apply-able and grouped by patch."""

    patchsets: tuple[PatchsetPlan, ...]
    packages: tuple[PackagePlan, ...]
    diff: str

    @property
    def changed(self) -> bool:
        return any(package.changes for package in self.packages)

    @property
    def refused(self) -> tuple[GroupPlan, ...]:
        """Selected groups that cannot go through."""
        return tuple(group for patchset in self.patchsets for group in patchset.groups
                     if group.selected and group.outcome.refused)
