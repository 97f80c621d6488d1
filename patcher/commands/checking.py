"""The work of ``check``: what patchsets would do to releases that are not installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from patcher.commands.options import Settings
from patcher.commands.planning import Planner
from patcher.errors import PackageNotFound, PatcherError, UsageError
from patcher.operations.base import Outcome
from patcher.package.environment import find_environment
from patcher.package.find import find_package
from patcher.package.metadata import normalise
from patcher.package.model import Environment, Package
from patcher.patchset.schema import Group, Patchset
from patcher.plan import GroupPlan, Request, Untouched
from patcher.releases import Release, Wheels, parse_pins
from patcher.report.check import Cell, Row

Pins = tuple[Release, ...]


def releases_of(patchsets: Sequence[Patchset], versions: Sequence[str], wheels: Wheels,
                locked: Pins | None) -> list[Pins]:
    """The sets of releases to check against. Raises UsageError when none is named.

    A bare version, and every release of a folder of wheels when no version is
    named, is of the package that all patchsets are for.
    """
    if locked is not None:
        return [locked]
    packages = list(dict.fromkeys(normalise(p.package) for p in patchsets))
    package = packages[0] if len(packages) == 1 else None
    named = [parse_pins(text, package) for text in versions]
    if not named and package is not None:
        named = [(Release(package, version),) for version in wheels.versions(package)]
    if not named:
        raise UsageError("which releases?", next_step="name them with --versions, a lock file "
                         "with --against, or a folder of wheels with --wheels")
    return list(dict.fromkeys(named))


@dataclass
class Checker:
    """Plans groups against releases; each archive is opened once."""

    settings: Settings
    wheels: Wheels
    tick: Callable[[str], None] = lambda text: None

    def rows(self, patchsets: Sequence[Patchset], releases: Sequence[Pins]) -> Iterator[Row]:
        """One row per patchset and set of releases that holds its package."""
        for patchset in patchsets:
            for pins in releases:
                concerned = _concerned(patchset, pins)
                if concerned:
                    self.tick(f"{patchset.name}: {', '.join(map(str, concerned))}")
                    yield self._row(patchset, concerned)

    @cached_property
    def _environment(self) -> Environment:
        return find_environment(self.settings.python, self.settings.root)

    def _row(self, patchset: Patchset, pins: Pins) -> Row:
        packages: dict[str, Package] = {}

        def find(name: str, environment: Environment) -> Package:
            if name not in packages:
                packages[name] = self._package(name, pins, environment)
            return packages[name]

        planner = Planner(self.settings, self._environment, Untouched, find)
        wanted = self.settings.group
        cells = [Cell(group, group.id in patchset.default_groups,
                      *_outcome(patchset, group, planner))
                 for group in patchset.groups
                 if not wanted or {group.id, f"{patchset.name}/{group.id}"} & set(wanted)]
        return Row(patchset, pins, tuple(cells), tuple(str(p.root) for p in packages.values()))

    def _package(self, name: str, pins: Pins, environment: Environment) -> Package:
        release = next((pin for pin in pins if pin.name == normalise(name)), None)
        if release is None:
            raise PackageNotFound(f"no release of {name} is named")
        return find_package(str(self.wheels.find(release)), environment)


def _concerned(patchset: Patchset, pins: Pins) -> Pins:
    """The releases that matter to a patchset; none when its own package is not among them."""
    names = {normalise(name) for name in patchset.packages}
    found = tuple(pin for pin in pins if pin.name in names)
    return found if any(pin.name == normalise(patchset.package) for pin in found) else ()


def _outcome(patchset: Patchset, group: Group, planner: Planner) -> tuple[Outcome, str]:
    """One group by itself, with the groups of its document that it requires."""
    own = tuple(name for name in group.requires if "/" not in name)  # others' are not asked for
    group = replace(group, requires=own)
    alone = replace(patchset, groups=tuple(group if g.id == group.id else g for g in
                                           patchset.groups if g.id in {group.id, *own}))
    try:
        plan = planner.plan([Request(alone, (group.id,))])
    except PatcherError as error:
        return Outcome.MISSING, str(error)
    planned: GroupPlan = next(g for g in plan.patchsets[0].groups if g.id == group.id)
    return planned.outcome, planned.reason


def locked_releases(path: Path) -> tuple[Pins, list[str]]:
    """Every release of a lock file as one set, and notes."""
    from patcher.releases import read_requirements

    found, notes = read_requirements(path)
    return tuple(found[name] for name in sorted(found)), notes
