"""Atomic, durable writes for our own stores (state, caches of results); never for targets."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

TEMPORARY = ".new-"  # prefix of a file that is not yet complete; safe to delete under the lock


def write_atomic(path: Path, data: bytes, *, mode: int = 0o644, durable: bool = True) -> None:
    """Replace ``path`` by ``data`` as one step; readers see the old or the new bytes.

    ``durable`` also survives a power failure. Raises OSError and then leaves
    nothing behind.
    """
    with _temporary(path) as (handle, name):
        with os.fdopen(handle, "wb", closefd=True) as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            if durable:
                os.fsync(file.fileno())
        os.replace(name, path)
    if durable:
        sync_folder(path.parent)


@contextmanager
def _temporary(path: Path) -> Iterator[tuple[int, str]]:
    handle, name = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    try:
        yield handle, name
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def canonical_json(document: Any) -> bytes:
    """One text per value: sorted keys, ASCII (any file name survives), a final newline."""
    return json.dumps(document, sort_keys=True, indent=2).encode("ascii") + b"\n"


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
