"""Gates by feature: what belongs to which JIT module, layer by layer, and what opens alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from patcher import cause as causes
from patcher.arch import Target
from patcher.gates import Cause, Effect, Evidence, Gate, Layer, Severity
from patcher.profiles.base import JitModule, PublicFunction
from patcher.scan.alone import Obstacle, Part, Use, opens_alone, place
from patcher.scan.arms import members
from patcher.scan.files import Files
from patcher.scan.model import LayerState, ModuleReport, Opening
from patcher.scan.walks import Facts

_ALL_UNITS = -1


@dataclass(frozen=True)
class Feature:
    """A module with the units that compile it (bits) and the functions that reach it."""

    module: JitModule
    units: int
    functions: tuple[PublicFunction, ...]


def own_gates(feature: Feature, python: Sequence[Gate]) -> list[Gate]:
    """The Python gates that stand before a module: its own list, and its functions' checks."""
    sites = {(g.site.path, g.site.line) for g in feature.module.gates}
    names = {(f.path, f.name.rpartition(".")[2]) for f in feature.functions}
    return [
        gate for gate in python
        if any(path == gate.location.path and gate.location.line <= line <= gate.location.end_line
               for path, line in sites)
        or any((gate.location.path, part) in names for part in gate.within.split(".") if part)
    ]


def hardware_of(feature: Feature, facts: Facts, files: Files, target: Target,
                library: Sequence[str]) -> tuple[Evidence, ...]:
    """Lines of the module's own sources that hold what the target lacks.

    Own: the sources themselves, and headers of the package that every one of
    its units reaches and no unit of another module does; never a ``library``
    (vendored code that all kinds of targets include).
    """
    sources = {facts.units[n].path for n in members(feature.units)}
    others = facts_of_others(feature, facts)
    own = [
        path for path, units in facts.reached.items()
        if (path in sources or (units & feature.units and not units & others))
        and not any(part in path for part in library)
    ]
    for path in sorted(own, key=lambda p: (p not in sources, p)):
        file = files.get(path)
        evidence = causes.rejected(path, sorted(file.hits), file.hits, file.code_lines, target)
        if evidence:
            return evidence
    return ()


def facts_of_others(feature: Feature, facts: Facts) -> int:
    """The units that are not this feature's."""
    return ((1 << len(facts.units)) - 1) & ~feature.units


def report_of(
    feature: Feature, gates: Sequence[Gate], units: Mapping[str, int], facts: Facts,
    obstacles: Sequence[Obstacle] = (),
) -> ModuleReport:
    """A module's report from the gates that belong to it; ``units`` are theirs by id."""
    parts = [
        Part(gate, units.get(gate.id, _ALL_UNITS))
        for gate in gates
        if gate.excludes_target and _counts(gate)
    ]
    uses = _uses(feature, facts)
    everything = list(obstacles)
    if facts.incomplete & feature.units:
        everything.append(Obstacle(Opening.UNKNOWN, "headers of its units were not found",
                                   facts.incomplete))
    return ModuleReport(
        feature.module.name,
        layer_states(feature, gates),
        opens_alone(parts, uses, everything) if feature.units or parts else (),
        tuple(gate.id for gate in gates),
        tuple(sorted({f.name for f in feature.functions})),
        feature.module.sources,
        feature.module.guessed,
    )


def _counts(gate: Gate) -> bool:
    """Library fallbacks for other hardware are no part of what a feature lacks."""
    return gate.layer is not Layer.PREPROCESSOR or gate.severity is not Severity.INFO


def _uses(feature: Feature, facts: Facts) -> list[Use]:
    by_path: dict[str, int] = {}
    for number in members(feature.units):
        path = facts.units[number].path
        by_path[path] = by_path.get(path, 0) | 1 << number
    uses = []
    for function in feature.functions:
        units = 0
        for source in function.sources:
            units |= by_path.get(source, 0)
        uses.append(Use(function.name, units or _ALL_UNITS))
    return uses


def layer_states(feature: Feature, gates: Sequence[Gate]) -> tuple[LayerState, ...]:
    """Every layer of a module in words, open ones too."""
    states = []
    for layer in Layer:
        closed = [g for g in gates if g.layer is layer and g.excludes_target]
        grave = [g for g in closed if _counts(g)]
        states.append(LayerState(layer, sum(g.count for g in grave), _words(layer, feature, grave)))
    return tuple(states)


def _words(layer: Layer, feature: Feature, closed: Sequence[Gate]) -> str:
    if layer is Layer.PREPROCESSOR and closed:
        counts: dict[Effect, int] = {}
        for gate in closed:
            counts[gate.effect] = counts.get(gate.effect, 0) + gate.count
        listed = ", ".join(f"{n} {effect.value}" for effect, n in counts.items())
        return f"{sum(counts.values())} closed: {listed}"
    if closed:
        shown = "; ".join(f"{place(g)} {g.condition}" for g in closed[:2])
        more = f" and {len(closed) - 2} more" if len(closed) > 2 else ""
        return f"closed: {shown}{more}"
    if layer is Layer.BINARY:
        return "no prebuilt module in the way"
    if layer is Layer.PYTHON and not feature.module.gates:
        return "no list of architectures"
    return "open"


def with_module_cause(gate: Gate, evidence: tuple[Evidence, ...]) -> Gate:
    """A module's Python gate whose cause the module's own sources show."""
    if gate.cause is not Cause.UNKNOWN or not evidence:
        return gate
    return replace(gate, cause=Cause.HARDWARE, evidence=evidence,
                   severity=causes.severity(gate.effect, Cause.HARDWARE))
