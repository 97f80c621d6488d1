"""The work of ``status``: the journal against the disk, and what a lock file expects."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from patcher.affected import effect
from patcher.commands.changing import Changing
from patcher.commands.everything import absent, merged, project_of
from patcher.commands.options import Settings
from patcher.engine.digest import combined_digest
from patcher.engine.target import Target
from patcher.errors import Exit, PatcherError, Refused
from patcher.journal import AppliedGroup, AppliedPatchset
from patcher.lockfile import read_patchsets
from patcher.project import Project
from patcher.report.change import long_verify
from patcher.session import Session, looking, reading, retire
from patcher.status import Effective, PatchsetStatus, State, status
from patcher.transaction import NoCaches


def show(settings: Settings, *, check: bool, lock: Path | None, digest: bool,
         built: bool) -> Exit:
    """Print what was asked for; CHECK_FAILED when a check says no."""
    settings, project = project_of(settings)
    changing = Changing(settings)
    session = _recovered(changing)
    if not (check or lock or digest):  # those are asked by scripts, also while an installer works
        _retired(changing, session)
    with looking(changing.site.home) as session:
        return _shown(changing, session, settings, project, check=check, lock=lock,
                      digest=digest, built=built)


def _shown(changing: Changing, session: Session, settings: Settings, project: Project | None, *,
           check: bool, lock: Path | None, digest: bool, built: bool) -> Exit:
    packages = _packages(changing, session)
    problems = changing.site.lock_problems(lock) if lock else []
    if digest:
        settings.emit(combined_digest({row["name"]: row["digest"] for row in packages}))
        found: tuple[PatchsetStatus, ...] = ()
    else:
        found = (*_status(changing, session, settings), *_absent(session, lock))
        found = merged(found, absent(settings, project, session.journal)) if project else found
        libraries = _built(changing) if built else None
        if settings.format == "json":
            settings.emit(_json(packages, found, problems, libraries))
        else:
            if not found:
                here = changing.site.environment
                settings.tell(f"environment: {here.root or here.prefix} ({here.reason})")
            settings.emit("\n".join(_text(packages, found, libraries, project, lock)))
    for problem in problems:
        click.echo(f"not as locked: {problem}", err=True)
    wrong = check and any(not _sound(group.state, group.effective)
                          for patchset in found for group in patchset.groups)
    return Exit.CHECK_FAILED if wrong or problems else Exit.DONE


def _sound(state: State, effective: Effective) -> bool:
    return state is State.SUPERSEDED or (state is State.APPLIED
                                         and effective in (Effective.YES, Effective.UNKNOWN))


def _recovered(changing: Changing) -> Session:
    """Finish an interrupted change when that is possible; else it is shown as interrupted."""
    session = reading(changing.site.home)
    if not session.pending:
        return session
    try:
        with changing.session(check=False, timeout=0) as recovered:
            return recovered
    except Refused as error:
        click.echo(f"an interrupted change is pending: {error}", err=True)
        return session


def _retired(changing: Changing, session: Session) -> None:
    """Without its package a patch is history: what it left in the environment goes too."""
    gone = {name for name in session.journal.packages()
            if changing.site.installed(name) is None}
    if not gone or session.pending:
        return
    try:
        with changing.session(check=False, timeout=0) as writing:
            names = retire(writing, gone, NoCaches())
    except Refused as error:
        click.echo(f"left behind by {', '.join(sorted(gone))}, which is uninstalled: {error}",
                   err=True)
        return
    for name in names:
        click.echo(f"{name}: its package is uninstalled, and now all of the patch is gone",
                   err=True)


def _packages(changing: Changing, session: Session) -> list[dict[str, Any]]:
    rows = []
    for name, (_, version) in sorted(session.journal.packages().items()):
        found, subject = changing.site.installed(name), changing.site.subject(name)
        if found is None or subject is None:
            click.echo(f"{name} {version or ''} is patched, but not installed any more", err=True)
            continue
        rows.append({"name": name, "version": subject.state.version,
                     "root": str(found.package.root), "digest": subject.state.digest})
    return rows


def _status(changing: Changing, session: Session, settings: Settings
            ) -> tuple[PatchsetStatus, ...]:
    def find(name: str) -> Target | None:
        found = changing.site.installed(name)
        return found.package if found else None

    return status(session, find,
                  effect=effect(changing.site.installed, session.home, session.journal,
                                changing.surroundings),
                  needed=lambda applied, group: _needed(changing, settings, applied, group))


def _absent(session: Session, lock: Path | None) -> tuple[PatchsetStatus, ...]:
    """The patchsets of a lock file that are not applied here."""
    rows = read_patchsets(lock) if lock else []
    return tuple(PatchsetStatus(row.name, row.digest, State.ABSENT, ()) for row in rows
                 if row.name not in session.journal.patchsets)


def _needed(changing: Changing, settings: Settings, applied: AppliedPatchset,
            group: AppliedGroup) -> bool:
    """Plan a lost group of a shipped patchset again, on the version that is installed now."""
    from patcher.commands.planning import Planner
    from patcher.operations.base import Outcome
    from patcher.patchset.load import load_patchset
    from patcher.patchset.shipped import shipped
    from patcher.plan import Request, Untouched

    if applied.name not in shipped():
        return True  # its document is not at hand
    patchset = load_patchset(applied.name)
    if group.id not in {one.id for one in patchset.groups}:
        return True
    try:
        planner = Planner(settings, changing.site.environment, Untouched)
        plan = planner.plan([Request(patchset, (group.id,))])
    except PatcherError:
        return True
    return any(one.id == group.id and one.outcome is not Outcome.NOT_NEEDED
               for one in plan.patchsets[0].groups)


def _json(packages: Sequence[dict[str, Any]], found: Sequence[PatchsetStatus],
          problems: Sequence[str], libraries: Sequence[dict[str, Any]] | None) -> str:
    document: dict[str, Any] = {
        "version": 1, "packages": list(packages), "lock": list(problems),
        "patchsets": [{"name": one.name, "digest": one.digest, "state": one.state.value,
                       "groups": [{"id": group.id, "state": group.state.value,
                                   "effective": group.effective.value, "reason": group.reason,
                                   "patches": [{"id": patch.id, "state": patch.state.value,
                                                "reason": patch.reason,
                                                "files": list(patch.files)}
                                               for patch in group.patches]}
                                  for group in one.groups]} for one in found],
    }
    if libraries is not None:
        document["built"] = list(libraries)
    return json.dumps(document, indent=2, sort_keys=True)


def _text(packages: Sequence[dict[str, Any]], found: Sequence[PatchsetStatus],
          libraries: Sequence[dict[str, Any]] | None, project: Project | None,
          lock: Path | None) -> Iterator[str]:
    if not found:
        yield "nothing is applied here"
    else:
        yield ", ".join(f"{one.name}: {one.state.value}" for one in found)
    for row in packages:
        yield f"{row['name']} {row['version']} in {row['root']} (digest {row['digest'][:12]})"
    for one in found:
        for group in one.groups:
            reason = f": {group.reason}" if group.reason else ""
            yield (f"  {one.name}/{group.id}: {group.state.value}, "
                   f"effective: {group.effective.value}{reason}")
            for patch in group.patches:
                if patch.state is not group.state:
                    yield f"    {patch.id}: {patch.state.value}: {patch.reason}"
    for library in libraries or ():
        yield f"built {library['path']}: {_contents(library)}"
    following = _next(found, project, lock)
    if following.startswith("sm-patch verify "):
        yield from long_verify(len(found[0].groups))
    yield f"next: {following}"


def _contents(library: dict[str, Any]) -> str:
    archs = " ".join(library["archs"]) or "no GPU code"
    if library["hollow"] is None:
        return f"{archs}; hollow kernels unknown: {library['reason']}"
    counts = ", ".join(f"{count} on {target}" for target, count in library["hollow"].items()
                       if count)
    return f"{archs}; {f'kernels that do nothing: {counts}' if counts else 'no hollow kernel'}"


def _next(found: Sequence[PatchsetStatus], project: Project | None, lock: Path | None) -> str:
    gone = [one for one in found if one.state in (State.LOST, State.PARTIAL)]
    wanted = project is not None and any(one.state is State.ABSENT for one in found)
    if wanted or len(gone) > 1 or (gone and project is not None):
        return "sm-patch apply --all"
    for one in found:
        groups = [g for g in one.groups if g.state in (State.LOST, State.PARTIAL)]
        if groups:
            return " ".join(["sm-patch apply", one.name, *(f"--group {g.id}" for g in groups)])
        if one.state in (State.DRIFTED, State.POISONED):
            return "undo the foreign edit or reinstall the package, then sm-patch status"
        if one.state is State.ABSENT:
            return f"sm-patch apply --from-lock {shlex.quote(str(lock)) if lock else 'FILE'}"
        if one.state is State.SUPERSEDED:
            return f"sm-patch revert {one.name}"
        if any(group.effective is Effective.NO for group in one.groups):
            return "see the reason above"
    return f"sm-patch verify {found[0].name}" if found else "sm-patch patchsets"


def _built(changing: Changing) -> list[dict[str, Any]]:
    """The libraries in the JIT caches of everyone who may run what is installed here."""
    from patcher.built import built_libraries
    from patcher.caches.registry import registry

    names = sorted({name for spec in registry() for name in spec.packages})
    toolkit = changing.site.toolkit.path
    folders = [toolkit / "bin"] if toolkit else []
    return [one.public() for environ in changing.surroundings.environs(changing.survey)
            for one in built_libraries(names, environ, folders)]
