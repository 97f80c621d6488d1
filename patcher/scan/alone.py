"""What happens when one gate of a feature opens and the others stay closed.

Everything follows from the gates that remain: an empty kernel body makes a
function hollow, an #error or a host check makes it fail, lost synchronisation
makes it worse than a refusal. Which functions: those whose sources reach it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patcher.gates import Cause, Effect, Evidence, Gate, Layer
from patcher.scan.model import Opening, OpensAlone

_ALL = -1  # as a set of units: every one of them
_CODE = frozenset({Layer.PREPROCESSOR, Layer.HOST})
# Before the build, or before the function's first line; other checks stand under conditions.
_REFUSING_RULES = frozenset({"PY-MAJORS", "PY-GENCODE", "BUILD-ARCHS", "PY-DECORATOR",
                             "PY-BACKENDS"})
_RANK = list(Opening)  # worst first
_EFFECTS = {
    Effect.KERNEL_BODY: (Opening.HOLLOW, "its kernel is launched, but the body is compiled away"),
    Effect.FUNCTION_BODY: (Opening.UNKNOWN, "it may call a function whose body is compiled away"),
    Effect.SYNC: (Opening.WORSE, "it runs without this synchronisation"),
    Effect.ERROR: (Opening.ERROR, "it fails there"),
    Effect.TRAP: (Opening.ERROR, "it ends in a trap there"),
    Effect.DEFINITION: (Opening.ERROR, "it lacks this definition"),
    Effect.FEATURE: (Opening.UNKNOWN, "it runs without these lines"),
    Effect.UNKNOWN: (Opening.UNKNOWN, "what these lines do is not known"),
}


@dataclass(frozen=True, slots=True)
class Use:
    """A public function and what its calls lead to.

    ``units`` are those that export what it calls, ``names`` the C++ functions
    that it may come to; ``_ALL`` and None when it could not be followed.
    """

    name: str
    units: int = _ALL
    names: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A closed gate of a feature, and the units (bits by number) it is in.

    ``certain`` is False when it is in the units' text, but perhaps never called.
    ``functions`` are those that a check stands in, empty for a gate before all.
    """

    gate: Gate
    units: int = _ALL
    certain: bool = True
    functions: tuple[str, ...] = ()

    def concerns(self, use: Use) -> bool:
        if self.functions:
            return use.name in self.functions
        if not self.units & use.units:
            return False
        inside = {name.rpartition("::")[2] for name in self.gate.names}
        inside |= {name.partition("::")[0] for name in self.gate.names}
        followed = use.names is not None and self.gate.layer in _CODE and inside
        return not followed or not inside.isdisjoint(use.names or ())


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What no gate shows but stands in the way once the module is built."""

    result: Opening
    why: str
    units: int = _ALL
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True, slots=True)
class _Outcome:
    result: Opening
    why: str
    evidence: tuple[Evidence, ...] = ()


def opens_alone(
    parts: Sequence[Part], uses: Sequence[Use], obstacles: Sequence[Obstacle] = ()
) -> tuple[OpensAlone, ...]:
    """One row per gate and outcome, with the functions that meet it."""
    rows: list[OpensAlone] = []
    for part in parts:
        remaining = [other for other in parts if other is not part]
        concerned = [use for use in uses if part.concerns(use)] or [Use("")]
        grouped: dict[_Outcome, list[str]] = {}
        for use in concerned:
            outcome = _outcome(use, remaining, obstacles)
            grouped.setdefault(outcome, []).append(use.name)
        for outcome, names in sorted(grouped.items(), key=lambda item: _RANK.index(item[0].result)):
            functions = tuple(sorted(name for name in names if name))
            rows.append(
                OpensAlone(part.gate.id, outcome.result, outcome.why, functions, outcome.evidence)
            )
    return tuple(rows)


def _outcome(use: Use, remaining: Iterable[Part], obstacles: Sequence[Obstacle]) -> _Outcome:
    """The worst of what the remaining gates do to one function."""
    outcomes: list[_Outcome] = []
    for part in remaining:
        if not part.concerns(use):
            continue
        if part.gate.rule in _REFUSING_RULES:
            return _Outcome(Opening.OK, f"nothing changes: {place(part.gate)} still refuses it")
        outcome = _of_gate(part.gate)
        if not part.certain:
            outcome = _Outcome(Opening.OK, f"{place(part.gate)} is named by none of its sources")
        outcomes.append(outcome)
    outcomes += [
        _Outcome(item.result, item.why, item.evidence)
        for item in obstacles
        if item.units & use.units
    ]
    if not any(outcome.result is not Opening.OK for outcome in outcomes):
        return _Outcome(Opening.OK, "no other gate is in its way")
    return min(outcomes, key=lambda outcome: _RANK.index(outcome.result))


def _of_gate(gate: Gate) -> _Outcome:
    result, why = _EFFECTS.get(gate.effect, (Opening.UNKNOWN, ""))
    if gate.layer is Layer.PYTHON:
        result, why = Opening.UNKNOWN, "a check inside the function may stop it"
    if gate.layer is Layer.BUILD:
        why = gate.evidence[0].text if gate.evidence else why
    if gate.layer is Layer.BINARY:
        result, why = Opening.WORSE, "a prebuilt module without code for this GPU is loaded"
    if gate.cause is Cause.HARDWARE and result is Opening.UNKNOWN:
        result, why = Opening.ERROR, "the hardware lacks what these lines use"
    shown = tuple(Evidence(gate.location.path, line, gate.condition)
                  for line in (gate.lines or (gate.location.line,))[:1])
    return _Outcome(result, f"{place(gate)}: {why}", shown)


def place(gate: Gate) -> str:
    """Where a gate is, for a sentence."""
    return f"{gate.location.path}:{gate.location.line}"


def worst(rows: Iterable[OpensAlone]) -> Opening:
    """The worst result among the rows."""
    return min((row.result for row in rows), key=_RANK.index, default=Opening.OK)
