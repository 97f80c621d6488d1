"""What ``--all`` means: the project file's patchsets, else all shipped; and what was lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from patcher.commands.options import Settings
from patcher.commands.planning import requests
from patcher.journal import Journal
from patcher.package.environment import find_environment
from patcher.patchset.load import load_patchset
from patcher.patchset.shipped import shipped
from patcher.plan import Request
from patcher.project import Project, find_project
from patcher.session import reading
from patcher.state import find_home
from patcher.status import GroupStatus, PatchsetStatus, State, combine


def project_of(settings: Settings) -> tuple[Settings, Project | None]:
    """The project file here, and the settings with its environment where none was named."""
    project = find_project(Path.cwd())
    if project is None:
        return settings, None
    click.echo(f"project file: {project.path}", err=True)
    if settings.python is None and settings.root is None:
        settings = replace(settings, python=project.python, root=project.root)
    return settings, project


@dataclass(frozen=True, slots=True)
class Everything:
    """The requests of ``--all``. ``strict`` when people chose them: what does not fit is then
    a refusal, while of all shipped patchsets only those that fit are meant."""

    settings: Settings
    requests: tuple[Request, ...]
    strict: bool


def everything(settings: Settings) -> Everything:
    """The project's patchsets (else the shipped ones), and every group that the journal holds:
    one that an upgrade took away is applied again."""
    settings, project = project_of(settings)
    if project is None:
        found = requests(sorted(shipped()), settings.group)
    else:
        found = requests(project.patchsets, settings.group or project.groups)
    if not settings.group:
        found = list(_with_applied(found, _journal(settings)))
    return Everything(settings, tuple(found), project is not None)


def _journal(settings: Settings) -> Journal:
    environment = find_environment(settings.python, settings.root)
    return reading(find_home(prefix=environment.prefix, root=environment.root,
                             state=settings.state)).journal


def _with_applied(found: Iterable[Request], journal: Journal) -> Iterable[Request]:
    applied = {name: set(one.groups) for name, one in journal.patchsets.items()}
    for request in found:
        patchset = request.patchset
        chosen = request.groups or patchset.default_groups
        more = applied.pop(patchset.name, set()) - set(chosen)
        known = tuple(group.id for group in patchset.groups if group.id in more)
        yield replace(request, groups=(*chosen, *known)) if known else request
    for name, groups in sorted(applied.items()):
        if name not in shipped():
            click.echo(f"{name} is applied here, but its document is not at hand: left as it is",
                       err=True)
            continue
        patchset = load_patchset(name)
        there = tuple(group.id for group in patchset.groups if group.id in groups)
        if there:
            yield Request(patchset, there)


def absent(settings: Settings, project: Project, journal: Journal) -> tuple[PatchsetStatus, ...]:
    """What the project wants and the journal does not hold, as status shows it.

    Each group is planned: what the installed release does by itself is superseded.
    """
    from patcher.commands.planning import Planner
    from patcher.errors import PatcherError
    from patcher.operations.base import Outcome
    from patcher.plan import Untouched

    planner = Planner(settings, find_environment(settings.python, settings.root), Untouched)
    found = []
    for request in requests(project.patchsets, project.groups):
        patchset = request.patchset
        applied = journal.patchsets.get(patchset.name)
        wanted = request.groups or patchset.default_groups
        missing = [name for name in wanted if applied is None or name not in applied.groups]
        groups = []
        for name in missing:
            try:
                plan = planner.plan([Request(patchset, (name,))])
            except PatcherError as error:
                groups.append(_group(name, State.ABSENT, str(error)))
                continue
            (one,) = (group for group in plan.patchsets[0].groups if group.id == name)
            state = State.SUPERSEDED if one.outcome is Outcome.NOT_NEEDED else State.ABSENT
            groups.append(_group(name, state, one.reason or one.outcome.value))
        if groups:
            worst = State.ABSENT if any(g.state is State.ABSENT for g in groups) \
                else State.SUPERSEDED
            found.append(PatchsetStatus(patchset.name, patchset.digest, worst, tuple(groups)))
    return tuple(found)


def merged(found: Sequence[PatchsetStatus], more: Sequence[PatchsetStatus]
           ) -> tuple[PatchsetStatus, ...]:
    """Both, a patchset that is in both once with all groups."""
    rows = {one.name: one for one in found}
    for one in more:
        known = rows.get(one.name)
        if known is None:
            rows[one.name] = one
            continue
        groups = (*known.groups, *one.groups)
        state = combine(group.state for group in groups if group.state is not State.SUPERSEDED)
        rows[one.name] = replace(known, state=state, groups=groups)
    return tuple(rows.values())


def _group(name: str, state: State, reason: str) -> GroupStatus:
    from patcher.status import Effective

    effective = Effective.UNKNOWN if state is State.SUPERSEDED else Effective.NO
    return GroupStatus(name, state, effective, reason, ())
