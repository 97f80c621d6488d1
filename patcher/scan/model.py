"""What a scan finds: gates by module, and what happens when one of them opens alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from patcher.arch import Target
from patcher.gates import Cause, Evidence, Gate, Layer, Severity

if TYPE_CHECKING:
    from patcher.cuda.conditions import Conditions

# they decide about a whole module
SHUTTING_RULES = frozenset({"PY-MAJORS", "PY-GENCODE", "BUILD-ARCHS"})
LIBRARIES = (
    "/cutlass/include/", "/cutlass/tools/", "/cutlass/examples/", "/cutlass/test/",
    "/include/cutlass/", "/include/cute/", "/cccl/", "/spdlog/", "/cub/", "/thrust/",
)


def is_library(path: str) -> bool:
    """True for vendored code that units of every target include."""
    return any(part in path for part in LIBRARIES)


@dataclass(frozen=True, slots=True)
class Options:
    """What of a package is scanned. Empty means everything.

    ``modules`` and ``units`` are names and paths; ``follow_all`` looks for the
    public functions of every module, not only of those with something to open or
    to fear; ``conditions`` evaluates those of the preprocessor in the usual one's
    place, and then nothing is taken from a cache; ``tick`` is told of progress.
    """

    layers: frozenset[Layer] = frozenset()
    modules: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    follow_all: bool = False
    conditions: Conditions | None = None
    tick: Callable[[int, int], None] = field(default=lambda done, total: None)

    def wants(self, layer: Layer) -> bool:
        return not self.layers or layer in self.layers


class Opening(str, Enum):
    """What happens when one gate alone opens, worst first."""

    HOLLOW = "hollow"  # a kernel is launched whose body was compiled away
    ERROR = "error"  # the build or the launch fails
    WORSE = "worse"  # it runs, but without synchronisation, or with code for other archs
    UNKNOWN = "unknown"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class OpensAlone:
    """The outcome of opening one gate (by id) for some public functions of a module."""

    gate: str
    result: Opening
    why: str
    functions: tuple[str, ...]
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class LayerState:
    """One layer of a module for the target: how many of its gates are closed, in words."""

    layer: Layer
    closed: int
    summary: str


@dataclass(frozen=True, slots=True)
class TagRow:
    """A template tag that a module's own sources take; ``minimum`` is its capability, as 100."""

    name: str
    minimum: int
    places: tuple[str, ...]  # path:line


@dataclass(frozen=True, slots=True)
class ModuleReport:
    """One JIT module (or the package's shared code) and its gates, by id.

    ``functions`` are the public functions that reach it; ``guessed`` says why its
    sources or flags are not exact, empty when they are.
    """

    name: str
    layers: tuple[LayerState, ...]
    opens_alone: tuple[OpensAlone, ...]
    gates: tuple[str, ...]
    functions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    guessed: str = ""
    closed: bool = False  # its list of architectures or its own flags leave the target out
    tags: tuple[TagRow, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfigurationRow:
    """How some unit is compiled, as the report shows it."""

    id: str
    unit: str
    module: str
    flags: tuple[str, ...]
    guessed: bool


@dataclass(frozen=True, slots=True)
class MissingRow:
    """An include that no folder answered."""

    include: str
    source: str
    line: int


@dataclass(frozen=True, slots=True)
class LibraryRow:
    """A library with GPU code; ``kind`` is prebuilt or jit. By target, how many of its ``parts``
    (fat binaries) hold code that runs there, and how many of those only PTX."""

    path: str
    kind: str
    module: str
    codes: tuple[str, ...]
    parts: int
    usable: Mapping[str, int]
    from_ptx: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FeatureSite:
    """A place of one package at which a feature of the whole stack is decided.

    ``role`` is kernel, library or gate; ``default`` marks a gate that turns the feature on by
    itself. ``states`` are open, closed or fallback, by the device's capability. ``opened_by``
    and ``closed_by`` are shipped groups.
    """

    feature: str
    package: str
    role: str
    default: bool
    path: str
    line: int
    name: str
    condition: str
    states: Mapping[str, str]
    cause: Cause
    opened_by: str | None
    closed_by: str | None = None


@dataclass(frozen=True, slots=True)
class PackageRow:
    """A scanned package."""

    name: str
    version: str | None
    root: Path


@dataclass(frozen=True, slots=True)
class ToolchainRow:
    """The toolkit whose macros were used; assumed when none was found."""

    version: str
    path: Path | None
    assumed: bool


@dataclass(frozen=True)
class Report:
    """The answer of a scan. ``gates`` are ranked; ``notes`` are sentences for the reader.

    ``used`` names the modules of this user's cache, None when it was not looked at;
    ``applied`` names by module the groups in place that change it.
    """

    packages: tuple[PackageRow, ...]
    targets: tuple[Target, ...]
    assumed: tuple[str, ...]
    references: tuple[Target, ...]
    toolchain: ToolchainRow
    gates: tuple[Gate, ...]
    modules: tuple[ModuleReport, ...]
    configurations: tuple[ConfigurationRow, ...] = ()
    unit_count: int = 0
    file_count: int = 0
    missing: tuple[MissingRow, ...] = ()
    libraries: tuple[LibraryRow, ...] = ()
    sites: tuple[FeatureSite, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    used: tuple[str, ...] | None = None
    applied: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    details: Mapping[str, tuple[Gate, ...]] = field(default_factory=dict)  # row id -> its gates

    @property
    def findings(self) -> tuple[Gate, ...]:
        """The gates that exclude the target or are over-open."""
        return tuple(g for g in self.gates if g.excludes_target or g.over_open)

    def worst(self) -> Severity:
        """The gravest severity among the findings; INFO when there are none."""
        found = {gate.severity for gate in self.findings}
        order = (Severity.CRITICAL, Severity.WARNING)
        return next((severity for severity in order if severity in found), Severity.INFO)

    def gate(self, identifier: str) -> Gate:
        """The gate with this id; raises KeyError when there is none."""
        for gate in self.gates:
            if gate.id == identifier:
                return gate
        raise KeyError(identifier)
