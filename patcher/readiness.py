"""What a plan makes reachable: the JIT modules whose gate it opens, and what they run into."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from patcher.affected import Installed
from patcher.arch import Target
from patcher.caches.actions import CacheAction
from patcher.caches.aot import AotModule, AotPolicy, aot_actions, moves, shadowing
from patcher.caches.invalidate import Subject
from patcher.changes import Move
from patcher.operations.base import Outcome
from patcher.patchset.schema import PythonGate
from patcher.plan import GroupPlan, Plan
from patcher.preflight import Builder, Finding, OpenedModule, find_ninja, preflight
from patcher.profiles.base import JitModule, Site
from patcher.toolchain.model import Toolkit

Installs = Callable[[str], Installed | None]
Subjects = Callable[[str], Subject | None]


def patched_paths(group: GroupPlan) -> dict[str, frozenset[str]]:
    """The files of a group that are or would be patched, by package."""
    found: dict[str, set[str]] = {}
    for patch in group.patches:
        if patch.outcome in (Outcome.APPLICABLE, Outcome.ALREADY_APPLIED):
            found.setdefault(patch.package, set()).update(patch.files)
    return {name: frozenset(paths) for name, paths in found.items()}


def opened_modules(group: GroupPlan, name: str, installed: Installed,
                   subject: Subject) -> list[JitModule]:
    """The modules of one package whose Python gate the group opens.

    A patch may name a whole file; only the functions that it changes count.
    """
    opened = [patch.patch.operation for patch in group.patches
              if patch.package == name and patch.outcome is Outcome.APPLICABLE]
    gates = [gate for gate in opened if isinstance(gate, PythonGate) and gate.open]
    if not gates:
        return []
    changed = subject.describe(frozenset(gate.file for gate in gates)).modules
    return [module for module in installed.modules if module.name in changed
            and any(_holds(gate, site) for gate in gates
                    for site in (module.generator, *(one.site for one in module.gates)))]


def _holds(gate: PythonGate, site: Site) -> bool:
    return gate.file == site.path and gate.within in ("", site.function)


def findings(plan: Plan, installs: Installs, subjects: Subjects,
             targets: Callable[[str], tuple[Target, ...]], toolkit: Toolkit,
             policy: AotPolicy | None) -> tuple[Finding, ...]:
    """Everything that the changed groups make reachable and that would go wrong.

    ``targets`` gives what a package is built for on the device that is meant.
    """
    found: dict[Finding, None] = {}
    for group in _changing(plan):
        for name in patched_paths(group):
            installed, subject = installs(name), subjects(name)
            if installed is None or subject is None:
                continue
            opened = opened_modules(group, name, installed, subject)
            if not opened:
                continue
            prebuilt = _prebuilt(opened, installed)
            builder = Builder(toolkit, _ninja(installed))
            known = [OpenedModule(module.name, _sources(module, installed, toolkit))
                     for module in opened]
            found |= dict.fromkeys(preflight(known, targets(name), builder, prebuilt, policy))
    return tuple(found)


def _changing(plan: Plan) -> Iterable[GroupPlan]:
    return (group for item in plan.patchsets for group in item.groups
            if group.selected and group.outcome is Outcome.APPLICABLE)


def _prebuilt(opened: Iterable[JitModule], installed: Installed) -> list[AotModule]:
    return list(shadowing(installed.aot_folders, [module.name for module in opened]))


def _ninja(installed: Installed) -> Path | None:
    environment = installed.package.environment
    folders = [Path(environment.python).parent] if environment and environment.python else []
    return find_ninja(folders, os.environ)


def _sources(module: JitModule, installed: Installed,
             toolkit: Toolkit) -> Mapping[str, tuple[str, ...]]:
    """Absolute sources with their include folders; generated ones are not on the disk."""
    if installed.profile is None:
        return {}
    root = installed.package.root
    return {str(root / unit.path): tuple(str(root / folder) for folder in
                                         (*unit.configuration.include, *unit.configuration.system))
            for unit in installed.profile.translation_units(installed.package, toolkit)
            if module.name in unit.modules and unit.content is None}


def aot(group: GroupPlan, installs: Installs, subjects: Subjects,
        policy: AotPolicy | None) -> tuple[str, tuple[CacheAction, ...], tuple[Move, ...]]:
    """What happens to prebuilt modules that shadow a group: the package, actions, and moves."""
    for name, paths in patched_paths(group).items():
        installed, subject = installs(name), subjects(name)
        if installed is not None and subject is not None:
            actions = aot_actions(subject.describe(paths), installed.aot_folders, policy)
            if actions:
                return name, actions, moves(actions)
    return "", (), ()
