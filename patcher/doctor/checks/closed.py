"""Files and folders that this user may not read: what lies there is unknown, and not absent."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from patcher.doctor.libraries import recorded_libraries
from patcher.doctor.model import Repair, Result, Status, Surroundings
from patcher.tree import matching

_SHOWN = 6
_MESSAGE = ("expect, of a server that runs as this user: PermissionError: [Errno 13] Permission "
            "denied")
_TOOLKIT = ("", "bin", "bin/nvcc", "include", "lib", "lib64", "nvvm/bin")


def closed_places(surroundings: Surroundings) -> Iterable[Result]:
    """The other checks take what is closed for absent, so each closed place is named here."""
    places = list(dict.fromkeys(
        place for path in _looked_at(surroundings) if (place := closed(path))))
    if places:
        more = len(places) - _SHOWN
        yield Result(
            "permissions", Status.WARNING,
            f"closed to this user, and so not examined: {_count(len(places))}",
            (*map(str, places[:_SHOWN]), *([f"and {more} more"] if more > 0 else []),
             _MESSAGE),
            Repair(commands=("sudo -u USER_OF_THE_SERVER sm-patch doctor",)))


def _count(places: int) -> str:
    return "1 place" if places == 1 else f"{places} places"


def closed(path: Path) -> Path | None:
    """The highest folder on the way that keeps this user out, or the path itself."""
    for place in (*reversed(path.parents), path):
        try:
            folder = stat.S_ISDIR(os.stat(place).st_mode)
        except OSError:
            return None  # absent, or a broken link
        if place != path and not folder:
            return None  # a file is in the way
        needed = os.X_OK if place != path else os.R_OK | (os.X_OK if folder else 0)
        if not os.access(place, needed):
            return place
    return None


def _looked_at(surroundings: Surroundings) -> Iterator[Path]:
    for site in surroundings.environment.site_packages:
        yield site
        try:
            entries = sorted(os.scandir(site), key=lambda entry: entry.name)
        except OSError:
            continue
        yield from (site / entry.name for entry in entries if entry.is_dir())
        for info in (site / e.name for e in entries if e.name.endswith(".dist-info")):
            yield info / "RECORD"
            yield from (site / row for row in recorded_libraries(info))
        yield from (root / part for root in matching(site / "nvidia", "*") for part in _TOOLKIT)
    for toolkit in surroundings.toolkits:
        yield from (toolkit.path / part for part in _TOOLKIT if toolkit.path)
