"""From an installed package and its journal to what caches and processes are asked about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from patcher.caches.aot import shadowing
from patcher.caches.environ import read_environ
from patcher.caches.invalidate import Subject
from patcher.caches.modules import describer, functions_at
from patcher.caches.stamp import PackageState
from patcher.edits import Edit
from patcher.effective import Answer, Question, effective
from patcher.engine.digest import package_digest
from patcher.engine.target import observe
from patcher.errors import InputError, PatcherError
from patcher.journal import AppliedGroup, AppliedPatchset, FileKey, Journal, Kind
from patcher.package.model import Package
from patcher.processes import NO_PROCESSES, Survey, users_of_environment
from patcher.profiles.base import JitModule, Profile
from patcher.state import StateHome
from patcher.status import Effective
from patcher.toolchain.model import Toolkit
from patcher.units import affected


@dataclass(frozen=True)
class Installed:
    """A package where it is installed, with its profile.

    ``toolkit`` is asked for only when JIT modules are. ``edits`` are those that
    are about to be made to its files, against their bases.
    """

    package: Package
    profile: Profile
    toolkit: Callable[[], Toolkit]
    edits: Mapping[str, tuple[Edit, ...]] = field(default_factory=dict)

    @cached_property
    def modules(self) -> tuple[JitModule, ...]:
        """What the package compiles at run time."""
        return tuple(self.profile.modules(self.package, self.toolkit()))

    @cached_property
    def aot_folders(self) -> tuple[Path, ...]:
        """Where prebuilt modules are looked for, existing or not."""
        return tuple(Path(self.package.root, folder)
                     for folder in self.profile.aot_folders(self.package))

    def subject(self, home: StateHome, journal: Journal) -> Subject:
        """What caches are asked about, as the disk and the journal are now."""
        package = self.package
        return Subject(
            package_state(home, journal, package.name, package.version),
            describer(package.name, package.version, str(package.root),
                      lambda: self.modules, self._reach,
                      lambda path: self._edited(home, journal, path)))

    def _edited(self, home: StateHome, journal: Journal, path: str) -> frozenset[str] | None:
        """The functions that applied and coming edits change; None when there are none to ask."""
        root = journal.packages().get(self.package.name, ("", None))[0]
        entry = journal.files.get(FileKey(root, path))
        edits = {*self.edits.get(path, ()), *(entry.all_edits if entry else ())}
        if not edits:
            return None
        try:
            base = home.original(entry.base.sha256) if entry else self.package.tree.read(path)
        except (OSError, PatcherError):
            return None
        return functions_at(base, [edit.span for edit in edits])

    def _reach(self, headers: frozenset[str]) -> frozenset[str]:
        """The modules that may include one of these headers; asked for prebuilt ones only."""
        package = self.package
        if not any(shadowing(self.aot_folders, ["*"])):
            return frozenset()
        units = self.profile.translation_units(package, self.toolkit())
        reached = affected(package.tree, package.top, units, headers)
        return frozenset(name for unit in reached for name in unit.modules)


def package_state(home: StateHome, journal: Journal, name: str,
                  version: str | None) -> PackageState:
    """The package's digest, and what stands at each path that an applied patch touches."""
    root = journal.packages().get(name, ("", None))[0]
    files = {}
    for path in journal.paths(name):
        entry = journal.files.get(FileKey(root, path))
        shape = observe(home.root(root) / ((entry.place if entry else "") or path))[0]
        files[path] = {Kind.FILE: shape.sha256, Kind.LINK: f"link:{shape.target}"}.get(
            shape.kind, "absent")
    return PackageState(name, version, package_digest(home, journal, name, version), files)


@dataclass(frozen=True)
class Surroundings:
    """Where an installed package runs: whose caches, which processes."""

    origin: str | None = None  # --env-from
    live: bool = True  # False for an image or an unpacked wheel: no process runs it here
    variables: Mapping[str, str] = field(default_factory=dict)  # set for a process to be started

    def folders(self, package: Package) -> tuple[Path, ...]:
        """The folders that tell a process of this environment."""
        environment = package.environment
        if not self.live or environment is None:
            return ()
        prefix = (environment.prefix,) if environment.prefix else ()
        return (*prefix, package.root)

    def survey(self, package: Package) -> Survey:
        """The processes that use the package's environment now."""
        folders = self.folders(package)
        return users_of_environment(folders) if folders else NO_PROCESSES

    def environs(self, survey: Survey) -> tuple[dict[str, str], ...]:
        """The variables of the server that was named, else ours and those of running ones.

        A server may use another cache than ours; that of a process whose
        variables cannot be read stays unknown.
        """
        found = [read_environ(self.origin)]
        for process in survey.running if self.origin is None else ():
            try:
                found.append(read_environ(f"pid:{process.pid}"))
            except InputError:
                continue
        found = [{**environ, **self.variables} for environ in found]
        return tuple({tuple(sorted(environ.items())): environ for environ in found}.values())


Installs = Callable[[str], Installed | None]


def effect(installs: Installs, home: StateHome, journal: Journal, surroundings: Surroundings,
           ) -> Callable[[AppliedPatchset, AppliedGroup], tuple[Effective, str]]:
    """What ``status`` asks for each applied group: the worst answer over its packages."""

    surveys: dict[str, Survey] = {}

    def one(found: Installed, paths: Iterable[str]) -> Answer:
        package = found.package
        if package.name not in surveys:
            surveys[package.name] = surroundings.survey(package)
        return answer(found, home, journal, paths, surroundings, surveys[package.name])

    def ask(_patchset: AppliedPatchset, group: AppliedGroup) -> tuple[Effective, str]:
        paths: dict[str, set[str]] = {}
        for patch in group.patches:
            paths.setdefault(patch.package, set()).update(patch.files)
        answers = [one(found, paths[name]) for name in paths
                   if (found := installs(name)) is not None]
        worst = min(answers, key=lambda each: _WORST.index(each.state), default=None)
        return (worst.state, worst.reason) if worst else (Effective.UNKNOWN, "not installed")

    return ask


_WORST = (Effective.NO, Effective.UNKNOWN, Effective.AFTER_RESTART, Effective.YES)


def answer(installed: Installed, home: StateHome, journal: Journal, paths: Iterable[str],
           surroundings: Surroundings, survey: Survey) -> Answer:
    """Whether the change of these paths, a group's share of one package, is in effect."""
    subject = installed.subject(home, journal)
    package = installed.package
    environment = package.environment
    return effective(Question(
        touched=subject.describe(frozenset(paths)),
        subject=subject,
        import_name=package.import_name,
        code=package.locate(package.import_name),
        search_path=environment.site_packages if environment else (),
        aot_folders=installed.aot_folders,
        environs=surroundings.environs(survey),
        survey=survey,
    ))
