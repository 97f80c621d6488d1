"""Carries out the actions that write to a cache."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from patcher.caches.actions import CacheAction
from patcher.caches.locks import ModuleLocks
from patcher.caches.paths import remove
from patcher.durable import sync_folders
from patcher.errors import Refused


def check_writable(actions: Iterable[CacheAction]) -> None:
    """Raise Refused when something could not be deleted later; asked before any file changes."""
    for action in actions:
        folder = os.path.dirname(action.path)
        if action.writes and os.path.isdir(folder) and not os.access(folder, os.W_OK):
            raise Refused("a stale entry of this cache could not be deleted", where=action.path,
                          next_step="run as the user who owns the cache, or use --no-cache")


def execute(actions: Iterable[CacheAction], locks: ModuleLocks) -> tuple[CacheAction, ...]:
    """Delete what the actions name, each under its module's lock; returns what was there.

    Repeating it is harmless, so a journal can replay it. Moves of AOT modules
    and advice are not for us and are left out. Raises LockHeld when a lock
    cannot be had, UnsafePath when a path leads out of its cache, and, after
    trying all, the first OSError of what could not be deleted.
    """
    todo = [action for action in actions if action.writes]
    locks.take(todo)
    done, failed = [], []
    for action in todo:
        try:
            if remove(Path(action.root), Path(action.path)):
                done.append(action)
        except OSError as error:
            failed.append(OSError(error.errno, error.strerror, action.path))
    try:
        # a deletion that a power failure undoes would bring the stale object back
        sync_folders(Path(action.path).parent for action in todo)
    except OSError as error:
        failed.append(error)
    if failed:
        raise failed[0]
    return tuple(done)
