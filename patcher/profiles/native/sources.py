"""Sources of an ahead-of-time build, each with the devices that it is compiled for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from patcher.arch import DEVICE, EMPTY, ArchSet, Capability, known_capabilities, known_targets
from patcher.binary.fatbin import Code
from patcher.gates import Gate, Layer, Location, Worlds
from patcher.profiles.base import JitModule, PythonGate, Site
from patcher.profiles.flags import Flags

_CODE = re.compile(r"(sm|compute)_(\d+)([af]?)$")
RULE = "BUILD-ARCHS"


@dataclass(frozen=True, slots=True)
class Rule:
    """The line of a build file that decides for which architectures a source is compiled."""

    path: str
    line: int
    text: str
    name: str = ""  # of the sources, as the build file calls them


@dataclass
class Source:
    """One CUDA source of a library. ``codes`` are what each device's build would compile."""

    path: str
    library: str
    rule: Rule | None = None
    flags: Flags = field(default_factory=Flags)
    codes: dict[Capability, tuple[str, ...]] = field(default_factory=dict)
    distributed: tuple[str, ...] = ()  # what a build for all devices together compiles

    @property
    def served(self) -> ArchSet:
        """The targets of the devices that find code of it in a build made for them."""
        found = EMPTY
        for capability, codes in self.codes.items():
            if any(runs(code, capability) for code in codes):
                found |= ArchSet.of(capability)
        return found

    @property
    def targets(self) -> tuple[str, ...]:
        """All machine code that any device's build asks for, by name."""
        return tuple(sorted({code for codes in self.codes.values() for code in codes
                             if code.startswith("sm_")}))


def code_of(name: str) -> Code | None:
    """``sm_120f`` or ``compute_90`` as code; None for another text."""
    match = _CODE.match(name)
    return Code(int(match[2]), match[3], match[1] == "compute") if match else None


def runs(name: str, capability: Capability) -> bool:
    """True when a device of this capability can run the code."""
    code = code_of(name)
    return code is not None and any(
        code.runs_on(target) for target in known_targets() if target.capability == capability)


def asked_capabilities() -> list[Capability]:
    """The devices for which a build is looked at: all that today's toolkits know."""
    return [capability for capability in known_capabilities() if capability.number >= 75]


@dataclass(frozen=True, slots=True)
class Group:
    """Sources that one rule decides about, with one name."""

    name: str
    rule: Rule
    served: ArchSet
    members: tuple[Source, ...]

    def module(self) -> JitModule:
        """The group in the form that a scan groups gates by."""
        site = Site(self.rule.path, self.name, self.rule.line)
        targets = {t for source in self.members for t in source.targets}
        return JitModule(
            self.name, "", site, tuple(s.path for s in self.members),
            gates=(PythonGate(site, self.rule.text, None),), targets=tuple(sorted(targets)))

    def gate(self) -> Gate | None:
        """What keeps devices out; None when all of them are served."""
        known = ArchSet.of(*asked_capabilities())
        if known <= self.served:
            return None
        codes = sorted({c for source in self.members for cs in source.codes.values() for c in cs})
        return Gate(
            Layer.BUILD, RULE, Location(self.rule.path, self.rule.line, self.rule.line),
            self.rule.text, Worlds(open=self.served, closed=DEVICE - self.served),
            within=self.name, names=tuple(codes), units=tuple(s.path for s in self.members),
            modules=(self.name,))


def grouped(sources: Iterable[Source]) -> list[Group]:
    """Sources of one library with the same rule and the same devices, in order."""
    found: dict[tuple[str, Rule | None, int], list[Source]] = {}
    for source in sources:
        found.setdefault((source.library, source.rule, source.served.bits), []).append(source)
    names: dict[str, int] = {}
    groups = []
    for (library, rule, _), members in found.items():
        if rule is None:
            continue
        name = f"{library}/{rule.name}" if rule.name else library
        names[name] = names.get(name, 0) + 1
        if names[name] > 1:
            name = f"{name}~{names[name]}"
        groups.append(Group(name, rule, members[0].served, tuple(members)))
    return groups


def module_of(groups: Iterable[Group]) -> Mapping[str, tuple[str, ...]]:
    """The group names of each source."""
    found: dict[str, tuple[str, ...]] = {}
    for group in groups:
        for source in group.members:
            found[source.path] = (*found.get(source.path, ()), group.name)
    return found
