"""The journal: what was applied, as values, and what a plan needs to know of it.

Per file there is one base, what stood there at the first apply, and per patch
a set of edits against that base, never against what another patchset left.
Nothing in it is an absolute path: a root is named relative to the environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from patcher.edits import Edit


class Kind(str, Enum):
    """What stands at a path."""

    ABSENT = "absent"
    FILE = "file"
    LINK = "link"
    FOLDER = "folder"
    MOVED = "moved"  # it was renamed to ``target`` and nothing stands at the path
    OTHER = "other"  # a device, a pipe, a socket


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """The patch that an edit or a whole file belongs to."""

    patchset: str
    group: str
    patch: str


@dataclass(frozen=True, slots=True, order=True)
class FileKey:
    """A path below one root of the environment. ``root`` is relative to the environment."""

    root: str
    path: str


@dataclass(frozen=True, slots=True)
class Shape:
    """What stands at a path: ``sha256`` and ``mode`` of a file, ``target`` of a link.

    A link that stands for a base also keeps the hash of the bytes it led to.
    """

    kind: Kind
    sha256: str = ""
    mode: int = 0o644
    target: str = ""

    def same(self, other: Shape) -> bool:
        """True when both are the same thing with the same content; modes are not content."""
        if self.kind is not other.kind:
            return False
        if self.kind is Kind.FILE:
            return self.sha256 == other.sha256
        return self.kind not in (Kind.LINK, Kind.MOVED) or self.target == other.target


ABSENT = Shape(Kind.ABSENT)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file's composition. ``pristine`` tells whether the base equalled RECORD (None: unlisted).

    A path has either ``edits`` of its base or ``wants``: a whole file, a link
    or an absence in its place; equal ones are co-owned. ``place`` is where the
    file stands below its root when that is not the key's path (source trees).
    """

    base: Shape
    pristine: bool | None
    edits: Mapping[Owner, tuple[Edit, ...]] = field(default_factory=dict)
    wants: Mapping[Owner, Shape] = field(default_factory=dict)
    place: str = ""

    @property
    def owners(self) -> frozenset[Owner]:
        return frozenset(self.edits) | frozenset(self.wants)

    @property
    def all_edits(self) -> tuple[Edit, ...]:
        """Every edit once, unchecked; ``merge_edits`` refuses a clash."""
        return tuple(sorted({edit for edits in self.edits.values() for edit in edits}))

    def without(self, owners: Iterable[Owner]) -> FileEntry:
        """The entry after these owners have left."""
        gone = frozenset(owners)
        return replace(self, edits={o: e for o, e in self.edits.items() if o not in gone},
                       wants={o: w for o, w in self.wants.items() if o not in gone})


@dataclass(frozen=True, slots=True)
class AppliedPatch:
    """``files`` are all paths it touched; one whose entry lacks the patch has been lost."""

    id: str
    package: str
    version: str | None
    root: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AppliedGroup:
    """A group as it was applied: from a document with this ``digest``."""

    id: str
    digest: str
    patches: tuple[AppliedPatch, ...]


@dataclass(frozen=True, slots=True)
class AppliedPatchset:
    """``digest`` is of the document that was applied last; each group keeps its own."""

    name: str
    digest: str
    groups: Mapping[str, AppliedGroup]


@dataclass(frozen=True, slots=True)
class Journal:
    """All that is applied in one environment. ``folders`` are those that we created."""

    patchsets: Mapping[str, AppliedPatchset] = field(default_factory=dict)
    files: Mapping[FileKey, FileEntry] = field(default_factory=dict)
    folders: frozenset[FileKey] = frozenset()

    def owners(self, patchset: str, groups: Iterable[str] | None = None) -> frozenset[Owner]:
        """The patches of a patchset, or of some of its groups, that are applied."""
        applied = self.patchsets.get(patchset)
        if applied is None:
            return frozenset()
        chosen = applied.groups if groups is None else [g for g in groups if g in applied.groups]
        return frozenset(Owner(patchset, group, patch.id)
                         for group in chosen for patch in applied.groups[group].patches)

    def packages(self) -> dict[str, tuple[str, str | None]]:
        """Every package with an applied patch: its root and the version patched last."""
        return {patch.package: (patch.root, patch.version)
                for patchset in self.patchsets.values() for group in patchset.groups.values()
                for patch in group.patches}

    def paths(self, package: str) -> tuple[str, ...]:
        """Every path that an applied patch of the package touches, sorted by bytes."""
        found = {path for patchset in self.patchsets.values()
                 for group in patchset.groups.values() for patch in group.patches
                 if patch.package == package for path in patch.files}
        return tuple(sorted(found, key=lambda path: path.encode("utf-8", "surrogateescape")))
