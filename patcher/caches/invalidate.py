"""From changed files to actions on every cache that the atlas calls stale after such a change."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from patcher.caches.actions import Action, CacheAction, Touched
from patcher.caches.execute import execute
from patcher.caches.jit import module_folders, module_lock, stale_entries
from patcher.caches.locks import ModuleLocks, is_busy
from patcher.caches.paths import expand
from patcher.caches.registry import CacheSpec, Method, registry
from patcher.caches.stamp import PackageState, changed_since, read_stamps, write_stamp


@dataclass(frozen=True, slots=True)
class Subject:
    """The package whose caches are meant, as it is installed now.

    ``describe`` tells of changed paths which JIT modules they concern
    (``modules.describer`` makes one).
    """

    state: PackageState
    describe: Callable[[frozenset[str]], Touched]


def places(package: str, environ: Mapping[str, str]) -> dict[Path, list[CacheSpec]]:
    """The existing folders of the caches that hold what this package makes."""
    found: dict[Path, list[CacheSpec]] = {}
    for spec in registry():
        if spec.concerns(package) and spec.method in _PLANNED:
            for place in spec.folders(environ):
                if os.path.isdir(place):  # False too where another user's folder is closed
                    found.setdefault(place, []).append(spec)
    return found


def plan(subject: Subject, paths: frozenset[str], environ: Mapping[str, str], *,
         only: frozenset[str] | None = None) -> tuple[CacheAction, ...]:
    """What is to be dropped or said, from what the caches hold now; nothing is written.

    ``paths`` are those that change now; each cache adds what it missed since it
    was last in line, or of that only what is in ``only``. ``environ`` are the
    server's variables (``read_environ``).
    AOT modules are planned by ``aot.aot_actions``, as they belong to the package.
    """
    actions: dict[tuple[str, Action], CacheAction] = {}
    for place, specs in places(subject.state.name, environ).items():
        stamp = read_stamps(place).get(subject.state.key)
        missed = changed_since(stamp, subject.state)
        changed = paths | (missed if only is None else missed & only)
        if not changed:
            continue
        touched = subject.describe(changed)
        for spec in specs:
            for action in _in_place(spec, place, touched):
                actions.setdefault((action.path, action.action), action)
    return tuple(sorted(actions.values(), key=lambda action: (action.cache, action.path)))


def reconcile(subject: Subject, paths: frozenset[str], environ: Mapping[str, str],
              locks: ModuleLocks) -> tuple[CacheAction, ...]:
    """Drop what is stale, note that the caches are in line, and return what was done or is advised.

    A cache in which a build is still running keeps its old note, so that the
    next ``--if-changed`` looks at it again. Raises what ``execute`` raises.
    """
    planned = plan(subject, paths, environ)
    done = execute(planned, locks)
    advice = [action for action in planned if not action.writes]
    for spec, place in _noted(subject.state.name, environ):
        if not _is_building(spec, place, locks):
            try:
                write_stamp(place, subject.state)
            except OSError as error:
                advice.append(CacheAction(
                    spec.id, str(place), Action.ADVISE,
                    f"cannot note the state here ({error.strerror}): "
                    "the next --if-changed will look again", str(place)))
    return (*done, *advice)


def _noted(package: str, environ: Mapping[str, str]) -> Iterator[tuple[CacheSpec, Path]]:
    """Folders to note in; one that does not exist yet is made, and so known as new."""
    seen = set()
    for spec in registry():
        if spec.concerns(package) and spec.method in (Method.NINJA, Method.REMOVE):
            for place in spec.folders(environ):
                if place not in seen:
                    seen.add(place)
                    yield spec, place


def _is_building(spec: CacheSpec, place: Path, locks: ModuleLocks) -> bool:
    """True while a build is running that may have read a file before it changed."""
    paths = {module_lock(spec, found.path) for found in module_folders(spec, place)}
    return any(path and not locks.holds(path) and is_busy(path) for path in paths)


_PLANNED = (Method.NINJA, Method.REMOVE, Method.ADVISE)


def _in_place(spec: CacheSpec, place: Path, touched: Touched) -> Iterator[CacheAction]:
    reason = spec.stale(touched)
    if not reason:
        return
    if spec.method is Method.NINJA:
        yield from stale_entries(spec, place, touched)
    elif spec.method is Method.REMOVE:
        yield from _removals(spec, place, touched.version, reason)
    elif any(place.iterdir()):
        yield CacheAction(spec.id, str(place), Action.ADVISE, f"{reason}: {spec.advice}",
                          str(place))


def _removals(spec: CacheSpec, place: Path, version: str | None,
              reason: str) -> Iterator[CacheAction]:
    for pattern in spec.paths:
        for found in expand(place, pattern.replace("{version}", version or "*")):
            if found.link:
                yield CacheAction(spec.id, str(found.path), Action.ADVISE,
                                  "a link leads elsewhere; delete stale entries there yourself",
                                  str(place))
                continue
            kind = Action.REMOVE if found.path.is_dir() else Action.DELETE
            yield CacheAction(spec.id, str(found.path), kind, reason, str(place))
