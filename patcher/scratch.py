"""Folders for temporary files, which no interrupt leaves behind."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from patcher.errors import ToolFailed


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for temporary files, removed whatever happens; raises ToolFailed without room.

    Its name is known before it is made: an interrupt in between would leave one behind of
    which nobody knows.
    """
    folder = Path(tempfile.gettempdir(), f"sm-patch-{secrets.token_hex(8)}")
    try:
        _make(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make(folder: Path) -> None:
    try:
        os.mkdir(folder, 0o700)
    except OSError as error:
        raise no_room(error) from error


def no_room(error: OSError) -> ToolFailed:
    """The error of what cannot be written for a compiler to read."""
    return ToolFailed(f"cannot write temporary files: {error.strerror}",
                      where=tempfile.gettempdir(), next_step="name another folder in TMPDIR")
