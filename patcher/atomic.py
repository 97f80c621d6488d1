"""Atomic, durable writes for our own stores (state, caches of results); never for targets."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from patcher.durable import sync_files, sync_folder

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
            dress(file.fileno(), path.parent, mode)
            if durable:
                os.fsync(file.fileno())
        os.replace(name, path)
    if durable:
        sync_folder(path.parent)


def add_durably(folder: Path, contents: Mapping[str, bytes], *, mode: int = 0o644) -> None:
    """Write new files, waiting for the disk once for all of them. Raises OSError.

    They stand there when their bytes do, and what a crash leaves is temporary.
    """
    places = {}
    try:
        for name, data in contents.items():
            handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=folder)
            places[Path(temporary)] = folder / name
            with os.fdopen(handle, "wb", closefd=True) as file:
                file.write(data)
                file.flush()
                dress(file.fileno(), folder, mode)
        sync_files(places)
        for temporary_place, place in places.items():
            os.replace(temporary_place, place)
    except BaseException:
        for temporary_place in places:
            with suppress(OSError):
                os.unlink(temporary_place)
        raise
    if places:
        sync_folder(folder)


def dress(handle: int, folder: Path, mode: int) -> None:
    """Set the mode; what root writes belongs to the folder's owner, who has to go on with it."""
    os.fchmod(handle, mode)
    if os.geteuid() == 0:
        owner = os.stat(folder)
        os.fchown(handle, owner.st_uid, owner.st_gid)


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
