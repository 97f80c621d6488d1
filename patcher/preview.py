"""What the files would hold after each patch, and the diff that shows it.

Follows the same composition as the engine: base + remaining edits + new ones,
carried over to the disk so that an edit of somebody else stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from patcher.changes import Change, Create, Link, Modify
from patcher.composition import ForeignClash, recompose, transplant
from patcher.edits import Edit, EditClash, apply_edits, merge_edits, unified_diff
from patcher.journal import FileEntry
from patcher.operations.base import Outcome
from patcher.patchset.schema import Affects, Patchset
from patcher.plan import GroupPlan, PatchPlan, Plan, Subject, Subjects


@dataclass(frozen=True, slots=True)
class PatchPreview:
    """One patch of an applicable group with what it changes, in the plan's order."""

    patchset: Patchset
    group: GroupPlan
    patch: PatchPlan
    changes: tuple[Change, ...]


class Composer:
    """Accumulates the edits of a plan's groups over what the journal keeps, file by file."""

    def __init__(self, subjects: Subjects) -> None:
        self._subjects = subjects
        self._edits: dict[tuple[str, str], frozenset[Edit]] = {}
        self._content: dict[tuple[str, str], bytes] = {}
        self._left: set[tuple[str, str]] = set()

    def leave(self, patchset: Patchset, group: GroupPlan) -> None:
        """Drop what an earlier version of this group had put into the files it changes now."""
        self._left.add((patchset.name, group.id))
        for patch in group.patches:
            for path in patch.edits:
                entry = self._subjects(patch.package).state.entry(path)
                if entry is not None:
                    gone = {o for o in entry.owners if (o.patchset, o.group) in self._left}
                    stale = frozenset(entry.all_edits) - set(entry.without(gone).all_edits)
                    key = (patch.package, path)
                    self._edits[key] = self._current(key, entry) - stale

    def add(self, patch: PatchPlan) -> tuple[Change, ...]:
        """The changes of one more patch to the files as they are by now.

        Raises EditClash when edits meet, ForeignClash when an edit that is not
        ours lies in the way.
        """
        made: list[Change] = list(patch.changes)
        for path, edits in patch.edits.items():
            key, subject = (patch.package, path), self._subjects(patch.package)
            entry = subject.state.entry(path)
            now = self._current(key, entry) | frozenset(edits)
            merge_edits(now)
            old = self.content(patch.package, path)
            new = composed(subject, path, entry, now)
            self._edits[key], self._content[key] = now, new
            if new != old:
                made.append(Modify(path, old, new))
        return tuple(made)

    def content(self, package: str, path: str) -> bytes:
        """The file as it is by now; on the disk, before anything was added."""
        key = (package, path)
        return self._content[key] if key in self._content \
            else self._subjects(package).package.tree.read(path)

    def _current(self, key: tuple[str, str], entry: FileEntry | None) -> frozenset[Edit]:
        found = self._edits.get(key)
        return found if found is not None else frozenset(entry.all_edits if entry else ())


def composed(subject: Subject, path: str, entry: FileEntry | None,
             edits: frozenset[Edit]) -> bytes:
    """The file with ``edits`` in place of those the journal holds, foreign edits kept."""
    base, disk = subject.base.read(path), subject.package.tree.read(path)
    before = entry.all_edits if entry else ()
    steps = recompose(base, before, edits)
    return transplant(apply_edits(base, before), disk, steps)


def refuse_clashes(plan: Plan, subjects: Subjects) -> Plan:
    """The plan with every group refused whose edits meet those of others on the same place."""
    composer, patchsets = Composer(subjects), []
    for patchset in plan.patchsets:
        groups = [_without_clash(composer, patchset.patchset, group, subjects)
                  for group in patchset.groups]
        patchsets.append(type(patchset)(patchset.patchset, tuple(groups)))
    return Plan(tuple(patchsets))


def _without_clash(composer: Composer, patchset: Patchset, group: GroupPlan,
                   subjects: Subjects) -> GroupPlan:
    if not group.writes:
        return group
    composer.leave(patchset, group)
    for patch in group.patches:
        try:
            composer.add(patch)
        except EditClash as clash:
            rival = _owner_of(clash, group, patch, subjects)
            return group.refuse(Outcome.CONFLICT, f"{patch.id}: changes the same place as {rival}")
        except ForeignClash:
            return group.refuse(Outcome.CONFLICT, f"{patch.id}: {', '.join(patch.files)} was "
                                "edited where this patch changes it; undo that edit or reinstall")
    return group


def _owner_of(clash: EditClash, group: GroupPlan, patch: PatchPlan, subjects: Subjects) -> str:
    """Who made the edit that this patch meets."""
    pair = {clash.first, clash.second}
    for path in patch.edits:
        entry = subjects(patch.package).state.entry(path)
        for owner, edits in (entry.edits.items() if entry else ()):
            if pair & set(edits) - set(patch.edits[path]):
                return f"{owner.patchset}/{owner.group}/{owner.patch}"
    for other in group.patches:
        if other.id != patch.id and pair & {e for edits in other.edits.values() for e in edits}:
            return other.id
    return "another group of this plan"


def previews(plan: Plan, subjects: Subjects) -> Iterator[PatchPreview]:
    """Every patch that would change something, with its changes on top of those before it."""
    composer = Composer(subjects)
    for patchset in plan.patchsets:
        for group in patchset.groups:
            if not (group.selected and group.outcome is Outcome.APPLICABLE):
                continue
            composer.leave(patchset.patchset, group)
            for patch in group.patches:
                changes = composer.add(patch)
                if changes:
                    yield PatchPreview(patchset.patchset, group, patch, changes)


def diff(plan: Plan, subjects: Subjects) -> str:
    """One diff that git apply takes, a heading before each patch's part."""
    return "".join(_heading(preview) + "".join(map(change_diff, preview.changes))
                   for preview in previews(plan, subjects))


def _heading(preview: PatchPreview) -> str:
    name = f"{preview.patchset.name}/{preview.group.id}/{preview.patch.id}"
    patch = preview.patch.patch
    lines = [f"{name}: {patch.summary}" if patch.summary else name]
    if patch.affects is Affects.ALL:
        lines.append(f"affects every architecture: {patch.reason}")
    # one line each: nothing in a patchset may look like a part of the diff
    return "".join(f"# {' '.join(line.split())}\n" for line in lines)


def change_diff(change: Change) -> str:
    """The diff of one change; empty for what a diff cannot say (a move)."""
    if isinstance(change, Modify):
        return unified_diff(change.old, change.new, change.path)
    if isinstance(change, Create):
        text = unified_diff(None, change.new, change.path)
        return text.replace("mode 100644", "mode 100755", 1) if change.mode & 0o100 else text
    if isinstance(change, Link):
        text = unified_diff(None, change.target.encode(), change.path)
        return text.replace("mode 100644", "mode 120000", 1)
    return ""


def package_changes(plan: Plan, subjects: Subjects) -> Mapping[str, tuple[Change, ...]]:
    """All changes by package, one per file: what a tree would be after the whole plan."""
    found: dict[str, dict[str, Change]] = {}
    for preview in previews(plan, subjects):
        files = found.setdefault(preview.patch.package, {})
        for change in preview.changes:
            earlier = files.get(change.path)
            if isinstance(change, Modify) and isinstance(earlier, Modify):
                change = Modify(change.path, earlier.old, change.new)
            files[change.path] = change
    return {name: tuple(files.values()) for name, files in found.items()}
