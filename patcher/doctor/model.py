"""What a check says, and what it may look at."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

from patcher.arch import Target
from patcher.doctor.libraries import Libraries
from patcher.package.metadata import normalise
from patcher.package.model import Environment
from patcher.toolchain.model import Toolkit
from patcher.tree import matching, plain_text

_TORCH_CUDA = re.compile(r"""^cuda\b[^=\n]*=\s*["'](\d+\.\d+)""", re.M)


class Status(str, Enum):
    """How grave a result is; the order is that of a report."""

    ERROR = "error"
    WARNING = "warning"
    OK = "ok"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Repair:
    """How to end the trouble: a shipped patchset (or ``patchset/group``), or commands to type,
    best first; ``advice`` is what no command does."""

    patchset: str | None = None
    commands: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """Everything to type, the patchset first."""
        if self.patchset is None:
            return self.commands
        name, _, group = self.patchset.partition("/")
        return (f"sm-patch apply {name}" + (f" --group {group}" if group else ""), *self.commands)


@dataclass(frozen=True, slots=True)
class Result:
    """One finding of one check; ``evidence`` are paths, versions and the error text to expect."""

    id: str
    status: Status
    summary: str
    evidence: tuple[str, ...] = ()
    repair: Repair = field(default_factory=Repair)

    def public(self) -> dict[str, Any]:
        """The row of ``--format json``."""
        return {"id": self.id, "status": self.status.value, "summary": self.summary,
                "evidence": list(self.evidence),
                "repair": {"patchset": self.repair.patchset,
                           "commands": list(self.repair.commands),
                           "advice": list(self.repair.advice)}}


@dataclass(frozen=True, slots=True)
class Metadata:
    """A distribution by its metadata folder ``NAME-VERSION.dist-info``."""

    name: str
    version: str
    folder: Path


@dataclass(frozen=True)
class Surroundings:
    """The machine and environment under examination; nothing of it is imported or run.

    ``toolkits`` are all that were found, the one that builds would use first;
    ``targets`` what the GPUs are built for; ``packages`` the import names asked
    about, empty for whatever is installed; ``variables`` those of the server;
    ``gpus`` what told of each GPU, empty when there is none; ``assumed`` means that
    the targets are a default that nothing told of.
    """

    environment: Environment
    toolkits: tuple[Toolkit, ...]
    targets: tuple[Target, ...]
    variables: Mapping[str, str]
    packages: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    assumed: bool = False

    def installed(self, import_name: str) -> Path | None:
        """The folder of an import package, if it is installed and wanted."""
        if self.packages and import_name not in self.packages:
            return None
        return self.anywhere(import_name)

    def anywhere(self, import_name: str) -> Path | None:
        """The folder of an import package in this environment, whether asked about or not."""
        for site in self.environment.site_packages:
            if os.path.isdir(site / import_name):
                return site / import_name
        return None

    @cached_property
    def distributions(self) -> Mapping[str, Metadata]:
        """What is installed, by normalised name; the first on the search path wins."""
        found: dict[str, Metadata] = {}
        for site in self.environment.site_packages:
            for folder in matching(site, "*.dist-info"):
                name, _, version = folder.name.removesuffix(".dist-info").rpartition("-")
                found.setdefault(normalise(name), Metadata(normalise(name), version, folder))
        return found

    @cached_property
    def libraries(self) -> Libraries:
        """The shared objects of what is installed or asked about."""
        return Libraries(self.environment.site_packages, self.packages)

    @cached_property
    def torch_cuda(self) -> str | None:
        """The CUDA release (``12.8``) that the installed torch was built with, from version.py."""
        folder = self.anywhere("torch")
        match = _TORCH_CUDA.search(plain_text(folder / "version.py")) if folder else None
        return match[1] if match else None

    def owns(self, root: Path) -> bool:
        """True for the toolkit that wheels of this environment share: ours to patch."""
        return any(root == site / "nvidia" / "cu13" for site in self.environment.site_packages)

    def version_of(self, distribution: str) -> str | None:
        """A distribution's version from the name of its metadata folder."""
        found = self.distributions.get(normalise(distribution))
        return found.version if found else None

    def which(self, tool: str) -> str | None:
        """A program on the server's PATH."""
        return shutil.which(tool, path=self.variables.get("PATH"))


Check = Callable[[Surroundings], Iterable[Result]]
