"""What stands beside a package: other packages of its environment, and their folders."""

from __future__ import annotations

from pathlib import Path

from patcher.package.model import Package


def sites(package: Package) -> list[Path]:
    """Where neighbours of the package may be: beside it first, then in its environment."""
    environment = package.environment
    beside = [] if package.read_only else [package.root]
    return list(dict.fromkeys([*beside, *(environment.site_packages if environment else ())]))


def first(places: list[Path], holding: str, *names: str) -> str:
    """The first of these folders, under any place, that holds a folder; empty when none does."""
    found = (place / name for name in names for place in places)
    return next((str(place) for place in found if (place / holding).is_dir()), "")
