"""Targets, capabilities, worlds, and sets of worlds.

A *target* is an nvcc target with its suffix (``sm_120a``), a *capability* a
device's number (12.0), a *world* one target's device pass or the host pass.
The table of known targets is ``data/arch.json``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from patcher.errors import UsageError

HOST = "host"
_TARGET = re.compile(r"(?:sm|compute)_?(\d{2,3})([af]?)$")
_CAPABILITY = re.compile(r"(\d{1,2})\.(\d)([af]?)$")


@dataclass(frozen=True, slots=True, order=True)
class Capability:
    """A device's compute capability, e.g. 12.1 for DGX Spark."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Capability:
        """Read ``"12.0"``; raises UsageError for anything else."""
        match = _CAPABILITY.match(text)
        if not match or match[3]:
            raise UsageError(f"not a compute capability: {text!r}", next_step="write it as 12.0")
        return cls(int(match[1]), int(match[2]))

    @property
    def number(self) -> int:
        """The number used in target names: 120 for 12.0."""
        return self.major * 10 + self.minor

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True)
class Target:
    """One nvcc target. ``index`` is its bit in every ArchSet.

    ``since`` and ``until`` are the first and last measured CUDA release that
    knows the target; None means older or newer than what was measured.
    """

    index: int
    name: str
    number: int
    suffix: str
    since: str | None
    until: str | None

    @property
    def capability(self) -> Capability:
        return Capability(self.number // 10, self.number % 10)

    @property
    def macros(self) -> dict[str, str]:
        """Macros nvcc predefines in this target's device pass (measured, nvcc 13.0 and 13.5)."""
        value = str(self.number * 10)
        macros = {"__CUDA_ARCH__": value, "__CUDA_ARCH_LIST__": value}
        if self.suffix == "a":
            macros[f"__CUDA_ARCH_FEAT_SM{self.number}_ALL"] = "1"  # -D without a value
            macros["__CUDA_ARCH_SPECIFIC__"] = value
        if self.suffix:
            macros["__CUDA_ARCH_FAMILY_SPECIFIC__"] = value
        return macros

    @property
    def gencode(self) -> str:
        """The explicit nvcc flag; plain ``-arch=`` would add a second device pass."""
        short = self.name.removeprefix("sm_")
        return f"-gencode=arch=compute_{short},code=sm_{short}"

    def __str__(self) -> str:
        return self.name


@cache
def known_targets() -> tuple[Target, ...]:
    """Every row of the table, ordered by number, plain before ``a`` before ``f``."""
    rows = json.loads((Path(__file__).parent / "data" / "arch.json").read_text("utf-8"))["targets"]
    targets = []
    for index, row in enumerate(rows):
        match = _TARGET.match(row["name"])
        assert match, row
        number, suffix = int(match[1]), match[2]
        targets.append(Target(index, row["name"], number, suffix, row["since"], row["until"]))
    return tuple(targets)


def relatives(targets: Iterable[Target]) -> tuple[Target, ...]:
    """The other devices of the same families: ``sm_120a`` for ``sm_121a``.

    What is open for one and closed for the other excludes the other.
    """
    own = {target.capability for target in targets}
    kinds = {(target.capability.major, target.suffix) for target in targets}
    return tuple(t for t in known_targets()
                 if (t.capability.major, t.suffix) in kinds and t.capability not in own)


@cache
def _by_name() -> dict[str, Target]:
    return {target.name: target for target in known_targets()}


@cache
def _bits_of(capability: Capability) -> int:
    return sum(1 << t.index for t in known_targets() if t.capability == capability)


@cache
def target(name: str) -> Target:
    """The target called ``sm_120a`` (or ``compute_120a``, ``120a``, ``12.0a``).

    Raises UsageError for an unknown one.
    """
    text = name.lower()
    if match := _CAPABILITY.match(text):
        text = f"sm_{match[1]}{match[2]}{match[3]}"
    elif match := _TARGET.match(text):
        text = f"sm_{match[1]}{match[2]}"
    elif re.match(r"\d{2,3}[af]?$", text):
        text = f"sm_{text}"
    found = _by_name().get(text)
    if found is None:
        raise UsageError(f"unknown target {name!r}", next_step="known: " + " ".join(_by_name()))
    return found


@dataclass(frozen=True, slots=True)
class ArchSet:
    """An immutable set of worlds: bit i is target i, the last bit the host pass."""

    bits: int = 0

    @classmethod
    def of(cls, *members: Target | Capability | str) -> ArchSet:
        """Build from targets, capabilities (all suffixes), target names or ``"host"``."""
        bits = 0
        for member in members:
            if isinstance(member, str):
                bits |= HOST_BIT if member == HOST else 1 << target(member).index
            elif isinstance(member, Target):
                bits |= 1 << member.index
            else:
                bits |= _bits_of(member)
        return cls(bits)

    def __or__(self, other: ArchSet) -> ArchSet:
        return ArchSet(self.bits | other.bits)

    def __and__(self, other: ArchSet) -> ArchSet:
        return ArchSet(self.bits & other.bits)

    def __sub__(self, other: ArchSet) -> ArchSet:
        return ArchSet(self.bits & ~other.bits)

    def __xor__(self, other: ArchSet) -> ArchSet:
        return ArchSet(self.bits ^ other.bits)

    def __invert__(self) -> ArchSet:
        return ArchSet(ALL_BITS & ~self.bits)

    def __le__(self, other: ArchSet) -> bool:
        return not self.bits & ~other.bits

    def __bool__(self) -> bool:
        return bool(self.bits)

    def __contains__(self, member: Target | str) -> bool:
        return bool(self.bits & ArchSet.of(member).bits)

    def __iter__(self) -> Iterator[Target]:
        return (t for t in known_targets() if self.bits >> t.index & 1)

    def __len__(self) -> int:
        return self.bits.bit_count()

    @property
    def host(self) -> bool:
        return bool(self.bits & HOST_BIT)

    @property
    def device(self) -> ArchSet:
        return ArchSet(self.bits & ~HOST_BIT)

    @property
    def names(self) -> list[str]:
        """Target names in table order, without the host pass (JSON keeps it apart)."""
        return [t.name for t in self]

    @property
    def capabilities(self) -> list[Capability]:
        """The capabilities with at least one target in the set."""
        return sorted({t.capability for t in self})

    def __str__(self) -> str:
        return " ".join([*self.names, *([HOST] if self.host else [])]) or "none"


HOST_BIT = 1 << len(known_targets())
ALL_BITS = (HOST_BIT << 1) - 1
EMPTY = ArchSet(0)
ALL = ArchSet(ALL_BITS)
DEVICE = ArchSet(ALL_BITS & ~HOST_BIT)
DEFAULT_REFERENCES = ("sm_90a", "sm_100a")


def known_capabilities() -> list[Capability]:
    """Every capability that has a target, ascending."""
    return DEVICE.capabilities


def capabilities_set(capabilities: Iterable[Capability]) -> ArchSet:
    """All targets, whatever their suffix, of these capabilities."""
    return ArchSet.of(*capabilities)


class Truth:
    """Kleene truth per world: ``true`` and ``false`` are disjoint, the rest is unknown."""

    __slots__ = ("false", "true")

    def __init__(self, true: ArchSet, false: ArchSet) -> None:
        self.true = true
        self.false = false

    @classmethod
    def known(cls, true: ArchSet) -> Truth:
        return cls(true, ~true)

    @property
    def unknown(self) -> ArchSet:
        return ~(self.true | self.false)

    def __and__(self, other: Truth) -> Truth:
        return Truth(self.true & other.true, self.false | other.false)

    def __or__(self, other: Truth) -> Truth:
        return Truth(self.true | other.true, self.false & other.false)

    def __invert__(self) -> Truth:
        return Truth(self.false, self.true)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Truth) and (self.true, self.false) == (other.true, other.false)

    def __hash__(self) -> int:
        return hash((self.true, self.false))

    def __repr__(self) -> str:
        return f"Truth(true={self.true}, false={self.false})"


TRUE = Truth(ALL, EMPTY)
FALSE = Truth(EMPTY, ALL)
UNKNOWN = Truth(EMPTY, EMPTY)
