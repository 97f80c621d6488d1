"""The outcome of a patch, and what every operation answers with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from patcher.arch import EMPTY, ArchSet
from patcher.changes import Change
from patcher.edits import Edit


class Outcome(str, Enum):
    """What became of a patch, decided by gates, never by text or version alone."""

    APPLICABLE = "applicable"
    ALREADY_APPLIED = "already-applied"
    NOT_NEEDED = "not-needed"
    CONFLICT = "conflict"
    MISSING = "missing"
    UNREACHED = "unreached"
    UNSUPPORTED = "unsupported"

    @property
    def refused(self) -> bool:
        """True when the patch, and with it its group, cannot go through."""
        return self in _REFUSED


_REFUSED = frozenset({Outcome.CONFLICT, Outcome.MISSING, Outcome.UNREACHED, Outcome.UNSUPPORTED})


class Evidence(str, Enum):
    """How sure a NOT_NEEDED is: seen in the gates, or for want of any gate."""

    GATES = "gates"  # the gates are there and open
    ABSENCE = "absence"  # nothing there decides; the version label has to say the rest
    NONE = "none"  # the operation has no gates of its own (text): its group's decide


@dataclass(frozen=True, slots=True)
class Finding:
    """One operation's answer for one package.

    ``edits`` are against the bases; ``changes`` are whole files (created, linked).
    ``asked`` is what the patch names, ``effective`` the worlds whose gate it
    really changes (the gate's resolution may be coarser). ``reason`` names the
    file, the cause and the next step.
    """

    outcome: Outcome
    reason: str
    edits: Mapping[str, tuple[Edit, ...]] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    asked: ArchSet = EMPTY
    effective: ArchSet = EMPTY
    evidence: Evidence = Evidence.GATES
    files: tuple[str, ...] = ()
