"""What an installer left half done: metadata twice, leftovers of an upgrade, libraries missing."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from shlex import quote

from patcher.doctor.checks.closed import closed
from patcher.doctor.libraries import recorded_libraries
from patcher.doctor.model import Repair, Result, Status, Surroundings
from patcher.package.metadata import normalise
from patcher.tree import matching

_SHOWN = 5


def installs(surroundings: Surroundings) -> Iterable[Result]:
    """Metadata folders and RECORDs of each site-packages against what is there."""
    for site in surroundings.environment.site_packages:
        versions: dict[str, list[str]] = defaultdict(list)
        missing: dict[str, list[str]] = {}
        for info in matching(site, "*.dist-info"):
            if info.name.startswith("~"):
                continue
            name, _, version = info.name.removesuffix(".dist-info").rpartition("-")
            versions[normalise(name)].append(version)
            lost = [row for row in recorded_libraries(info)
                    if not os.path.isfile(site / row) and not closed(site / row)]
            if lost:
                missing[normalise(name)] = lost
        for name, several in versions.items():
            if len(several) > 1:
                yield Result(
                    "installs", Status.WARNING,
                    f"{name} has the metadata of {' and '.join(several)}: an upgrade was "
                    "interrupted", (f"in {site}",),
                    Repair(commands=(f"pip install --force-reinstall --no-deps {quote(name)}",)))
        for name, lost in missing.items():
            yield Result(
                "installs", Status.ERROR,
                f"{name} lacks libraries that its RECORD lists ({len(lost)}): it is still being "
                "unpacked, or was damaged", (f"in {site}", *lost[:_SHOWN]),
                Repair(commands=(f"pip install --force-reinstall --no-deps {quote(name)}",)))
        leftovers = [path.name for path in matching(site, "~*")]
        if leftovers:
            yield Result("installs", Status.WARNING,
                         "pip left folders of an interrupted uninstall behind",
                         (f"in {site}", *leftovers[:_SHOWN]),
                         Repair(commands=(f"rm -r {quote(str(site))}/~*",)))
