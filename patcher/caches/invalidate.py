"""From changed files to actions on every cache that the atlas calls stale after such a change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from patcher.caches.actions import Action, CacheAction, Touched
from patcher.caches.jit import stale_entries
from patcher.caches.paths import expand
from patcher.caches.registry import CacheSpec, Method, registry


def plan(touched: Touched, environ: Mapping[str, str]) -> tuple[CacheAction, ...]:
    """What is to be dropped or said, from what the caches hold now; nothing is written.

    ``environ`` are the server's variables (``environ.read_environ``). AOT modules
    are planned by ``aot.aot_actions``, as they belong to the package.
    """
    actions: dict[tuple[str, str], CacheAction] = {}
    for spec in registry():
        if spec.concerns(touched.name) and spec.stale(touched):
            for place in spec.folders(environ):
                for action in _plan_place(spec, place, touched):
                    actions.setdefault((action.path, action.action.value), action)
    return tuple(sorted(actions.values(), key=lambda action: (action.cache, action.path)))


def _plan_place(spec: CacheSpec, place: Path, touched: Touched) -> Iterator[CacheAction]:
    if not place.is_dir():
        return
    if spec.method is Method.NINJA:
        yield from stale_entries(spec, place, touched)
    elif spec.method is Method.REMOVE:
        yield from _removals(spec, place, touched)
    elif spec.method is Method.ADVISE and any(place.iterdir()):
        yield CacheAction(spec.id, str(place), Action.ADVISE,
                          f"{spec.stale(touched)}: {spec.advice}", str(place))


def _removals(spec: CacheSpec, place: Path, touched: Touched) -> Iterator[CacheAction]:
    for pattern in spec.paths:
        for found in expand(place, pattern.replace("{version}", touched.version or "*")):
            if found.link:
                yield CacheAction(spec.id, str(found.path), Action.ADVISE,
                                  "a link leads elsewhere; delete stale entries there yourself",
                                  str(place))
                continue
            kind = Action.REMOVE if found.path.is_dir() else Action.DELETE
            yield CacheAction(spec.id, str(found.path), kind, spec.stale(touched), str(place))
