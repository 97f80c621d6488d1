"""What builds ahead of time share: a build file is read once, its groups are modules and gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic as Of
from typing import Protocol, TypeVar

from patcher.gates import Gate
from patcher.package.model import Package
from patcher.profiles.base import JitModule
from patcher.profiles.generic import Generic
from patcher.profiles.known import Known
from patcher.profiles.native.sources import Group
from patcher.toolchain.model import Toolkit
from patcher.tree import Tree


class Reading(Protocol):
    """What build files say."""

    @property
    def groups(self) -> Sequence[Group]: ...


R = TypeVar("R", bound=Reading)


class AheadOfTime(Generic, Of[R]):
    """A source tree whose build files are read; anything else is as ``Generic`` has it."""

    def __init__(self, known: Known | None = None) -> None:
        super().__init__(known)
        self._readings: dict[tuple[int, str], tuple[Tree, R | None]] = {}

    def modules(self, package: Package, toolkit: Toolkit) -> list[JitModule]:
        """One for each group of sources that one list of architectures decides about."""
        reading = self._read(package, toolkit)
        return [group.module() for group in reading.groups] if reading else []

    def build_gates(self, package: Package, toolkit: Toolkit) -> list[Gate]:
        """The lists of architectures that leave some device out."""
        reading = self._read(package, toolkit)
        found = [group.gate() for group in reading.groups] if reading else []
        return [gate for gate in found if gate is not None]

    def _read(self, package: Package, toolkit: Toolkit) -> R | None:
        key = (id(package.tree), f"{toolkit.version} {toolkit.platform}")
        if key not in self._readings:
            self._readings[key] = package.tree, self._reading(package, toolkit)
        return self._readings[key][1]

    def _last(self, package: Package) -> R | None:
        """What was last read of this tree, with whatever toolkit."""
        found = [reading for tree, reading in self._readings.values() if tree is package.tree]
        return found[-1] if found else None

    def _reading(self, package: Package, toolkit: Toolkit) -> R | None:
        """Read the build files; None where there are none that can be read."""
        raise NotImplementedError
