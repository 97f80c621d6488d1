"""Plan: what applying patchsets to packages would do, as one value; nothing is written.

Edits are planned against the bases, never against what a patchset left; what
the journal holds decides between ``applicable`` and ``already-applied``. The
steps: findings by operation, outcomes by group (``decide``), the journal,
clashes between patchsets, the law, the self-check, the diff.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from patcher.arch import EMPTY, ArchSet
from patcher.changes import Change
from patcher.decide import Decision, decide, group_outcome
from patcher.edits import Edit
from patcher.errors import Exit, InputError, PackageNotFound, SchemaError, UsageError
from patcher.journal import FileEntry, Owner
from patcher.operations.base import Finding, Outcome
from patcher.operations.registry import find
from patcher.package.model import Package
from patcher.patchset.label import Label, label_of
from patcher.patchset.load import load_patchset
from patcher.patchset.schema import Affects, Group, Patch, Patchset, Place
from patcher.tree import Tree

if TYPE_CHECKING:
    from patcher.profiles.base import Profile
    from patcher.toolchain.model import Toolkit


class State(Protocol):
    """What the journal knows of one package's files (``engine.view.PackageView``)."""

    def entry(self, path: str) -> FileEntry | None:
        """The file's composition when ours is on the disk."""

    def groups_of(self, patchset: str) -> frozenset[str]:
        """Ids of this patchset's applied groups."""

    def tree(self) -> Tree:
        """The package as if none of our patches were applied."""


@dataclass(frozen=True)
class Untouched:
    """The State of a package that no patchset has touched: an archive, an environment without
    a state home."""

    package: Package

    def entry(self, path: str) -> FileEntry | None:
        return None

    def groups_of(self, patchset: str) -> frozenset[str]:
        return frozenset()

    def tree(self) -> Tree:
        return self.package.tree


@dataclass(frozen=True)
class Subject:
    """One package to plan for.

    ``find_target`` says what the user's device is built as (asked only where a
    group is for some targets); ``profile`` and ``toolkit`` tell the translation
    units, without which the law sees no C++.
    """

    package: Package
    state: State
    find_target: Callable[[], ArchSet] = lambda: EMPTY
    profile: Profile | None = None
    toolkit: Toolkit | None = None

    @property
    def base(self) -> Tree:
        return self.state.tree()


@dataclass(frozen=True, slots=True)
class Request:
    """A patchset and the groups named for it; none named means its default groups."""

    patchset: Patchset
    groups: tuple[str, ...] = ()


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
    looked_at: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.patch.id

    @property
    def affects(self) -> Affects:
        return self.patch.affects

    @property
    def files(self) -> tuple[str, ...]:
        """What it changes; for a patch that changes nothing, what it looked at."""
        changed = {*self.edits, *(change.path for change in self.changes)}
        return tuple(sorted(changed or self.looked_at))


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

    @property
    def writes(self) -> bool:
        """True when this group's edits belong into the composition."""
        applied = self.outcome is Outcome.ALREADY_APPLIED
        return applied or (self.selected and self.outcome is Outcome.APPLICABLE)

    def refuse(self, outcome: Outcome, reason: str) -> GroupPlan:
        return replace(self, outcome=outcome, reason=reason)


