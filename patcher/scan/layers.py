"""The layers beside the preprocessor: Python, host, build and binary gates of a package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from patcher import build, host
from patcher import cause as causes
from patcher.arch import DEVICE, ArchSet, Target, known_targets
from patcher.cuda.model import TranslationUnit, UnitReport
from patcher.gates import Cause, Effect, Evidence, Gate, Layer, Location, Worlds
from patcher.profiles.base import JitModule, Site
from patcher.scan.features import (
    Feature,
    prebuilt_of,
    shuts,
    shutting_gates,
    with_module_cause,
)
from patcher.scan.files import Files
from patcher.scan.model import is_library
from patcher.scan.stages import Table
from patcher.scan.walks import Facts, Walk
from patcher.scan.watch import digest_of

if TYPE_CHECKING:
    from patcher.scan.known import Known

_SOURCES = (".cu", ".cuh", ".h", ".hpp", ".cpp", ".cc", ".inl")
_MAX_HOST_BYTES = 4 << 20  # a generated kernel of that size holds no launcher


def excludes(gate: Gate, targets: Sequence[Target], references: Sequence[Target]) -> bool:
    """True when a target is closed and a reference passes, or may pass."""
    worlds = gate.worlds
    passes = worlds.open | worlds.unknown
    return any(t in worlds.closed for t in targets) and any(r in passes for r in references)


def mark(gate: Gate, cause: Cause, evidence: tuple[Evidence, ...]) -> Gate:
    """The gate with its cause and the severity that follows."""
    return replace(gate, excludes_target=True, cause=cause, evidence=evidence,
                   severity=causes.severity(gate.effect, cause))


def python_layer(
    found: Iterable[Gate], targets: Sequence[Target], references: Sequence[Target]
) -> list[Gate]:
    """The Python gates that matter, with what stands beside them as the cause."""
    gates = []
    for gate in found:
        if excludes(gate, targets, references):
            cause, evidence = gate.cause, gate.evidence
            if cause is Cause.HARDWARE and not _hardware_only(gate, targets):
                cause, evidence = Cause.UNKNOWN, ()
            effect = Effect.FEATURE if gate.effect is Effect.UNKNOWN else gate.effect
            gates.append(mark(replace(gate, effect=effect), cause, evidence))
    return gates


def _hardware_only(gate: Gate, targets: Sequence[Target]) -> bool:
    """As ``hardware_only``, which needs what looks for Python gates: rarely are there such."""
    from patcher.python.find import hardware_only

    return hardware_only(gate, targets)


@dataclass(frozen=True)
class HostTables:
    """What is kept of the host layer, by file: whether its text may ask for the device's
    capability, its constants, and its checks."""

    worth: Table[bool]
    constants: Table[tuple[str, ...]]
    checks: Table[tuple[Gate, ...]]


def host_layer(
    facts: Facts, files: Files, targets: Sequence[Target], references: Sequence[Target],
    kept: HostTables, digest: Callable[[str], str],
) -> list[Gate]:
    """Run-time checks in the sources that some unit reaches."""
    def worth(path: str) -> bool:
        return kept.worth.of(path, digest(path), lambda: _worth_reading(files.get(path).data))

    def constants(path: str) -> tuple[str, ...]:
        return kept.constants.of(path, digest(path),
                                 lambda: host.constants_in(files.get(path).data))

    sources = [path for path in sorted(facts.reached)
               if path.endswith(_SOURCES) and not is_library(path) and worth(path)]
    known = host.constants(map(constants, _constant_files(facts, sources)))
    beside = repr(sorted(known.items()))
    gates = []
    for path in sources:
        for gate in kept.checks.of(path, digest_of([digest(path), beside]),
                                   partial(_checks, path, files, known)):
            if excludes(gate, targets, references):
                units = facts.reached[path]
                gate = replace(gate, units=facts.paths(units), modules=facts.modules(units))
                evidence = causes.prebuilt(path, files.get(path).code)
                gates.append(mark(gate, Cause.BINARY if evidence else Cause.UNKNOWN, evidence))
    return gates


def _checks(path: str, files: Files, known: Mapping[str, int]) -> tuple[Gate, ...]:
    return tuple(host.find_host_gates(path, files.get(path).data, known))


def _worth_reading(data: bytes) -> bool:
    return len(data) <= _MAX_HOST_BYTES and host.worth_reading(data)


def _constant_files(facts: Facts, sources: Iterable[str]) -> Iterable[str]:
    """Headers beside the sources, where their constants are."""
    folders = {path.rpartition("/")[0] for path in sources}
    return sorted(p for p in facts.reached
                  if p.rpartition("/")[0] in folders and p.endswith((".h", ".cuh", ".hpp")))


def build_layer(
    facts: Facts, modules: Mapping[str, JitModule], shut: frozenset[str], target: Target,
    walk: Walk, files: Files, kept: Table[Probed], known: Known | None,
) -> list[Gate]:
    """Flags that modules built for the target lack; ``shut`` modules are not built for it."""
    gates = []
    for (rule, name), lacking in sorted(facts.observer.found.items()):
        module = modules.get(name)
        if module is None or name in shut or not _builds(module, target):
            continue
        site = module.generator
        gate = _probed(lacking, site, target, walk, files, kept, known)
        if gate is not None:
            units = facts.observer.units[rule, name]
            gates.append(replace(gate, units=facts.paths(units)))
    return gates


@dataclass(frozen=True, slots=True)
class Probed:
    """A gate of the build layer, or that there is none, and what that was made from."""

    gate: Gate | None
    files: tuple[str, ...]
    made_from: str


def _probed(lacking: build.Lacking, site: Site, target: Target, walk: Walk, files: Files,
            kept: Table[Probed], known: Known | None) -> Gate | None:
    reached: set[str] = {lacking.header, lacking.launch.path}

    def made_from(paths: Sequence[str]) -> str:
        return known.of_files(paths) if known else ""

    def every(unit: TranslationUnit) -> UnitReport:
        report = walk(unit, frozenset([lacking.header]))
        reached.update(path for path in report.files if path != unit.path)
        return report

    name = f"{target.name} {lacking.rule.id} {lacking.module} {site}"
    probed = kept.peek(name) if known else None
    if probed is None or probed.made_from != made_from(probed.files):
        gate = build.gate_of(lacking, Location(site.path, site.line, site.line), site.function,
                             target, every, lambda path: files.get(path).data)
        paths = tuple(sorted(reached))
        probed = Probed(gate, paths, made_from(paths))
    kept.put(name, probed)
    return probed.gate


def with_causes(
    python: Iterable[Gate], features: Iterable[Feature],
    hardware: Callable[[Feature], tuple[Evidence, ...]], target: Target | None,
) -> list[Gate]:
    """Python gates with their modules, and with what the modules' sources say; of a module that
    names other targets than ``target`` and has no gate that says so, one of its own."""
    table = {gate.id: gate for gate in python}
    by_path: dict[str, list[Gate]] = {}
    for gate in table.values():
        if shuts(gate):
            by_path.setdefault(gate.location.path, []).append(gate)
    for feature in features:
        own = shutting_gates(feature, by_path)
        fixed = None if own or target is None else fixed_targets(feature.module, target)
        if fixed is not None:
            if fixed.id in table:  # a sibling's sources were looked at
                table[fixed.id] = _of(table[fixed.id], feature)
                continue
            own = [fixed]
        for gate in own:
            known = table.get(gate.id, gate)
            known = with_module_cause(known, hardware(feature), prebuilt_of(feature))
            table[gate.id] = _of(known, feature)
    return list(table.values())


def _of(gate: Gate, feature: Feature) -> Gate:
    return replace(gate, modules=tuple(sorted({*gate.modules, feature.module.name})))


def fixed_targets(module: JitModule, target: Target) -> Gate | None:
    """That a module's own flags are for other devices, where no gate of its build code says so.

    A build function that looks its flags up in a table has no line that says it: the function
    stands for it. Whatever the references are, the module is not built for the target.
    """
    names = {known.name for known in known_targets()}
    if not module.tabled or not names.issuperset(module.targets) or _builds(module, target):
        return None  # a target that is an argument, or that no table knows, says nothing
    site = module.generator
    passed = ArchSet(sum(1 << t.index for t in DEVICE if _builds(module, t)))
    gate = Gate(Layer.BUILD, "PY-GENCODE", Location(site.path, site.line, site.line),
                f"targets {', '.join(module.targets)}", Worlds(passed, DEVICE - passed),
                effect=Effect.FEATURE, within=site.function)
    return mark(gate, Cause.UNKNOWN, ())


def _builds(module: JitModule, target: Target) -> bool:
    """False when the module names its own targets and this capability is not among them."""
    if not module.targets:
        return True
    named = ArchSet.of(*module.targets)
    return bool(named & ArchSet.of(target.capability)) or any(
        t.suffix == "f" and t.capability.major == target.capability.major for t in named
    )
