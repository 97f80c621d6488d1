"""Gates by feature: what belongs to which JIT module, layer by layer, and what opens alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from patcher import cause as causes
from patcher.arch import Target
from patcher.cuda.effects.calls import CallGraph, exported
from patcher.gates import Cause, Effect, Evidence, Gate, Layer, Severity
from patcher.instructions import Verdict
from patcher.profiles.base import JitModule, PublicFunction
from patcher.scan.alone import Obstacle, Part, Use, opens_alone, place
from patcher.scan.arms import members
from patcher.scan.files import Files
from patcher.scan.model import SHUTTING_RULES, LayerState, ModuleReport, Opening, is_library
from patcher.scan.walks import Facts

_ALL_UNITS = -1


@dataclass(frozen=True)
class Feature:
    """A module with the units that compile it (bits) and the functions that reach it.

    ``functions`` is empty, too, where they were not looked for.
    """

    module: JitModule
    units: int
    functions: tuple[PublicFunction, ...] = ()


def shutting_gates(feature: Feature, python: Mapping[str, Sequence[Gate]]) -> list[Gate]:
    """The gates (by file) that decide whether a module is built: its list, or its own flags."""
    generator = feature.module.generator
    found = []
    for site in feature.module.gates:
        found += [gate for gate in python.get(site.site.path, ())
                  if gate.location.line <= site.site.line <= gate.location.end_line]
    found += [gate for gate in python.get(generator.path, ())
              if gate.layer is Layer.BUILD and generator.function in gate.within.split(".")]
    return list({gate.id: gate for gate in found}.values())


def with_checks(gates: Sequence[Gate], features: Sequence[Feature]) -> list[Gate]:
    """Checks inside public functions belong to the modules that these functions reach."""
    modules: dict[tuple[str, str], set[str]] = {}
    for feature in features:
        for function in feature.functions:
            key = (function.path, function.name.rpartition(".")[2])
            modules.setdefault(key, set()).add(feature.module.name)
    result = []
    for gate in gates:
        if gate.layer is Layer.PYTHON and not shuts(gate):
            names = set(gate.modules).union(
                *(modules.get((gate.location.path, part), ()) for part in gate.within.split("."))
            )
            gate = replace(gate, modules=tuple(sorted(names)))
        result.append(gate)
    return result


def hardware_of(feature: Feature, facts: Facts, files: Files, target: Target,
                ) -> tuple[Evidence, ...]:
    """Lines of the module's own sources that show that it is made for other hardware.

    Own: the sources themselves, and headers that only its units reach; never
    vendored code, which units of every target include. Such a line holds what
    the target lacks; or all kernels that are named are for other targets.
    """
    sources = {facts.units[n].path for n in members(feature.units)}
    others = ((1 << len(facts.units)) - 1) & ~feature.units
    own = sorted(
        (path for path, units in facts.reached.items()
         if (path in sources or (units & feature.units and not units & others))
         and not is_library(path)),
        key=lambda path: (path not in sources, path),
    )
    for path in own:
        file = files.get(path)
        evidence = causes.rejected(path, sorted(file.hits), file.hits, file.code_lines, target)
        if evidence:
            return evidence
    return _tags(own, files, target)


def _tags(own: Sequence[str], files: Files, target: Target) -> tuple[Evidence, ...]:
    """The names of kernels for other targets, if no kernel that would run is named."""
    found: list[Evidence] = []
    for path in own:
        file = files.get(path)
        for line, hits in sorted(file.hits.items()):
            verdicts = {h.marker.verdict(target) for h in hits if h.marker.weak}
            if verdicts - {Verdict.REJECTED}:
                return ()
            if verdicts and len(found) < 3:
                found.append(Evidence(path, line, file.text(line)))
    return tuple(found)


def prebuilt_of(feature: Feature) -> tuple[Evidence, ...]:
    """The flag by which a module says that it loads prebuilt kernels."""
    site = feature.module.generator
    return tuple(Evidence(site.path, site.line, flag) for flag in feature.module.flags
                 if "CUBIN" in flag)[:1]


def report_of(
    feature: Feature, gates: Sequence[Gate], units: Mapping[str, int], facts: Facts, files: Files,
    target: Target,
) -> ModuleReport:
    """A module's report from the gates that belong to it; ``units`` are theirs by id."""
    parts = [
        Part(gate, units.get(gate.id, _ALL_UNITS), is_certain(gate, feature, facts, files),
             () if shuts(gate) or gate.layer is not Layer.PYTHON else _functions(gate, feature))
        for gate in gates
        if gate.excludes_target and counts(gate)
    ]
    obstacles = _undecided(feature, facts, target)
    code = any(part.gate.layer in (Layer.PREPROCESSOR, Layer.HOST) for part in parts)
    uses = _uses(feature, facts, files, follow=code) if parts else []
    return ModuleReport(
        feature.module.name,
        layer_states(feature, gates),
        opens_alone(parts, uses, obstacles),
        tuple(gate.id for gate in gates),
        tuple(sorted({f.name for f in feature.functions})),
        feature.module.sources,
        feature.module.guessed,
        any(gate.excludes_target and shuts(gate) for gate in gates),
    )


