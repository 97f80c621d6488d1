"""The state of what is applied: the journal against the disk, in one vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from patcher.engine.inspect import Inspection, Standing, inspect
from patcher.engine.target import Target, writable_place
from patcher.journal import AppliedGroup, AppliedPatch, AppliedPatchset, FileKey, Owner
from patcher.session import Session


class State(str, Enum):
    """What became of a patchset, a group or a patch."""

    APPLIED = "applied"
    PARTIAL = "partial"  # some of it is in place, some was lost
    DRIFTED = "drifted"  # somebody edited what we had changed
    LOST = "lost"  # the files are as installed again; apply once more
    SUPERSEDED = "superseded"  # the installed package does it by itself now
    POISONED = "poisoned"  # edited in place through a hard link: other environments share it
    INTERRUPTED = "interrupted"  # a crash left a transaction; the next apply or revert finishes it
    ABSENT = "absent"  # not applied


class Effective(str, Enum):
    """Whether what runs uses the patched source."""

    YES = "yes"
    AFTER_RESTART = "after-restart"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PatchStatus:
    id: str
    state: State
    reason: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupStatus:
    id: str
    state: State
    effective: Effective
    reason: str
    patches: tuple[PatchStatus, ...]


@dataclass(frozen=True, slots=True)
class PatchsetStatus:
    name: str
    digest: str
    state: State
    groups: tuple[GroupStatus, ...]


Find = Callable[[str], Target | None]
Effect = Callable[[AppliedPatchset, AppliedGroup], tuple[Effective, str]]
Needed = Callable[[AppliedPatchset, AppliedGroup], bool]

_STATES = {
    Standing.IN_PLACE: State.APPLIED,
    Standing.FOREIGN: State.APPLIED,
    Standing.DRIFTED: State.DRIFTED,
    Standing.POISONED: State.POISONED,
    Standing.LOST: State.LOST,
    Standing.SUPERSEDED: State.SUPERSEDED,
}
_WORST = (State.INTERRUPTED, State.POISONED, State.DRIFTED, State.PARTIAL)


def combine(states: Iterable[State]) -> State:
    """The state of a whole from the states of its parts; nothing to do counts as applied."""
    found = set(states)
    for state in _WORST:
        if state in found:
            return state
    if len(found) == 1:
        return found.pop()
    if State.APPLIED in found:
        return State.PARTIAL
    return State.LOST if found else State.APPLIED


def _unknown(_patchset: AppliedPatchset, _group: AppliedGroup) -> tuple[Effective, str]:
    return Effective.UNKNOWN, "the caches were not looked at"


def _always(_patchset: AppliedPatchset, _group: AppliedGroup) -> bool:
    return True


def status(session: Session, find: Find, *, effect: Effect = _unknown,
           needed: Needed = _always) -> tuple[PatchsetStatus, ...]:
    """The state of every applied patchset, by name.

    ``find`` names the packages that are still there. ``effect`` tells whether
    an applied group is in effect. ``needed`` is asked for a lost group of a
    package whose version changed: False makes it superseded. Raises Refused
    when an original is damaged.
    """
    reader = _Reader(session, find, effect, needed)
    return tuple(reader.patchset(session.journal.patchsets[name])
                 for name in sorted(session.journal.patchsets))


class _Reader:
    def __init__(self, session: Session, find: Find, effect: Effect, needed: Needed) -> None:
        self._session = session
        self._find = find
        self._effect = effect
        self._needed = needed
        self._targets: dict[str, Target | None] = {}
        self._seen: dict[FileKey, Inspection] = {}

    def patchset(self, applied: AppliedPatchset) -> PatchsetStatus:
        groups = tuple(self._group(applied, group) for group in applied.groups.values())
        state = combine(group.state for group in groups)
        return PatchsetStatus(applied.name, applied.digest, state, groups)

    def _group(self, applied: AppliedPatchset, group: AppliedGroup) -> GroupStatus:
        patches = tuple(self._patch(applied, group, patch) for patch in group.patches)
        state = combine(patch.state for patch in patches)
        reason = next((patch.reason for patch in patches if patch.state is not State.APPLIED), "")
        if applied.name in self._session.pending:
            state, reason = State.INTERRUPTED, "a change was interrupted"
        elif state is State.LOST and self._upgraded(group) and not self._needed(applied, group):
            state, reason = State.SUPERSEDED, "the installed version does not need it"
        effective = Effective.NO
        if state is State.APPLIED:
            effective, reason = self._effect(applied, group)
        elif state is State.SUPERSEDED:
            effective = Effective.UNKNOWN
        return GroupStatus(group.id, state, effective, reason, patches)

    def _upgraded(self, group: AppliedGroup) -> bool:
        for patch in group.patches:
            target = self._target(patch.package)
            if target is not None and target.version != patch.version:
                return True
        return False

    def _patch(self, applied: AppliedPatchset, group: AppliedGroup,
               patch: AppliedPatch) -> PatchStatus:
        target, home = self._target(patch.package), self._session.home
        if target is None:
            return PatchStatus(patch.id, State.LOST, f"{patch.package} is not installed any more",
                               patch.files)
        if home.key(target.root) != patch.root:
            return PatchStatus(patch.id, State.LOST, f"{patch.package} is in {target.root} now, "
                               f"not in {home.root(patch.root)}, where it was changed",
                               patch.files)
        owner = Owner(applied.name, group.id, patch.id)
        states = {path: self._file(owner, patch, path) for path in patch.files}
        state = combine(states.values())
        worst = next((path for path, s in states.items() if s is not State.APPLIED), "")
        reason = f"{worst} {_REASONS[states[worst]]}" if worst else ""
        return PatchStatus(patch.id, state, reason, patch.files)

    def _file(self, owner: Owner, patch: AppliedPatch, path: str) -> State:
        key = FileKey(patch.root, path)
        entry = self._session.journal.files.get(key)
        if entry is None or owner not in entry.owners:
            return State.LOST  # another apply took the reinstalled file as its base
        if key not in self._seen:
            target = self._target(patch.package)
            home = self._session.home
            place = writable_place(home.root(key.root), entry.place or path)
            self._seen[key] = inspect(entry, place, path, target.record if target else {},
                                      home.original)
        found = self._seen[key]
        hurt = found.standing in (Standing.DRIFTED, Standing.POISONED)
        return State.APPLIED if hurt and owner not in found.hit else _STATES[found.standing]

    def _target(self, package: str) -> Target | None:
        if package not in self._targets:
            self._targets[package] = self._find(package)
        return self._targets[package]


_REASONS = {
    State.DRIFTED: "was edited where we had changed it",
    State.POISONED: "was edited in place through a hard link",
    State.LOST: "is as installed again",
    State.SUPERSEDED: "holds the change as installed",
    State.PARTIAL: "is changed in part",
}
