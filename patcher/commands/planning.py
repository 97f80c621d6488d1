"""From what was typed to a plan: the part that diff and apply have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from patcher.arch import EMPTY, ArchSet
from patcher.commands.options import Settings
from patcher.engine.asked import request_of
from patcher.engine.digest import package_digest
from patcher.errors import PackageNotFound, UsageError, did_you_mean
from patcher.lawful import leaves_nothing, obeys_law
from patcher.operations.base import Outcome
from patcher.package.environment import find_environment
from patcher.package.find import find_package
from patcher.package.model import Environment, Package
from patcher.patchset.load import load_patchset
from patcher.patchset.schema import Patchset
from patcher.plan import GroupPlan, Plan, Request, State, Subject, Subjects, plan
from patcher.preview import diff, refuse_clashes
from patcher.profiles import profile_for
from patcher.profiles.devices import AUTO, detect
from patcher.report.plan import PackageRow
from patcher.session import Session, reading
from patcher.state import find_home
from patcher.toolchain.find import find_toolkit
from patcher.toolchain.model import Toolkit
from patcher.wrong import KnownWrong


def requests(names: Sequence[str], groups: Sequence[str]) -> list[Request]:
    """The named patchsets with the groups meant for each.

    A group is named bare or as ``patchset/group``. With groups named, patchsets
    that have none of them are left out. Raises UsageError for an unknown group.
    """
    patchsets = [load_patchset(name) for name in dict.fromkeys(names)]
    found, left = [], set(groups)
    for patchset in patchsets:
        chosen = []
        for group in patchset.groups:
            meant = {group.id, f"{patchset.name}/{group.id}"} & set(groups)
            left -= meant
            chosen += [group.id] if meant else []
        if chosen or not groups:
            found.append(Request(patchset, tuple(chosen)))
    if left:
        known = {g.id: f"{p.name}/{g.id}" for p in patchsets for g in p.groups}
        near = (did_you_mean(name.replace("_", "-"), known, most=1, cutoff=0.75)
                for name in sorted(left))
        raise UsageError(f"no group {', '.join(sorted(left))} in these patchsets",
                         next_step=" ".join(filter(None, near))
                         or f"groups: {', '.join(known.values())}")
    return found


class Planner:
    """Finds each package once; callable as the ``Subjects`` of a plan."""

    def __init__(self, settings: Settings, environment: Environment,
                 state_of: Callable[[Package], State],
                 find: Callable[[str, Environment], Package] = find_package) -> None:
        self._settings = settings
        self._find = find
        self._environment = environment
        self._state_of = state_of
        self._toolkit = find_toolkit(settings.cuda, environment)
        self._subjects: dict[str, Subject] = {}
        self._absent: dict[str, PackageNotFound] = {}  # asking asks other environments, too
        self.notes: list[str] = []  # what was assumed on the way

    def __call__(self, name: str) -> Subject:
        if name in self._absent:
            raise self._absent[name]
        if name not in self._subjects:
            package = self._looked_up(name)
            self._subjects[name] = Subject(
                package, self._state_of(package), lambda: self._target(package),
                profile_for(package), self._toolkit)
        return self._subjects[name]

    def _looked_up(self, name: str) -> Package:
        try:
            return self._find(name, self._environment)
        except PackageNotFound as absent:
            self._absent[name] = absent
            raise

    def _target(self, package: Package) -> ArchSet:
        profile, target = profile_for(package), EMPTY
        for device in self._settings.arch:
            found = profile.resolve_target(device, package, self._toolkit)
            if found.assumed:
                self.notes.append(f"assumed target {found.target}: {found.reason}")
            target |= ArchSet.of(found.target)
        return target

    def plan(self, wanted: Sequence[Request]) -> Plan:
        """The checked plan; raises PackageNotFound when a selected package is not there."""
        made = plan(wanted, self, (KnownWrong(self.notes.append), self._is_meant, obeys_law,
                                   leaves_nothing))
        return refuse_clashes(self._fit_to_offer(made), self)

    def _fit_to_offer(self, made: Plan) -> Plan:
        """What is not selected is not offered either for a device for which it opens nothing."""
        if self._settings.arch == (AUTO,):
            return made
        return replace(made, patchsets=tuple(
            replace(item, groups=tuple(
                group if group.selected or group.outcome is not Outcome.APPLICABLE
                else self._is_meant(item.patchset, group, (), self) for group in item.groups))
            for item in made.patchsets))

    def _is_meant(self, patchset: Patchset, group: GroupPlan, _earlier: Sequence[GroupPlan],
                  subjects: Subjects) -> GroupPlan:
        """Refuse what opens nothing for the device that was named; the machine's own is noted.

        An image for one GPU is often built beside another.
        """
        meant = {target.capability for target in patchset.archs}
        if not meant:
            return group
        if self._settings.arch == (AUTO,):
            for capability, device in detect():
                if capability not in meant:
                    self.notes.append(f"warning: {patchset.name}/{group.id} is for "
                                      f"{patchset.archs}, and this machine has {device}")
            return group
        asked = subjects(group.group.package or patchset.package).find_target()
        if meant & {target.capability for target in asked}:
            return group
        return group.refuse(Outcome.UNSUPPORTED,
                            f"is for {patchset.archs}, and opens nothing for {asked}")

    @property
    def toolkit(self) -> Toolkit:
        """What units are compiled with, or assumed to be."""
        return self._toolkit

    @property
    def targets(self) -> dict[str, Package]:
        """The packages found so far, by distribution name."""
        found = [subject.package for subject in self._subjects.values()]
        return {package.name: package for package in found}


@dataclass(frozen=True)
class Planned:
    """What applying patchsets would do: outcomes by group, and the diff.

    ``diff`` is empty when a selected group cannot go through: apply would write nothing.
    ``packages`` have their digest now, and as it would be.
    """

    plan: Plan
    diff: str
    packages: tuple[PackageRow, ...]
    subjects: Planner

    @property
    def changed(self) -> bool:
        """True when applying would write something."""
        return self.plan.changed and not self.plan.refused


def planned(settings: Settings, names: Sequence[str]) -> Planned:
    """Plan the groups of these patchsets that are taken by default, or those of ``--group``."""
    wanted = requests(names, settings.group)
    environment = find_environment(settings.python, settings.root)
    home = find_home(prefix=environment.prefix, root=environment.root, state=settings.state)
    session = reading(home)
    planner = Planner(settings, environment, session.view)
    made = planner.plan(wanted)
    for note in dict.fromkeys(planner.notes):
        settings.tell(note)
    return Planned(made, "" if made.refused else diff(made, planner),
                   tuple(_rows(made, planner, session)), planner)


def _rows(made: Plan, planner: Planner, session: Session) -> Iterator[PackageRow]:
    request = request_of(made, lambda name: session.view(planner(name).package), {})
    staged = session.stage(request, planner.targets)
    for name in made.packages:
        one = planner(name).package
        yield PackageRow(
            one.name, one.version, str(one.root),
            package_digest(session.home, session.journal, one.name, one.version),
            package_digest(session.home, staged.journal, one.name, one.version, staged.steps))
