"""The layers beside the preprocessor: Python, host, build and binary gates of a package."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from patcher import build, host
from patcher import cause as causes
from patcher.arch import DEVICE, ArchSet, Target
from patcher.cuda.model import TranslationUnit, UnitReport
from patcher.errors import InputError
from patcher.gates import Cause, Effect, Evidence, Gate, Layer, Location, Severity, Worlds
from patcher.profiles.base import JitModule
from patcher.scan.files import Files, is_library
from patcher.scan.walks import Facts, Walk

SHUTTING_RULES = frozenset({"PY-MAJORS", "PY-GENCODE"})  # they decide about a whole module
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
    from patcher.python.find import hardware_only

    gates = []
    for gate in found:
        if excludes(gate, targets, references):
            cause, evidence = gate.cause, gate.evidence
            if cause is Cause.HARDWARE and not hardware_only(gate, targets):
                cause, evidence = Cause.UNKNOWN, ()
            effect = Effect.FEATURE if gate.effect is Effect.UNKNOWN else gate.effect
            gates.append(mark(replace(gate, effect=effect), cause, evidence))
    return gates


def host_layer(
    facts: Facts, files: Files, targets: Sequence[Target], references: Sequence[Target]
) -> list[Gate]:
    """Run-time checks in the sources that some unit reaches."""
    sources: dict[str, bytes] = {}
    for path in sorted(facts.reached):
        if path.endswith(_SOURCES) and not is_library(path):
            data = files.get(path).data
            if len(data) <= _MAX_HOST_BYTES and host.worth_reading(data):
                sources[path] = data
    known = host.constants(files.get(path).data for path in _constant_files(facts, sources))
    gates = []
    for path, data in sources.items():
        for gate in host.find_host_gates(path, data, known):
            if excludes(gate, targets, references):
                units = facts.reached[path]
                gate = replace(gate, units=facts.paths(units), modules=facts.modules(units))
                evidence = causes.prebuilt(path, files.get(path).code)
                gates.append(mark(gate, Cause.BINARY if evidence else Cause.UNKNOWN, evidence))
    return gates


def _constant_files(facts: Facts, sources: Mapping[str, bytes]) -> Iterable[str]:
    """Headers beside the sources, where their constants are."""
    folders = {path.rpartition("/")[0] for path in sources}
    return sorted(p for p in facts.reached
                  if p.rpartition("/")[0] in folders and p.endswith((".h", ".cuh", ".hpp")))


def build_layer(
    facts: Facts, modules: Mapping[str, JitModule], shut: frozenset[str], target: Target,
    walk: Walk, files: Files,
) -> list[Gate]:
    """Flags that modules built for the target lack; ``shut`` modules are not built for it."""

    def every(unit: TranslationUnit) -> UnitReport:
        return walk(unit, True)

    gates = []
    for (rule, name), lacking in sorted(facts.observer.found.items()):
        module = modules.get(name)
        if module is None or name in shut or not _builds(module, target):
            continue
        site = module.generator
        gate = build.gate_of(lacking, Location(site.path, site.line, site.line), site.function,
                             target, every, lambda path: files.get(path).data)
        if gate is not None:
            units = facts.observer.units[rule, name]
            gates.append(replace(gate, units=facts.paths(units)))
    return gates


def _builds(module: JitModule, target: Target) -> bool:
    """False when the module names its own targets and this capability is not among them."""
    if not module.targets:
        return True
    named = ArchSet.of(*module.targets)
    return bool(named & ArchSet.of(target.capability)) or any(
        t.suffix == "f" and t.capability.major == target.capability.major for t in named
    )


def binary_layer(
    folders: Iterable[str], modules: Sequence[JitModule], root: Path, target: Target
) -> list[Gate]:
    """Prebuilt modules that win over their source and hold no code for the target."""
    from patcher.binary.fatbin import covers, gpu_code, targets_of

    gates = []
    for library in _libraries(root, folders):
        named = [m for m in modules if m.uri and re.fullmatch(m.uri, library.parent.name)]
        if not named:
            continue
        try:
            codes = gpu_code(library)
        except (InputError, OSError):
            continue
        if codes and not covers(codes, target):
            gates.append(_prebuilt(library, root, named[0], targets_of(codes), target))
    return gates


def _libraries(root: Path, folders: Iterable[str]) -> Iterator[Path]:
    """``MODULE/*.so`` below each folder, sorted."""
    for folder in folders:
        for path in sorted((root / folder).glob("*/*.so")):
            yield path


def _prebuilt(
    library: Path, root: Path, module: JitModule, holds: Sequence[str], target: Target
) -> Gate:
    path = library.relative_to(root).as_posix() if library.is_relative_to(root) else str(library)
    text = f"holds {' '.join(holds)}, nothing for {target}"
    passed = ArchSet.of(*(name for name in holds if name.startswith("sm_")))
    return Gate(
        Layer.BINARY, "prebuilt-module", Location(path, 0, 0), f"code for {' '.join(holds)}",
        Worlds(open=passed, closed=DEVICE - passed), excludes_target=True,
        effect=Effect.FEATURE, cause=Cause.BINARY, severity=Severity.WARNING,
        evidence=(Evidence(path, 0, text),), modules=(module.name,),
    )
