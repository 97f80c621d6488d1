"""What is known of packages by name (``data/packages.json``): how each builds, and its caches."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from patcher.package.model import Package

_DATA = Path(__file__).parent.parent / "data" / "packages.json"


@dataclass(frozen=True, slots=True)
class Known:
    """One package. ``build`` names the way; ``wheel`` says what follows for an installed one.

    ``folder`` is where a repository that holds more has its build files; ``devices`` the CMake
    variable that lists the devices to build for, where flags do not.
    """

    name: str
    names: tuple[str, ...]
    build: str
    caches: tuple[str, ...]
    wheel: str
    folder: str = ""
    devices: str = ""


@cache
def data() -> Mapping[str, Any]:
    """The whole document."""
    found: Mapping[str, Any] = json.loads(_DATA.read_text("utf-8"))
    return found


@cache
def _by_name() -> dict[str, Known]:
    rows = [Known(row["name"], tuple(row["names"]), row["build"], tuple(row["caches"]),
                  row["wheel"], row.get("folder", ""), row.get("devices", ""))
            for row in data()["packages"]]
    return {name: row for row in rows for name in row.names}


def known(package: Package) -> Known | None:
    """The row of a package, None when nobody wrote one."""
    return _by_name().get(package.name)
