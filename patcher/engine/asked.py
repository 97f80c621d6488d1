"""From a plan to a request: which edits and files belong to which patch of which package."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping

from patcher.changes import Change, Move
from patcher.engine.request import (
    GroupChange,
    GroupName,
    PatchChange,
    PatchsetChange,
    Request,
)
from patcher.engine.view import PackageView
from patcher.journal import FileKey, Journal, Kind, Owner
from patcher.operations.base import Outcome
from patcher.plan import GroupPlan, PatchPlan, PatchsetPlan, Plan
from patcher.state import StateHome

ASIDE = "aot-aside"  # the patch id under which prebuilt modules are set aside

Views = Callable[[str], PackageView]


def request_of(plan: Plan, views: Views, aside: Mapping[GroupName, tuple[str, tuple[Move, ...]]],
               ) -> Request:
    """Everything that the plan's selected groups put in place.

    ``views`` gives the view that each package was planned with. ``aside`` are
    the modules to set aside for a group: the package they are in, and the moves.
    """
    adds: list[PatchsetChange] = []
    expected: dict[FileKey, str] = {}
    for item in plan.patchsets:
        groups = tuple(_group(item, group, views, aside) for group in item.groups
                       if group.selected and group.writes)
        if groups:
            known = frozenset(group.id for group in item.groups)
            adds.append(PatchsetChange(item.patchset.name, item.patchset.digest, groups, known))
    for group in (group for add in adds for group in add.groups):
        for patch in group.patches:
            view = views(patch.target.name)
            root = view.home.key(patch.target.root)
            expected |= {FileKey(root, path): view.seen[path] for path in patch.edits
                         if path in view.seen}
    return Request(tuple(adds), expected=expected)


def _group(item: PatchsetPlan, group: GroupPlan, views: Views,
           aside: Mapping[GroupName, tuple[str, tuple[Move, ...]]]) -> GroupChange:
    patches = [_patch(patch, views) for patch in group.patches
               if patch.outcome in (Outcome.APPLICABLE, Outcome.ALREADY_APPLIED)]
    name = (item.patchset.name, group.id)
    if name in aside:
        package, moves = aside[name]
        patches.append(PatchChange(ASIDE, views(package).target, changes=moves))
    return GroupChange(group.id, tuple(patches))


def _patch(patch: PatchPlan, views: Views) -> PatchChange:
    changes: Iterable[Change] = patch.changes
    return PatchChange(patch.id, views(patch.package).target, patch.edits, tuple(changes))


def kept_aside(home: StateHome, journal: Journal, name: GroupName,
               ) -> tuple[str, tuple[Move, ...]] | None:
    """What an earlier apply of the group has set aside: its package and the moves."""
    applied = journal.patchsets.get(name[0])
    group = applied.groups.get(name[1]) if applied else None
    for patch in group.patches if group else ():
        if patch.id == ASIDE:
            moves = []
            for path in patch.files:
                entry = journal.files.get(FileKey(patch.root, path))
                want = entry.wants.get(Owner(*name, ASIDE)) if entry else None
                if want is not None and want.kind is Kind.MOVED:
                    target = posixpath.join(posixpath.dirname(path), want.target)
                    moves.append(Move(path, target))
            return patch.package, tuple(moves)
    return None
