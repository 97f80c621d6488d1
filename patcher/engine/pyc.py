"""The compiled copies of a Python source, wherever this or another interpreter put them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path


def compiled_copies(source: Path) -> Iterator[Path]:
    """Every .pyc of ``source``: all interpreter tags and optimisation levels.

    A .pyc is taken for fresh when the second and the size of its source agree,
    an unchecked one always. Beside the source, and below PYTHONPYCACHEPREFIX.
    """
    for folder in compiled_folders(source):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            if name.endswith(".pyc") and name.startswith(f"{source.stem}."):
                yield folder / name


def compiled_folders(source: Path) -> Iterator[Path]:
    """Where compiled copies of a source may stand; never behind a link out of the package."""
    if source.suffix != ".py":
        return
    folders = [source.parent / "__pycache__"]
    for prefix in {os.environ.get("PYTHONPYCACHEPREFIX"), sys.pycache_prefix} - {None, ""}:
        folders.append(Path(prefix or "") / str(source.parent.absolute()).lstrip("/"))
    yield from (folder for folder in folders if not folder.is_symlink())
