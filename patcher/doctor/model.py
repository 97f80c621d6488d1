"""What a check says, and what it may look at."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from patcher.arch import Target
from patcher.package.model import Environment
from patcher.toolchain.model import Toolkit


class Status(str, Enum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Repair:
    """How to end the trouble: a shipped patchset, or commands to type, best first."""

    patchset: str | None = None
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """One finding of one check; ``evidence`` are paths, versions and the error text to expect."""

    id: str
    status: Status
    summary: str
    evidence: tuple[str, ...] = ()
    repair: Repair = field(default_factory=Repair)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The machine and environment under examination; nothing of it is imported or run.

    ``toolkits`` are all that were found, the one that builds would use first;
    ``packages`` the import names asked about, empty for whatever is installed;
    ``variables`` the environment variables of the server.
    """

    environment: Environment
    toolkits: tuple[Toolkit, ...]
    target: Target
    variables: Mapping[str, str]
    packages: tuple[str, ...] = ()

    def installed(self, import_name: str) -> Path | None:
        """The folder of an import package, if it is installed and wanted."""
        if self.packages and import_name not in self.packages:
            return None
        return self.anywhere(import_name)

    def anywhere(self, import_name: str) -> Path | None:
        """The folder of an import package in this environment, whether asked about or not."""
        for site in self.environment.site_packages:
            if (site / import_name).is_dir():
                return site / import_name
        return None

    def version_of(self, distribution: str) -> str | None:
        """A distribution's version from the name of its metadata folder."""
        stem = distribution.replace("-", "_")
        for site in self.environment.site_packages:
            for folder in sorted(site.glob(f"{stem}-*.dist-info")):
                return folder.name.removesuffix(".dist-info").rpartition("-")[2]
        return None

    def which(self, tool: str) -> str | None:
        """A program on the server's PATH."""
        return shutil.which(tool, path=self.variables.get("PATH"))


Check = Callable[[Surroundings], Iterable[Result]]