def _undecided(feature: Feature, facts: Facts, target: Target) -> list[Obstacle]:
    """Conditions in the module's code that nothing here decides (a header is missing)."""
    units, arms = facts.undecided(target)
    if not units & feature.units:
        return []
    first = next(arm for arm in arms if arm.units & feature.units)
    names = ", ".join(first.state.decided_by[:3]) or "a header that is missing"
    why = f"{first.path}:{first.line} is undecided: it depends on {names}"
    return [Obstacle(Opening.UNKNOWN, why, units & feature.units)]


def _functions(gate: Gate, feature: Feature) -> tuple[str, ...]:
    """The public functions that a check inside one of them stops."""
    parts = gate.within.split(".")
    return tuple(f.name for f in feature.functions if f.name.rpartition(".")[2] in parts)


def shuts(gate: Gate) -> bool:
    """True for a gate that decides whether a whole module is built for the target."""
    return gate.rule in SHUTTING_RULES


def counts(gate: Gate) -> bool:
    """False for what says nothing about one feature: vendored code, and fallbacks."""
    if gate.layer is not Layer.PREPROCESSOR:
        return gate.effect is not Effect.ALTERNATIVE
    lost = gate.effect in (Effect.SYNC, Effect.KERNEL_BODY)
    return gate.severity is not Severity.INFO and (lost or not is_library(gate.location.path))


def is_certain(gate: Gate, feature: Feature, facts: Facts, files: Files) -> bool:
    """True when the module is known to come to the gate.

    A kernel that a unit holds is launched by it; a device function, or a host
    function of a header, only where some source of the module names it.
    """
    path = gate.location.path
    if gate.effect is Effect.KERNEL_BODY or gate.layer in (Layer.PYTHON, Layer.BUILD, Layer.BINARY):
        return True
    if gate.layer is Layer.HOST and path in feature.module.sources:
        return True
    names = [name.rpartition("::")[2].encode() for name in gate.names]
    if gate.layer is Layer.HOST:  # a constructor is named by its class
        names = [name.split("::")[0].encode() for name in gate.names]
    if not names:
        return True
    calls = re.compile(rb"\b(?:" + b"|".join(map(re.escape, names)) + rb")\b")
    own = (files.get(p) for p, reached in facts.reached.items()
           if reached & feature.units and not is_library(p) and p != path)
    return any(calls.search(file.code) for file in own if calls.search(file.data))


def _uses(feature: Feature, facts: Facts, files: Files, *, follow: bool) -> list[Use]:
    """The functions with the units behind them and, to ``follow``, the names they come to."""
    by_path: dict[str, int] = {}
    for number in members(feature.units):
        path = facts.units[number].path
        by_path[path] = by_path.get(path, 0) | 1 << number
    graphs: dict[int, CallGraph] = {}
    uses = []
    for function in feature.functions:
        units = 0
        for source in function.sources:
            units |= by_path.get(source, 0)
        if not units or not follow:
            uses.append(Use(function.name, units or _ALL_UNITS))
            continue
        if units not in graphs:
            graphs[units] = _graph(units, facts, files)
        start = [exported(files.get(source).code, binding)
                 for source in function.sources for binding in function.bindings]
        uses.append(Use(function.name, units, graphs[units].reached(start)))
    return uses


def _graph(units: int, facts: Facts, files: Files) -> CallGraph:
    """The calls in the package's own code that these units reach."""
    own = [path for path, reached in facts.reached.items()
           if reached & units and not is_library(path)]
    own += sorted({facts.units[n].path for n in members(units)} - set(own))
    return CallGraph.of(files.get(path).bodies for path in sorted(own))


def layer_states(feature: Feature, gates: Sequence[Gate]) -> tuple[LayerState, ...]:
    """Every layer of a module in words, open ones too."""
    states = []
    for layer in Layer:
        closed = [g for g in gates if g.layer is layer and g.excludes_target]
        grave = [g for g in closed if counts(g)]
        states.append(LayerState(layer, sum(g.count for g in grave), _words(layer, feature, grave)))
    return tuple(states)


def _words(layer: Layer, feature: Feature, closed: Sequence[Gate]) -> str:
    if layer is Layer.PREPROCESSOR and closed:
        counts: dict[Effect, int] = {}
        for gate in closed:
            counts[gate.effect] = counts.get(gate.effect, 0) + gate.count
        listed = ", ".join(f"{n} {effect.value}" for effect, n in counts.items())
        return f"{sum(counts.values())} closed: {listed}"
    if layer is Layer.PYTHON and closed and not any(shuts(g) for g in closed):
        places = ", ".join(place(g) for g in closed[:2]) + (", ..." if len(closed) > 2 else "")
        return f"open; checks inside functions: {places}"
    if closed:
        shown = "; ".join(f"{place(g)} {g.condition}" for g in closed[:2])
        more = f" and {len(closed) - 2} more" if len(closed) > 2 else ""
        return f"closed: {shown}{more}"
    if layer is Layer.BINARY:
        return "no prebuilt module in the way"
    if layer is Layer.PYTHON and not feature.module.gates:
        return "no list of architectures"
    return "open"


def with_module_cause(
    gate: Gate, hardware: tuple[Evidence, ...], prebuilt: tuple[Evidence, ...]
) -> Gate:
    """A module's Python gate whose cause the module's own sources or flags show."""
    if gate.cause is not Cause.UNKNOWN or not (hardware or prebuilt):
        return gate
    cause = Cause.HARDWARE if hardware else Cause.BINARY
    return replace(gate, cause=cause, evidence=hardware or prebuilt,
                   severity=causes.severity(gate.effect, cause))
