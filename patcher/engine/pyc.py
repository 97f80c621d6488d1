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
    if source.suffix != ".py":
        return
    folders = [source.parent / "__pycache__"]
    for prefix in {os.environ.get("PYTHONPYCACHEPREFIX"), sys.pycache_prefix} - {None, ""}:
        folders.append(Path(prefix or "") / str(source.parent.absolute()).lstrip("/"))
    for folder in folders:
        if folder.is_symlink():
            continue  # never follow a link out of the package
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            if name.endswith(".pyc") and name.startswith(f"{source.stem}."):
                yield folder / name
