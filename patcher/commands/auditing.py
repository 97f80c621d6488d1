"""The work that ``audit`` and ``adopt`` share: a package against what was installed."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path

import click

from patcher.arch import target
from patcher.audit.consequence import Consequence, consequences
from patcher.audit.files import Change, Difference, differences
from patcher.audit.gates import GateChange, changed_gates
from patcher.audit.groups import GroupMatch, matching_groups
from patcher.audit.kept import Kept
from patcher.changes import Create, Delete, Modify
from patcher.commands.options import Settings
from patcher.errors import InputError, UsageError
from patcher.package.environment import find_environment
from patcher.package.find import find_package
from patcher.package.model import Environment, Package
from patcher.profiles import profile_for
from patcher.report.audit import Audit
from patcher.scan.opened import shipped_for
from patcher.session import reading
from patcher.state import find_home
from patcher.toolchain.find import find_toolkit
from patcher.tree import ChangedTree, Tree


class Auditor:
    """One package of an environment, looked at and never written."""

    def __init__(self, settings: Settings, name: str, pristine: Path | None) -> None:
        self._settings = settings
        self.environment: Environment = find_environment(settings.python, settings.root)
        self.package: Package = find_package(name, self.environment)
        if self.package.read_only or self.package.source_tree:
            raise InputError("an archive or a source tree was not installed by anybody",
                             where=str(self.package.root),
                             next_step="name an installed package, or use git diff")
        self._wheel = self._open(pristine) if pristine else None

    def _open(self, pristine: Path) -> Tree:
        found = find_package(str(pristine) if pristine.suffix == ".whl" else f"{pristine}/",
                             self.environment)
        if found.name != self.package.name:
            raise UsageError(f"{pristine} holds {found.name}, not {self.package.name}")
        return found.tree

    @cached_property
    def files(self) -> tuple[Difference, ...]:
        home = find_home(prefix=self.environment.prefix, root=self.environment.root,
                         state=self._settings.state)
        view = reading(home).view(self.package)
        return tuple(differences(self.package, view.entry, home.original, self._wheel,
                                 Kept(self.package).read))

    @cached_property
    def installed(self) -> Tree:
        """The package as it was, as far as that is known."""
        changes: list[Create | Delete | Modify] = []
        for file in self.files:
            if file.before is not None:
                changes.append(Create(file.path, file.before))
            elif file.change is Change.ADDED:
                changes.append(Delete(file.path, b""))
        return ChangedTree(self.package.tree, changes)

    @property
    def known(self) -> bool:
        """True when the installed bytes of every changed file are known."""
        return all(file.before is not None or file.change is Change.ADDED for file in self.files)

    def audit(self) -> Audit:
        """Files, the gates they changed, and the groups they amount to."""
        groups = self._groups()
        return Audit(self.package, self.files, self._gates(), tuple(groups),
                     {match.name: tuple(self._consequences(match)) for match in groups
                      if match.missing})

    def _gates(self) -> dict[str, tuple[GateChange, ...]]:
        found = {}
        for file in self.files:
            if file.is_foreign and file.before is not None and file.foreign is not None:
                after = ChangedTree(self.package.tree, [Create(file.path, file.foreign)])
                found[file.path] = tuple(changed_gates(file.path, self.installed, after,
                                                       self.package.import_name))
        return found

    def _groups(self) -> list[GroupMatch]:
        edited = frozenset(file.path for file in self.files if file.is_foreign)
        if not edited:
            return []
        return matching_groups(shipped_for(self.package.name), self.package.name,
                               self.package.tree, edited, self.installed if self.known else None)

    def _consequences(self, match: GroupMatch) -> list[Consequence]:
        if not self.known or not match.open_gates:
            return []
        profile = profile_for(self.package)
        toolkit = find_toolkit(self._settings.cuda, self.environment)
        resolved = [profile.resolve_target(device, self.package, toolkit)
                    for device in self._settings.arch]
        for item in resolved:
            click.echo(f"target {item.target.name}: {item.reason}", err=True)
        references = [target(name) for name in self._settings.reference]
        return consequences(match, replace(self.package), self.installed, profile, toolkit,
                            [item.target for item in resolved], references)
