"""The lock of a state home: one writer at a time, released by the kernel when it dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from patcher.errors import LockHeld, Refused

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOCK_TIMEOUT = 30.0  # seconds; the default of --lock-timeout


@contextmanager
def exclusive(path: Path, timeout: float = LOCK_TIMEOUT) -> Iterator[None]:
    """Hold the lock file ``path``; raises LockHeld after ``timeout`` seconds.

    The file stays when the lock is released: another process may have opened it.
    Only a whole home that is empty goes, and then who had waited starts over.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=timeout, mode=0o644, thread_local=False)
    try:
        while not _acquired(lock, path):
            lock.release()
    except Timeout:
        raise LockHeld("another sm-patch is at work here", where=str(path),
                       next_step="wait for it, or raise --lock-timeout") from None
    except OSError as error:
        raise Refused(f"cannot lock: {error.strerror}", where=str(path),
                      next_step="run as the user who owns it") from error
    try:
        yield
    finally:
        lock.release()


def _acquired(lock: BaseFileLock, path: Path) -> bool:
    """Acquire; False when the file that was locked is not the one at ``path`` any more."""
    with path.open("ab") as seen:  # held open, so that its inode number is not given away
        lock.acquire()
        try:
            return os.path.samestat(os.fstat(seen.fileno()), os.stat(path))
        except FileNotFoundError:
            return False
