"""Cache folders that the server could not write to."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from shlex import quote

from patcher.caches.registry import registry
from patcher.doctor.model import Repair, Result, Status, Surroundings


def writable_caches(surroundings: Surroundings) -> Iterable[Result]:
    """Asks for this user's rights only; with --env-from another user's server may differ."""
    if surroundings.environment.root is not None:
        return
    barred: dict[Path, list[str]] = {}
    checked = 0
    for spec in registry():
        if not any(surroundings.version_of(name) for name in spec.packages):
            continue
        for folder in spec.folders(surroundings.variables):
            checked += 1
            nearest = _nearest(folder)
            if nearest is None or not os.access(nearest, os.W_OK | os.X_OK):
                barred.setdefault(nearest or folder, []).append(spec.name)
    for place, names in sorted(barred.items()):
        yield Result(
            "cache-writable", Status.ERROR,
            f"{place} cannot be written: no {names[0]} can be kept there",
            (*names[1:4], "expect: PermissionError: [Errno 13] Permission denied"),
            Repair(commands=(f"chown -R $USER {quote(str(place))}", "eval \"$(sm-patch env)\"")))
    if checked and not barred:
        yield Result("cache-writable", Status.OK, f"all {checked} cache folders can be written")


def _nearest(folder: Path) -> Path | None:
    """The folder itself, else the existing folder in which it would be made."""
    for place in (folder, *folder.parents):
        if os.path.isdir(place):
            return place
        if os.path.lexists(place):
            return None  # a file or a broken link is in the way
    return None
