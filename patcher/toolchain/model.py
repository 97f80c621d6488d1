"""A CUDA toolkit and the host compiler behind it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class HostCompiler:
    """What the host compiler adds: its include folders in order and its predefined macros.

    ``assumed`` means that no compiler was found and shipped data stands in; then
    ``include`` is empty and system headers are missing.
    """

    path: Path | None
    version: str
    include: tuple[str, ...]
    macros: tuple[tuple[str, str], ...]
    assumed: bool


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A CUDA toolkit. ``version`` is ``major.minor``.

    ``include`` are the folders nvcc searches by itself with -I, ``system`` those
    with -isystem, both in nvcc's order. ``assumed`` means that no toolkit was
    found: the version is a stated default (or the one named) and ``path`` is None.
    ``tool`` is nvcc's own full version (``13.0.88``), empty without nvcc.
    """

    version: str
    path: Path | None
    nvcc: Path | None
    include: tuple[str, ...]
    system: tuple[str, ...]
    host: HostCompiler
    platform: str  # "x86_64" or "aarch64"
    assumed: bool
    reason: str
    notes: tuple[str, ...] = ()
    tool: str = ""

    @property
    def release(self) -> tuple[int, int]:
        """The version as numbers, for comparisons."""
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)
