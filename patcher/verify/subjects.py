"""Which units a plan concerns, as they are built before and after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from patcher.arch import EMPTY, ArchSet
from patcher.changes import Change, Modify
from patcher.cuda.model import TranslationUnit
from patcher.edits import apply_edits
from patcher.package.model import Package
from patcher.patchset.schema import Affects, PythonGate
from patcher.plan import GroupPlan, Plan, Subject, edits_by_path
from patcher.tree import ChangedTree, Tree
from patcher.units import affected, is_source
from patcher.verify.result import Pair


def trees(subject: Subject, changes: Iterable[Change]) -> tuple[Package, Package]:
    """The package without our patches, and as it would be with the plan's."""
    before = replace(subject.package, tree=subject.base)
    after = replace(subject.package, tree=ChangedTree(subject.package.tree, changes))
    return before, after


def asked_tree(subject: Subject, plan: Plan) -> tuple[Tree | None, ArchSet]:
    """The base with only those patches that claim to leave other targets alone, and the
    worlds that they may change; None when no patch of this package claims it."""
    patches = [patch for group in _writing(plan) for patch in group.patches
               if patch.affects is Affects.ASKED and patch.package == subject.package.name]
    worlds = EMPTY
    for patch in patches:
        worlds |= patch.asked | patch.effective
    changes: list[Change] = [change for patch in patches for change in patch.changes]
    for path, edits in edits_by_path(patches, subject.package.name).items():
        old = subject.base.read(path)
        changes.append(Modify(path, old, apply_edits(old, edits)))
    return (ChangedTree(subject.base, changes) if changes else None), worlds


def pairs(subject: Subject, before: Package, after: Package, plan: Plan) -> list[Pair]:
    """Units that include a changed file, are built with other flags, whose gate is opened, or
    that the patchset names: a gate may stand where a module is used, not where it is built."""
    assert subject.profile is not None
    assert subject.toolkit is not None
    old_units = subject.profile.translation_units(before, subject.toolkit)
    new_units = subject.profile.translation_units(after, subject.toolkit)
    changed = _changed_paths(before.tree, after.tree, plan, subject.package.name)
    touched = affected(after.tree, after.top, new_units,
                       [p for p in changed if is_source(p)])
    opened = _opened_modules(subject, after, plan)
    wanted = {unit.path for unit in touched}
    named = {str(block.unit) for group in _writing(plan) for block in group.group.verify}
    found = []
    for unit in new_units:
        earlier = _earlier(unit, old_units)
        rebuilt = not _built_alike(earlier, unit)
        enabled = bool(set(unit.modules) & opened) or unit.path in named
        if unit.path in wanted or rebuilt or enabled:
            found.append(Pair(earlier, unit, enabled))
    return found


def _changed_paths(before: Tree, after: Tree, plan: Plan, package: str) -> set[str]:
    paths = {
        path
        for patchset in plan.patchsets for group in patchset.groups if group.writes
        for patch in group.patches if patch.package == package for path in patch.files
    }
    return {path for path in paths if _content(before, path) != _content(after, path)}


def _content(tree: Tree, path: str) -> bytes | None:
    try:
        return tree.read(path)
    except FileNotFoundError:
        return None


def _earlier(unit: TranslationUnit, units: Sequence[TranslationUnit]) -> TranslationUnit:
    """The same unit before: built alike if there is one, else for the same module, else any."""
    same = [u for u in units if u.path == unit.path]
    alike = [u for u in same if _built_alike(u, unit)]
    named = [u for u in same if set(u.modules) & set(unit.modules)]
    return next(iter(alike or named or same), unit)


def _built_alike(one: TranslationUnit, other: TranslationUnit) -> bool:
    return replace(one.configuration, id="") == replace(other.configuration, id="")


def _opened_modules(subject: Subject, after: Package, plan: Plan) -> set[str]:
    """Modules whose build function holds a gate that the plan opens."""
    assert subject.profile is not None
    assert subject.toolkit is not None
    sites = {
        (patch.patch.operation.file, patch.patch.operation.within)
        for group in _writing(plan) for patch in group.patches
        if isinstance(patch.patch.operation, PythonGate) and patch.edits
    }
    return {
        module.name
        for module in subject.profile.modules(after, subject.toolkit)
        if (module.generator.path, module.generator.function) in sites
    }


def _writing(plan: Plan) -> Iterable[GroupPlan]:
    return (group for patchset in plan.patchsets for group in patchset.groups if group.writes)
