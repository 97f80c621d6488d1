"""What goes into a walk and what comes out of it.

Paths are those of ``patcher.tree``: relative to the tree's root, or absolute
for files outside it. Sets of worlds are bit sets, as in ``ArchSet.bits``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from patcher.arch import ALL_BITS

ArmKey = tuple[str, int]  # path, line of the arm's directive


@dataclass(frozen=True, slots=True)
class Configuration:
    """How a unit is compiled.

    ``include`` and ``system`` are the whole search path and nothing is added
    to it. nvcc hands its host compiler the folders in this order: the user's
    -I, the toolkit's ``include`` (also -I), the user's -isystem, the toolkit's
    ``include/cccl`` (-isystem), the host compiler's own folders.
    """

    id: str
    include: tuple[str, ...] = ()
    system: tuple[str, ...] = ()
    defines: tuple[tuple[str, str], ...] = ()  # -D; a flag's own macros too: predefined.flag_macros
    forced: tuple[str, ...] = ("cuda_runtime.h",)  # nvcc's -include
    std: str = "c++17"
    guessed: bool = False  # the flags were not read from the package's own build
    flags: tuple[str, ...] = ()  # the other flags, for who compiles; their macros are in defines
    open_macros: frozenset[str] = frozenset()  # build macros whose value is guessed: unknown


@dataclass(frozen=True, slots=True)
class TranslationUnit:
    """One compiled source; ``content`` is set for a generated one that is in no tree."""

    path: str
    configuration: Configuration
    modules: tuple[str, ...] = ()
    content: bytes | None = None


@dataclass(frozen=True, slots=True, order=True)
class Missing:
    """An include that was not found; ``source`` and ``line`` say where it stands."""

    include: str
    source: str
    line: int


@dataclass(frozen=True, slots=True)
class ArmState:
    """One arm in one inclusion of its file: four disjoint sets that hold every world.

    ``decided_by`` names the macros or files that would decide the unknown ones.
    """

    open: int
    closed: int
    unreached: int
    unknown: int
    decided_by: tuple[str, ...] = ()

    @property
    def live(self) -> int:
        """The worlds whose lines are compiled, or may be."""
        return self.open | self.unknown


@dataclass(frozen=True, slots=True)
class Context:
    """One distinct inclusion of a file: the worlds that entered it, and all its arms by line."""

    path: str
    worlds: int
    maybe: int  # those of ``worlds`` for which the inclusion itself is unknown
    arms: Mapping[int, ArmState]


@dataclass(frozen=True, slots=True)
class Part:
    """One way in which a file was included, by one unit or by thousands: the arms of its own
    ladders whose truth depends on the world or is unknown, and what was amiss in it."""

    path: str  # "" for what stands above a unit and its forced includes
    arms: Sequence[tuple[ArmKey, ArmState]]
    missing: Sequence[Missing]
    warnings: Sequence[str]


@dataclass(frozen=True)
class UnitReport:
    """What a walk found in one unit.

    ``arms`` holds the distinct states of each arm over the inclusions of its
    file; only of ladders whose truth depends on the world or is unknown,
    unless ``every`` was asked for. ``contexts`` is filled only then.
    """

    unit: TranslationUnit
    arms: Mapping[ArmKey, tuple[ArmState, ...]]
    files: frozenset[str]
    missing: tuple[Missing, ...] = ()
    warnings: tuple[str, ...] = ()
    includes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    contexts: Mapping[str, tuple[Context, ...]] = field(default_factory=dict)

    def chain(self, path: str) -> tuple[str, ...]:
        """One shortest include chain to ``path``, unit first; empty when it is not reached."""
        origin = self._origins
        if path not in origin:
            return ()
        links = [path]
        while origin[links[-1]]:
            links.append(origin[links[-1]])
        if links[-1] != self.unit.path:
            links.append(self.unit.path)  # a forced include
        return tuple(reversed(links))

    @cached_property
    def _origins(self) -> dict[str, str]:
        """Who includes each file first, breadth first; "" for the unit and its forced includes."""
        origin = dict.fromkeys([self.unit.path, *self.includes.get("", ())], "")
        front = list(origin)
        while front:
            following: list[str] = []
            for source in front:
                for child in self.includes.get(source, ()):
                    if child not in origin:
                        origin[child] = source
                        following.append(child)
            front = following
        return origin


UNREACHED = ArmState(0, 0, ALL_BITS, 0)