@dataclass(frozen=True, slots=True)
class PatchsetPlan:
    patchset: Patchset
    groups: tuple[GroupPlan, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """One invocation's plan."""

    patchsets: tuple[PatchsetPlan, ...]

    @property
    def refused(self) -> tuple[GroupPlan, ...]:
        """Selected groups that cannot go through."""
        return tuple(group for patchset in self.patchsets for group in patchset.groups
                     if group.selected and group.outcome.refused)

    @property
    def changed(self) -> bool:
        """True when some selected group would change something."""
        return any(group.selected and group.outcome is Outcome.APPLICABLE
                   for patchset in self.patchsets for group in patchset.groups)

    @property
    def exit(self) -> Exit:
        return Exit.REFUSED if self.refused else Exit.DONE

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages that selected groups look at, in order of mention."""
        names = (patch.package for patchset in self.patchsets for group in patchset.groups
                 if group.selected for patch in group.patches)
        return tuple(dict.fromkeys(names))


Subjects = Callable[[str], Subject]
# the patchset, the group, the groups of this plan that precede it and write
Check = Callable[[Patchset, GroupPlan, Sequence[GroupPlan], Subjects], GroupPlan]


def plan(requests: Sequence[Request], subjects: Subjects,
         checks: Sequence[Check] = ()) -> Plan:
    """Plan all requests. ``subjects`` gives the package of a name (and may raise PackageNotFound).

    Every group is looked at, so that a reader sees what else there is; only
    selected ones count. ``checks`` see each selected group that would change
    something, in order, and may refuse it. Raises UsageError for a group that
    does not exist.
    """
    plans, earlier = list[PatchsetPlan](), list[GroupPlan]()
    for request in requests:
        selected = _selection(request)
        groups = []
        for group in request.patchset.groups:
            planned = _looked_at(request, group, subjects, selected)
            for check in checks:
                if planned.selected and planned.outcome is Outcome.APPLICABLE:
                    planned = check(request.patchset, planned, earlier, subjects)
            groups.append(planned)
            if planned.writes:
                earlier.append(planned)
        plans.append(PatchsetPlan(request.patchset, tuple(groups)))
    return _with_requirements(Plan(tuple(plans)), subjects)


def _selection(request: Request) -> frozenset[str]:
    """The chosen groups and those of the same document that they require."""
    known: dict[str, Group] = {group.id: group for group in request.patchset.groups}
    for name in request.groups:
        if name not in known:
            raise UsageError(f"patchset {request.patchset.name} has no group {name!r}",
                             next_step=f"its groups: {', '.join(known)}")
    chosen, queue = set[str](), list(request.groups or request.patchset.default_groups)
    while queue:
        name = queue.pop()
        if name not in chosen:
            chosen.add(name)
            queue += [needed for needed in known[name].requires if needed in known]
    return frozenset(chosen)


def _looked_at(request: Request, group: Group, subjects: Subjects,
               selected: frozenset[str]) -> GroupPlan:
    """A group's plan; one that is not selected may concern a package that is not there."""
    try:
        return _group(request, group, subjects, selected)
    except PackageNotFound as absent:
        if group.id in selected:
            raise
        return GroupPlan(group, Outcome.MISSING, absent.what, (), selected=False)


def _group(request: Request, group: Group, subjects: Subjects,
           selected: frozenset[str]) -> GroupPlan:
    patchset = request.patchset
    if group.parts:
        return _composed(request, group, subjects, selected)
    subject = subjects(group.package or patchset.package)
    chosen = group.id in selected
    misplaced = _misplaced(group, subject)
    if misplaced:
        named = group.id in request.groups
        return GroupPlan(group, Outcome.UNSUPPORTED, misplaced, (), chosen and named)
    best = replace(_best(patchset, group, subjects, subject.package.version), selected=chosen)
    wrong = _wrong_target(group, subject)
    if wrong and best.outcome is Outcome.APPLICABLE:
        return best.refuse(Outcome.UNSUPPORTED, wrong)
    return best


def _composed(request: Request, group: Group, subjects: Subjects,
              selected: frozenset[str]) -> GroupPlan:
    """A group of groups: each part is decided in its own package, together they are one."""
    plans = [_group(request, part, subjects, frozenset({part.id})) for part in group.parts]
    patches = tuple(patch for plan in plans for patch in plan.patches)
    chosen = group.id in selected
    for bad in (Outcome.CONFLICT, Outcome.UNREACHED, Outcome.MISSING, Outcome.UNSUPPORTED):
        for part, plan in zip(group.parts, plans, strict=True):
            if plan.outcome is bad:
                return GroupPlan(group, bad, f"{part.package}: {plan.reason}", patches, chosen)
    found = {plan.outcome for plan in plans}
    for good in (Outcome.APPLICABLE, Outcome.ALREADY_APPLIED):
        if good in found:
            return GroupPlan(group, good, "", patches, chosen)
    return GroupPlan(group, Outcome.NOT_NEEDED, plans[0].reason, patches, chosen)


def _best(patchset: Patchset, group: Group, subjects: Subjects, version: str | None) -> GroupPlan:
    """The group's plan; of variants the one that fits best, those for this version first."""
    lists = [(label_of(version, each.versions, None), each.patches) for each in group.variants]
    lists.sort(key=lambda each: each[0] is not Label.INSIDE)
    found = []
    for label, patches in lists or [(Label.INSIDE, group.patches)]:
        plan, decision = _with_patches(patchset, group, patches, subjects, version)
        found.append((decision.rank(label), plan))
    return min(found, key=lambda each: each[0])[1]


def _with_patches(patchset: Patchset, group: Group, patches: Sequence[Patch], subjects: Subjects,
                  version: str | None) -> tuple[GroupPlan, Decision]:
    """Findings, decisions, and what the journal already has, for one list of patches."""
    names = [patchset.package_of(group, patch) for patch in patches]
    findings = [find(patch.operation, subjects(name).base)
                for patch, name in zip(patches, names, strict=True)]
    decision = decide(group, patches, findings, version)
    plans = [_patch(patch, name, finding, *outcome)
             for patch, name, finding, outcome
             in zip(patches, names, findings, decision.patches, strict=True)]
    owners = [Owner(patchset.name, group.id, patch.id) for patch in patches]
    plans = [_ask_journal(plan, owner, subjects(plan.package).state)
             for plan, owner in zip(plans, owners, strict=True)]
    outcome, reason = group_outcome(patches, [(plan.outcome, plan.reason) for plan in plans])
    return GroupPlan(group, outcome, reason, tuple(plans)), decision


def _patch(patch: Patch, package: str, finding: Finding, outcome: Outcome,
           reason: str) -> PatchPlan:
    applicable = outcome is Outcome.APPLICABLE
    return PatchPlan(patch, package, outcome, reason, finding.edits if applicable else {},
                     finding.changes if applicable else (), finding.asked, finding.effective,
                     finding.files)


def _ask_journal(plan: PatchPlan, owner: Owner, state: State) -> PatchPlan:
    """Applicable becomes already-applied when the journal holds exactly these edits."""
    if plan.outcome is not Outcome.APPLICABLE:
        return plan
    entries = {path: state.entry(path) for path in plan.files}
    ours = all(entry is not None and (entry.edits.get(owner) == plan.edits[path]
                                      if path in plan.edits else owner in entry.wants)
               for path, entry in entries.items())
    return replace(plan, outcome=Outcome.ALREADY_APPLIED) if ours else plan


def _misplaced(group: Group, subject: Subject) -> str:
    if group.applies_to is None:
        return ""
    here = Place.SOURCE_TREE if subject.package.source_tree else Place.SITE_PACKAGES
    return "" if group.applies_to is here else f"is for a {group.applies_to.value}, this is not one"


def _wrong_target(group: Group, subject: Subject) -> str:
    target = subject.find_target() if group.for_ else EMPTY
    return "" if target <= group.for_ else f"is for {group.for_} only, not for {target}"




def _with_requirements(plan: Plan, subjects: Subjects) -> Plan:
    """Refuse groups that require a group of another patchset which neither writes here nor has
    all its gates open on the disk."""
    written = {f"{item.patchset.name}/{group.id}" for item in plan.patchsets
               for group in item.groups if group.writes}

    def met(group: GroupPlan) -> GroupPlan:
        lacking = [name for name in group.group.requires
                   if "/" in name and name not in written and not _is_open(name, subjects)]
        if not (lacking and group.selected and group.outcome is Outcome.APPLICABLE):
            return group
        return group.refuse(Outcome.UNSUPPORTED, f"requires {lacking[0]}, which is not applied; "
                            "name both patchsets, or one that includes both")

    return Plan(tuple(replace(item, groups=tuple(map(met, item.groups)))
                      for item in plan.patchsets))


def _is_open(name: str, subjects: Subjects) -> bool:
    """True when a group has nothing to do on the disk, whoever did it."""
    other, _, wanted = name.rpartition("/")
    try:
        patchset = load_patchset(other)
        group = next((g for g in patchset.groups if g.id == wanted), None)
        if group is None:
            return False
        found = _group(Request(patchset), group, lambda package: _on_disk(subjects(package)),
                       frozenset())
    except (InputError, PackageNotFound, SchemaError):
        return False
    return found.outcome is Outcome.NOT_NEEDED


def _on_disk(subject: Subject) -> Subject:
    return replace(subject, state=Untouched(subject.package))


def edits_by_path(patches: Iterable[PatchPlan], package: str) -> dict[str, tuple[Edit, ...]]:
    """All edits of these patches to one package, by path."""
    found: dict[str, set[Edit]] = {}
    for patch in patches:
        if patch.package == package:
            for path, edits in patch.edits.items():
                found.setdefault(path, set()).update(edits)
    return {path: tuple(sorted(edits)) for path, edits in found.items()}
