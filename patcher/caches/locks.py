"""The caches' own advisory locks, held while their objects are dropped."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from patcher.caches.actions import CacheAction
from patcher.caches.stamp import adopt, make_owned
from patcher.errors import LockHeld, Refused

if TYPE_CHECKING:
    from filelock import FileLock


class ModuleLocks:
    """Takes lock files of modules, each once, and releases all at the end.

    ``timeout`` is in seconds, for all locks together. Lock files are never
    deleted: another process may hold one that it has opened before.
    """

    def __init__(self, timeout: float) -> None:
        self._deadline = time.monotonic() + timeout
        self._held: dict[str, FileLock] = {}

    def __enter__(self) -> ModuleLocks:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        while self._held:
            self._held.popitem()[1].release()

    def take(self, actions: Iterable[CacheAction]) -> None:
        """Lock the modules that these actions write to.

        Always in the same order, so that two of us cannot wait for each other.
        Raises LockHeld when the time is up, Refused when a lock file cannot be
        opened; locks taken before stay held until the end.
        """
        for path in sorted({action.lock for action in actions if action.lock and action.writes}):
            if path not in self._held:
                self._held[path] = self._taken(path)

    def holds(self, path: str) -> bool:
        return path in self._held

    def _taken(self, path: str) -> FileLock:
        from filelock import FileLock, Timeout

        new = not os.path.exists(path)
        lock = FileLock(path, thread_local=False)
        try:
            make_owned(Path(path).parent)
            lock.acquire(timeout=max(0.0, self._deadline - time.monotonic()))
            if new:
                adopt(Path(path))  # else its owner's builds could not lock after root's
        except Timeout:
            raise LockHeld("a build of this module is running", where=path,
                           next_step="wait for it, or raise --lock-timeout") from None
        except OSError as error:
            raise Refused(f"cannot lock the module: {error.strerror}", where=path,
                          next_step="run as the user who owns the cache, or use --no-cache"
                          ) from error
        return lock


def is_busy(path: str) -> bool:
    """True while another process holds an existing lock file; nothing is created."""
    if not os.path.exists(path):
        return False
    from filelock import FileLock, Timeout

    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(timeout=0)
    except (Timeout, OSError):
        return True
    lock.release()
    return False
