"""Carries out the actions that write to a cache."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from patcher.caches.actions import Action, CacheAction
from patcher.caches.locks import ModuleLocks
from patcher.caches.paths import remove
from patcher.errors import Refused


class CacheNotWritable(Refused):
    """Stale entries of a cache could not be deleted."""


def execute(actions: Iterable[CacheAction], locks: ModuleLocks) -> tuple[CacheAction, ...]:
    """Delete what the actions name, each under its module's lock; returns what was there.

    Repeating it is harmless, so a journal can replay it. Moves of AOT modules
    and advice are not for us and are left out. Raises LockHeld when a lock
    cannot be had, UnsafePath when a path leads out of its cache, and
    CacheNotWritable, after trying all, when something could not be deleted.
    """
    todo = [action for action in actions if action.writes]
    locks.take(todo)
    done, failed = [], []
    for action in todo:
        try:
            if remove(Path(action.root), Path(action.path)):
                done.append(action)
        except OSError as error:
            failed.append(f"{action.path}: {error.strerror}")
    if failed:
        raise CacheNotWritable(
            f"{len(failed)} stale entries could not be deleted: {failed[0]}",
            next_step="run `sm-patch caches invalidate` as the user who owns the cache",
        )
    return tuple(done)


def moves_and_advice(actions: Iterable[CacheAction]) -> tuple[CacheAction, ...]:
    """The actions that are not carried out here."""
    return tuple(action for action in actions
                 if action.action in (Action.ASIDE, Action.KEEP, Action.ADVISE))
