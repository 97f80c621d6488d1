"""Which JIT modules the groups concern that are in place where a package is installed."""

from __future__ import annotations

from dataclasses import replace

from patcher.affected import Installed
from patcher.commands.options import Settings
from patcher.journal import AppliedGroup, AppliedPatchset, Journal, Owner
from patcher.package.model import Package
from patcher.session import reading
from patcher.state import StateHome, find_home
from patcher.status import State, status


def in_place(settings: Settings, installed: Installed) -> dict[str, tuple[str, ...]]:
    """By module, the groups that change its gate, its flags or its sources.

    Those of which no module is known are under "". Empty for what has no environment
    (an archive, a source tree); a group that was lost or edited since is none. Raises
    Refused and InputError as ``status`` does.
    """
    environment = installed.package.environment
    if environment is None or (environment.root or environment.prefix) is None:
        return {}
    home = find_home(prefix=environment.prefix, root=environment.root, state=settings.state)
    session = reading(home)

    def find(name: str) -> Package | None:
        return installed.package if name == installed.package.name else None

    found: dict[str, tuple[str, ...]] = {}
    for patchset in status(session, find) if session.journal.patchsets else ():
        applied = session.journal.patchsets[patchset.name]
        for group in patchset.groups:
            if group.state is State.APPLIED:
                modules = _modules(installed, home, session.journal, applied,
                                   applied.groups[group.id])
                for module in modules if group.patches else ():
                    found[module] = (*found.get(module, ()), f"{patchset.name}/{group.id}")
    return found


def _modules(installed: Installed, home: StateHome, journal: Journal, patchset: AppliedPatchset,
             group: AppliedGroup) -> list[str]:
    """The modules that one group's own edits concern."""
    owners = {Owner(patchset.name, group.id, patch.id) for patch in group.patches}
    alone = replace(journal, files={key: entry.without(entry.owners - owners)
                                    for key, entry in journal.files.items()})
    paths = {path for patch in group.patches if patch.package == installed.package.name
             for path in patch.files}
    touched = installed.subject(home, alone).describe(frozenset(paths))
    return sorted(touched.modules | touched.compiled) or [""]
