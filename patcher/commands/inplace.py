"""Which JIT modules the groups concern that are in place where a package is installed."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from patcher.commands.options import Settings
from patcher.package.model import Package
from patcher.state import StateHome, find_home

if TYPE_CHECKING:
    from patcher.affected import Installed
    from patcher.journal import AppliedGroup, AppliedPatchset, Journal
    from patcher.toolchain.model import Toolkit


def in_place(settings: Settings, package: Package, toolkit: Toolkit) -> dict[str, tuple[str, ...]]:
    """By module, the groups that change its gate, its flags or its sources.

    Those of which no module is known are under "". Empty for what has no environment
    (an archive, a source tree); a group that was lost or edited since is none. Raises
    Refused and InputError as ``status`` does.
    """
    environment = package.environment
    if environment is None or (environment.root or environment.prefix) is None:
        return {}
    home = find_home(prefix=environment.prefix, root=environment.root, state=settings.state)
    return _applied(home, package, toolkit) if _may_exist(home) else {}


def _may_exist(home: StateHome) -> bool:
    """False where surely nothing was ever applied, as with most who only scan."""
    try:
        os.lstat(home.path)
    except FileNotFoundError:
        return False
    except OSError:
        pass  # whoever reads it says what is wrong
    return True


def _applied(home: StateHome, package: Package, toolkit: Toolkit) -> dict[str, tuple[str, ...]]:
    from patcher.affected import Installed
    from patcher.profiles import profile_for
    from patcher.session import reading
    from patcher.status import State, status

    installed = Installed(package, profile_for(package), lambda: toolkit)
    session = reading(home)

    def find(name: str) -> Package | None:
        return package if name == package.name else None

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
    from patcher.journal import Owner

    owners = {Owner(patchset.name, group.id, patch.id) for patch in group.patches}
    alone = replace(journal, files={key: entry.without(entry.owners - owners)
                                    for key, entry in journal.files.items()})
    paths = {path for patch in group.patches if patch.package == installed.package.name
             for path in patch.files}
    touched = installed.subject(home, alone).describe(frozenset(paths))
    return sorted(touched.modules | touched.compiled) or [""]
