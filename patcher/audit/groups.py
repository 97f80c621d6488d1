"""Which shipped group somebody's edits amount to, in whole or in part, and what the part does.

Decided by gates: each patch is looked for in the files as they are, so a guard
that was opened in other words counts. A group that is half there may be worse
than none of it: with its module's list of architectures open and a kernel's
body still closed, the module builds and its functions are hollow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from patcher.cuda.directives import normalise
from patcher.operations import opening
from patcher.operations.base import Outcome
from patcher.operations.cuda_guard import arms
from patcher.operations.registry import find
from patcher.operations.text import anchors
from patcher.patchset.schema import CudaGuard, Group, Patch, Patchset, PythonGate, Text
from patcher.tree import Tree


class Presence(str, Enum):
    PRESENT = "present"
    PARTIAL = "partial"  # some of the guards that one patch opens
    ABSENT = "absent"
    UNCLEAR = "unclear"  # neither the old text nor the new one


@dataclass(frozen=True, slots=True)
class PatchPresence:
    """Whether the files hold what a patch would make; ``lines`` are what it would still edit."""

    patch: Patch
    presence: Presence
    reason: str = ""
    lines: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupMatch:
    """A group with at least one patch in place. ``whole`` when nothing of it is missing."""

    patchset: Patchset
    group: Group
    patches: tuple[PatchPresence, ...]

    @property
    def name(self) -> str:
        return f"{self.patchset.name}/{self.group.id}"

    @property
    def missing(self) -> tuple[PatchPresence, ...]:
        return tuple(p for p in self.patches if p.presence is not Presence.PRESENT)

    @property
    def open_gates(self) -> tuple[PythonGate, ...]:
        """The Python gates of it that were opened."""
        present = (p.patch.operation for p in self.patches if p.presence is Presence.PRESENT)
        return tuple(operation for operation in present if isinstance(operation, PythonGate))


def matching_groups(patchsets: Iterable[Patchset], package: str, disk: Tree,
                    edited: frozenset[str], pristine: Tree | None) -> list[GroupMatch]:
    """The groups of which an edited file holds something, nearest to whole first.

    With the ``pristine`` tree, what the release already had does not count.
    """
    found = []
    for patchset in patchsets:
        for group in patchset.groups:
            lists = [variant.patches for variant in group.variants] or [group.patches]
            matches = [_match(patchset, group, patches, package, disk, edited, pristine)
                       for patches in lists]
            found += [match for match in matches if match is not None]
    return sorted(found, key=lambda match: (len(match.missing), match.name))


def _match(patchset: Patchset, group: Group, patches: Sequence[Patch], package: str, disk: Tree,
           edited: frozenset[str], pristine: Tree | None) -> GroupMatch | None:
    mine = [p for p in patches if patchset.package_of(group, p) == package]
    looked = [_presence(patch, disk, pristine) for patch in mine]
    known = [found for found in looked if found is not None]
    done = [found for found in known if found.presence in (Presence.PRESENT, Presence.PARTIAL)
            and set(_files(found.patch)) & edited]
    return GroupMatch(patchset, group, tuple(known)) if done else None


def _files(patch: Patch) -> Iterator[str]:
    yield from (getattr(patch.operation, name) for name in ("file", "to", "link")
                if hasattr(patch.operation, name))


def _presence(patch: Patch, disk: Tree, pristine: Tree | None) -> PatchPresence | None:
    """None for what the release does by itself."""
    if pristine is not None and find(patch.operation, pristine).outcome is Outcome.NOT_NEEDED:
        return None
    finding = find(patch.operation, disk)
    replaced = isinstance(patch.operation, Text) and _is_replaced(patch.operation, disk)
    if replaced or finding.outcome is Outcome.NOT_NEEDED:
        return PatchPresence(patch, Presence.PRESENT)
    if finding.outcome is Outcome.APPLICABLE:
        lines = _lines(patch.operation, disk) if isinstance(patch.operation, CudaGuard) else ()
        return PatchPresence(patch, Presence.ABSENT, "not done", lines)
    if isinstance(patch.operation, CudaGuard) and finding.outcome is Outcome.CONFLICT:
        lines = _lines(patch.operation, disk)
        if 0 < len(lines) < patch.operation.count:
            return PatchPresence(patch, Presence.PARTIAL, "not opened", lines)
    return PatchPresence(patch, Presence.UNCLEAR, finding.reason)


def _is_replaced(operation: Text, disk: Tree) -> bool:
    """True when the new text stands where it should; it may well contain the old one."""
    try:
        data = disk.read(operation.file)
    except FileNotFoundError:
        return False
    newline = b"\r\n" if b"\r\n" in data else b"\n"
    new = operation.replace.encode().replace(b"\n", newline)
    return bool(new) and len(anchors(operation, data, new)) == operation.count


def _lines(operation: CudaGuard, disk: Tree) -> tuple[int, ...]:
    """Where a guard still has the old worlds, in whatever spelling."""
    old, key = opening.table(operation.condition), normalise(operation.condition)
    if old is None:
        return ()
    return tuple(arm.line for arm in arms(disk.read(operation.file))
                 if "__CUDA_ARCH" in arm.text
                 and (normalise(arm.condition) == key
                      or opening.table(arm.condition, old.atoms) == old))
