"""The environment of one invocation as ``caches``, ``env`` and ``run`` see it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from patcher.affected import Installed, Surroundings, effect
from patcher.caches.epoch import epoch_folder, epoch_of, epoch_variables, tool_versions
from patcher.caches.handler import CacheHandler
from patcher.caches.invalidate import Subject
from patcher.caches.registry import registry
from patcher.caches.stamp import read_stamps
from patcher.commands.options import Settings
from patcher.edits import Edit
from patcher.engine.digest import combined_digest
from patcher.errors import PackageNotFound
from patcher.lockfile import Locked, differences, read_lock
from patcher.package.environment import find_environment
from patcher.package.find import find_package
from patcher.package.model import Environment, Package
from patcher.profiles import profile_for
from patcher.session import looking, writing
from patcher.state import StateHome, find_home
from patcher.status import Effective, State, status
from patcher.toolchain.find import find_toolkit
from patcher.toolchain.model import Toolkit


class Site:
    """An environment with its journal; packages are looked up once, when they are asked for."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._found: dict[str, Installed | None] = {}

    @cached_property
    def environment(self) -> Environment:
        return find_environment(self._settings.python, self._settings.root)

    @cached_property
    def home(self) -> StateHome:
        environment = self.environment
        return find_home(prefix=environment.prefix, root=environment.root,
                         state=self._settings.state)

    @cached_property
    def toolkit(self) -> Toolkit:
        return find_toolkit(self._settings.cuda, self.environment)

    def installed(self, name: str) -> Installed | None:
        """A package of the environment; None when it is not there (any more)."""
        if name not in self._found:
            try:
                package = find_package(name, self.environment)
            except PackageNotFound:
                self._found[name] = None
            else:
                self._found[name] = Installed(package, profile_for(package), lambda: self.toolkit)
        return self._found[name]

    def adopt(self, package: Package) -> None:
        """Use a package that was found already, so that its build is read only once."""
        found = Installed(package, profile_for(package), lambda: self.toolkit)
        self._found.setdefault(package.name, found)

    def expect(self, name: str, edits: Mapping[str, tuple[Edit, ...]]) -> None:
        """Tell which edits are coming, so that only the modules of their functions count."""
        found = self.installed(name)
        if found is not None:
            self._found[name] = replace(found, edits={**found.edits, **edits})

    def subject(self, name: str) -> Subject | None:
        """What caches are asked about a package, with the journal as it is now."""
        found = self.installed(name)
        return found.subject(self.home, self.home.journal()) if found else None

    def names(self, asked: Iterable[str], environ: Mapping[str, str]) -> list[str]:
        """The packages meant: those named, else all that are patched or noted in a cache."""
        chosen = [found.package.name for name in asked if (found := self._named(name))]
        if chosen:
            return chosen
        noted = {key.partition(" ")[0] for spec in registry() for place in spec.folders(environ)
                 for key in read_stamps(place)}
        return sorted({*self.home.journal().packages(), *noted})

    def _named(self, name: str) -> Installed:
        found = self.installed(name)
        if found is None:
            find_package(name, self.environment)  # says where else it was found
            raise PackageNotFound("no such package", where=name)
        return found

    @contextmanager
    def recovered(self, environ: Mapping[str, str], timeout: float) -> Iterator[Site]:
        """The site after an interrupted change was finished, under its lock.

        Without one the journal is only read: a server's user may not write there.
        """
        if self.home.intent() is None and self.home.committed() is None:
            yield self
            return
        with writing(self.home, CacheHandler(self.subject, [environ], timeout), timeout):
            yield self

    def _locked(self) -> dict[str, Locked]:
        subjects = {name: self.subject(name) for name in sorted(self.home.journal().packages())}
        return {name: Locked(name, each.state.version, each.state.digest)
                for name, each in subjects.items() if each is not None}

    def digest(self) -> str:
        """One line for the whole environment (SM_PATCH_DIGEST); empty when nothing is patched."""
        found = {name: each.digest for name, each in self._locked().items()}
        return combined_digest(found) if found else ""

    def epoch(self, asked: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
        """The variables of the cache epoch for what is patched here (or for the packages named)."""
        wanted = {found.package.name for name in asked if (found := self._named(name))}
        subjects = {name: subject for name in sorted(self.home.journal().packages())
                    if (not wanted or name in wanted) and (subject := self.subject(name))}
        if not subjects:
            return {}
        digests = {name: subject.state.digest for name, subject in subjects.items()}
        epoch = epoch_of(digests, tool_versions(self.toolkit.path))
        touched = [each.describe(frozenset(each.state.files)) for each in subjects.values()]
        return epoch_variables(epoch_folder(epoch, environ), touched, environ)

    def lock_problems(self, lock: Path | None) -> list[str]:
        """How the environment differs from a lock file, and from SM_PATCH_DIGEST."""
        found = list(differences(read_lock(lock), self._locked())) if lock else []
        expected = os.environ.get("SM_PATCH_DIGEST")
        if expected and expected != self.digest():
            found.append(f"the digest here is {self.digest() or 'none'}, "
                         f"SM_PATCH_DIGEST {expected}")
        return found

    def problems(self, variables: Mapping[str, str]) -> list[str]:
        """Groups that are not in place, or would not be in effect in a process started now."""
        around = Surroundings(live=False, variables=variables)
        with looking(self.home) as session:
            found = status(session, self._package,
                           effect=effect(self.installed, self.home, session.journal, around))
        return [f"{patchset.name}/{group.id}: {_what(group.state, group.effective)}"
                f"{': ' + group.reason if group.reason else ''}"
                for patchset in found for group in patchset.groups
                if group.state is not State.SUPERSEDED
                and (group.state is not State.APPLIED or group.effective is Effective.NO)]

    def _package(self, name: str) -> Package | None:
        found = self.installed(name)
        return found.package if found else None


def _what(state: State, effective: Effective) -> str:
    return state.value if state is not State.APPLIED else f"effective: {effective.value}"
