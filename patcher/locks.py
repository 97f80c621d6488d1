"""The lock of a state home: one writer at a time, released by the kernel when it dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EROFS
from pathlib import Path
from typing import TYPE_CHECKING

from patcher.errors import LockHeld, Refused

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOCK_TIMEOUT = 30.0  # seconds; the default of --lock-timeout
LOOK_TIMEOUT = 5.0  # seconds that a look waits for a writer


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
                      next_step="mount it writable, or patch a copy with --root"
                      if error.errno == EROFS else "run as the user who owns it") from error
    try:
        yield
    finally:
        lock.release()


def _acquired(lock: BaseFileLock, path: Path) -> bool:
    """Acquire; False when the file that was locked is not the one at ``path`` any more."""
    with path.open("ab") as seen:  # held open, so that its inode number is not given away
        if os.geteuid() == 0:
            owner = os.stat(path.parent)
            os.fchown(seen.fileno(), owner.st_uid, owner.st_gid)
        lock.acquire()
        try:
            return os.path.samestat(os.fstat(seen.fileno()), os.stat(path))
        except FileNotFoundError:
            return False


@contextmanager
def steady(path: Path, timeout: float = LOOK_TIMEOUT) -> Iterator[bool]:
    """Keep writers out while looking, with no right to write; False when one stays at work.

    Without a lock file, or without the right to read it, there is nothing to wait for.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        yield True
        return
    try:
        yield _shared(handle, time.monotonic() + timeout)
    finally:
        os.close(handle)


def _shared(handle: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        except OSError:  # a file system without locks
            return True
