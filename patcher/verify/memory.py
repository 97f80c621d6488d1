"""How much memory compilers may take on this machine or in this container."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import cache
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
_LEAST = 2 << 30


@cache
def free_memory() -> int:
    """Bytes that could be used without swapping when this was asked first."""
    return max(min(_available(), _left_in_container()), _LEAST)


def _available() -> int:
    with suppress(OSError, ValueError):
        for line in _MEMINFO.read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return 4 << 30  # not told


def _left_in_container() -> int:
    with suppress(OSError, ValueError):  # the limit is "max" where there is none
        limit, used = (int((_CGROUP / f"memory.{kind}").read_text()) for kind in ("max", "current"))
        return limit - used
    return 1 << 60


class MemoryGate:
    """Lets jobs in while their memory fits; one that never fits runs alone."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._closed = False
        self._change = threading.Condition()

    def enter(self, wanted: int) -> None:
        """Wait for room; raises CancelledError once the gate is closed."""
        with self._change:
            self._change.wait_for(lambda: self._closed or not self._used
                                  or self._used + wanted <= self._limit)
            if self._closed:
                raise CancelledError
            self._used += wanted

    def close(self) -> None:
        """Turn away all who wait and all who come."""
        with self._change:
            self._closed = True
            self._change.notify_all()

    def leave(self, wanted: int) -> None:
        with self._change:
            self._used -= wanted
            self._change.notify_all()
