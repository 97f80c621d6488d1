"""A file's bytes without reading them all; never a pipe that is waited for, or a device."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap]:
    """The bytes of a plain file; raises OSError, and ValueError for an empty or other one."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("not a plain file")
        with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as data:
            yield data
    finally:
        os.close(descriptor)
