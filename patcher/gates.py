"""The one value every layer yields: a gate, and the worlds that pass it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import Enum

from patcher.arch import EMPTY, ArchSet


class Layer(str, Enum):
    """Where a decision by architecture is made."""

    PYTHON = "python"
    PREPROCESSOR = "preprocessor"
    HOST = "host"
    BUILD = "build"
    BINARY = "binary"


class Effect(str, Enum):
    """What lies behind a gate; the first that holds, in this order."""

    ERROR = "error"
    TRAP = "trap"
    KERNEL_BODY = "kernel-body"
    SYNC = "sync"
    FUNCTION_BODY = "function-body"
    DEFINITION = "definition"
    ALTERNATIVE = "alternative"
    FEATURE = "feature"
    UNKNOWN = "unknown"


class Cause(str, Enum):
    """Why a gate is closed. No marker found is not evidence: then it is unknown."""

    HARDWARE = "hardware"
    BINARY = "binary"
    INTENDED = "intended"
    SOFTWARE = "software"
    UNKNOWN = "unknown"


class Severity(str, Enum):
    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line that supports a claim; ``line`` is 1-based, 0 when there is none."""

    path: str
    line: int
    text: str

    @property
    def where(self) -> str:
        """``path:line``, or the path alone where there is no line."""
        return f"{self.path}:{self.line}" if self.line else self.path


@dataclass(frozen=True, slots=True)
class Location:
    """``line`` is the gate's own line, ``end_line`` that of what ends it (1-based)."""

    path: str
    line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class Worlds:
    """The four disjoint sets a gate splits the worlds into."""

    open: ArchSet = EMPTY
    closed: ArchSet = EMPTY
    unreached: ArchSet = EMPTY
    unknown: ArchSet = EMPTY


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition on the architecture, with the set of worlds that pass it.

    ``effect``, ``cause`` and ``severity`` are meant for the scan's target;
    ``via`` is one shortest include chain, unit first; ``count`` is how many
    equal gates this row stands for (their lines are in ``lines``).
    """

    layer: Layer
    rule: str
    location: Location
    condition: str
    worlds: Worlds
    excludes_target: bool = False
    over_open: bool = False
    effect: Effect = Effect.UNKNOWN
    cause: Cause = Cause.UNKNOWN
    severity: Severity = Severity.INFO
    evidence: tuple[Evidence, ...] = ()
    within: str = ""  # the enclosing Python or C++ function, "" at file level
    names: tuple[str, ...] = ()  # kernels or public functions that the gate decides
    units: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    via: tuple[str, ...] = ()
    hides: tuple[str, ...] = ()
    lines: tuple[int, ...] = ()
    opened_by: str | None = None
    decided_by: tuple[str, ...] = ()  # for unknown worlds: the macro or file that would decide
    id: str = field(default="")

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", self._fingerprint())

    @property
    def count(self) -> int:
        return max(1, len(self.lines))

    def _fingerprint(self) -> str:
        """Stable when lines move: built from what the gate says, not where it stands."""
        key = "\0".join([self.layer.value, self.location.path, self.within, self.condition,
                         str(self.location.line) if not self.within else ""])
        return f"{self.layer.value[:2].upper()}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
