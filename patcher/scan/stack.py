"""Features that several packages decide together: where each package opens or closes them.

Which places belong to a feature is data (``data/features.json``). A package's scan notes
its places; ``judged`` puts those of all packages side by side.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from patcher.arch import Target
from patcher.gates import Cause, Effect, Gate, Layer
from patcher.profiles.base import JitModule
from patcher.scan.model import SHUTTING_RULES, FeatureSite, LibraryRow

_DATA = Path(__file__).parent.parent / "data" / "features.json"
_NEAR = 8  # lines of a gate in which a feature may be named
OPEN, CLOSED, FALLBACK = "open", "closed", "fallback"


@dataclass(frozen=True, slots=True)
class Part:
    """What belongs to a feature in one package: regular expressions, empty for nothing."""

    modules: str = ""
    libraries: str = ""
    words: str = ""
    defaults: str = ""
    off: str = ""
    together: str = ""  # a shipped patchset that opens it here and in the callee at once


@dataclass(frozen=True, slots=True)
class FeatureRule:
    """A feature, the package whose kernels it calls, and its part in each package."""

    id: str
    title: str
    calls: str
    symptom: str
    needs: str
    single: bool  # there is no other way than through all of its gates
    parts: Mapping[str, Part]


@cache
def feature_rules() -> tuple[FeatureRule, ...]:
    """Every feature of the table."""
    rows: list[dict[str, Any]] = json.loads(_DATA.read_text("utf-8"))["features"]
    return tuple(FeatureRule(row["id"], row["title"], row["calls"], row.get("symptom", ""),
                             row.get("needs", ""), row.get("single", False),
                             {name: Part(**part) for name, part in row["packages"].items()})
                 for row in rows)


@dataclass(frozen=True)
class Material:
    """One package's scan as far as features need it; ``closer`` names a group that shuts a gate."""

    package: str
    targets: Sequence[Target]
    references: Sequence[Target]
    python: Sequence[Gate]  # all of them, open ones too
    gates: Mapping[str, Gate]  # the judged ones by id
    modules: Sequence[JitModule]
    libraries: Sequence[LibraryRow]
    read: Callable[[str], bytes]
    closer: Callable[[Gate], str | None]


def sites_of(material: Material) -> tuple[FeatureSite, ...]:
    """The places of one package at which a feature is decided."""
    found: list[FeatureSite] = []
    for rule in feature_rules():
        part = rule.parts.get(material.package)
        if part is not None:
            found += _modules(rule, part, material)
            found += _libraries(rule, part, material)
            found += _python(rule, part, material)
    return tuple(found)


def _modules(rule: FeatureRule, part: Part, material: Material) -> Iterator[FeatureSite]:
    pattern = re.compile(part.modules) if part.modules else None
    for module in material.modules if pattern else ():
        if pattern is None or not pattern.search(module.name):
            continue
        shut = [g for g in material.gates.values()
                if module.name in g.modules and g.rule in SHUTTING_RULES
                # fixed codes that stand beside it are another variant's when it has none itself
                and (g.rule != "PY-GENCODE" or module.targets)]
        states = {str(t.capability): CLOSED if any(t in g.worlds.closed for g in shut) else OPEN
                  for t in material.targets}
        closing = next((g for g in shut if any(t in g.worlds.closed for t in material.targets)),
                       None)
        site = module.generator
        yield FeatureSite(
            rule.id, material.package, "kernel", False,
            closing.location.path if closing else site.path,
            closing.location.line if closing else site.line, module.name,
            closing.condition if closing else "", states,
            closing.cause if closing else Cause.UNKNOWN, closing.opened_by if closing else None)


def _libraries(rule: FeatureRule, part: Part, material: Material) -> Iterator[FeatureSite]:
    for row in material.libraries:
        if part.libraries and row.kind == "prebuilt" and re.search(part.libraries, row.path):
            states = {str(t.capability): OPEN if row.usable[t.name] else CLOSED
                      for t in material.targets}
            yield FeatureSite(rule.id, material.package, "library", False, row.path, 0, row.module,
                              f"holds {' '.join(row.codes)}", states, Cause.BINARY, None)


def _python(rule: FeatureRule, part: Part, material: Material) -> Iterator[FeatureSite]:
    if not part.words:
        return
    words = re.compile(part.words)
    defaults = re.compile(part.defaults) if part.defaults else None
    for gate in material.python:
        if gate.layer is not Layer.PYTHON or not _is_about(gate, words, material.read):
            continue
        is_default = bool(defaults and defaults.search(gate.within))
        states = {str(t.capability): state(gate, t) for t in material.targets}
        passes = gate.worlds.open | gate.worlds.unknown
        asked = any(reference in passes for reference in material.references)
        if asked and (is_default or any(s != OPEN for s in states.values())):
            known = material.gates.get(gate.id, gate)
            yield FeatureSite(
                rule.id, material.package, "gate", is_default, gate.location.path,
                gate.location.line, gate.within, gate.condition, states, known.cause,
                known.opened_by, material.closer(gate) if is_default else None)


def state(gate: Gate, target: Target) -> str:
    """What a gate does to a target; unknown worlds are undecided by something else than it."""
    if target not in gate.worlds.closed:
        return OPEN
    return FALLBACK if gate.effect is Effect.ALTERNATIVE else CLOSED


def _is_about(gate: Gate, words: re.Pattern[str], read: Callable[[str], bytes]) -> bool:
    if any(words.search(text) for text in (gate.location.path, gate.within, gate.condition)):
        return True
    lines = read(gate.location.path).splitlines()
    first = gate.location.line - 1
    near = lines[first:min(gate.location.end_line, first + _NEAR)]
    return bool(words.search(b"\n".join(near).decode("utf-8", "replace")))


@dataclass(frozen=True, slots=True)
class Verdict:
    """A feature for one device over all scanned packages.

    ``answer`` is wider (a caller turns on what its callee refuses), narrower (a caller
    refuses what its callee would run), closed, partly or open; ``ways`` are ways out.
    """

    feature: FeatureRule
    capability: str
    answer: str
    summary: str
    sites: tuple[FeatureSite, ...]
    ways: tuple[str, ...]


def judged(sites: Iterable[FeatureSite], capabilities: Iterable[str]) -> Iterator[Verdict]:
    """One verdict for each feature and device of which some package knows something."""
    held = tuple(sites)
    for rule in feature_rules():
        own = [site for site in held if site.feature == rule.id]
        for capability in capabilities:
            here = [site for site in own if capability in site.states]
            if here:
                yield _verdict(rule, capability, here)


def _verdict(rule: FeatureRule, capability: str, sites: Sequence[FeatureSite]) -> Verdict:
    kernels = [s for s in sites if s.role == "kernel" and s.package == rule.calls]
    callers = [s for s in sites if s.package != rule.calls]
    refused = bool(kernels) and all(s.states[capability] == CLOSED for s in kernels)
    asks = [s for s in callers if s.default]
    hesitant = {s.package for s in asks if s.states[capability] != OPEN}
    wide = [s for s in asks if s.package not in hesitant]
    shut = [s for s in callers if s.states[capability] == CLOSED]
    fallback = [s for s in callers if s.states[capability] == FALLBACK]
    answer, summary = _answer(rule, kernels, refused, wide, shut, fallback)
    shown = (*(kernels if refused else ()), *(wide if refused else ()), *shut, *fallback)
    return Verdict(rule, capability, answer, summary, shown,
                   tuple(dict.fromkeys(_ways(rule, answer, shown))))


def _answer(rule: FeatureRule, kernels: Sequence[FeatureSite], refused: bool,
            wide: Sequence[FeatureSite], shut: Sequence[FeatureSite],
            fallback: Sequence[FeatureSite]) -> tuple[str, str]:
    names = dict.fromkeys(s.package for s in (wide or shut or fallback))
    callers, s = " and ".join(names), "s" if len(names) == 1 else ""
    if shut and all(site.role == "library" for site in shut) and not refused:
        return "closed", f"the prebuilt libraries of {callers} hold no code for it"
    if refused and wide:
        return "wider", f"{callers} turn{s} it on, {rule.calls} refuses it"
    if refused:
        who = f", {callers} do{'es' if s else ''} not ask for it" if shut or fallback else ""
        return "closed", f"{rule.calls} has no kernels for it{who}"
    if rule.single and kernels and shut and not wide:
        return "narrower", (f"{rule.calls} builds kernels for it, {callers} refuse{s} it in "
                            f"{_count(shut)}")
    if shut:  # there may be other ways that none of these places decides
        return "partly", f"{callers} refuse{s} it in {_count(shut)}"
    if fallback:
        return "partly", f"{callers} take{s} another way in {_count(fallback)}"
    return "open", "nothing that is known keeps it out"


def _count(sites: Sequence[FeatureSite]) -> str:
    return "one place" if len(sites) == 1 else f"{len(sites)} places"


def _ways(rule: FeatureRule, answer: str, sites: Sequence[FeatureSite]) -> Iterator[str]:
    """How to open what is closed; for a caller that is wider also how to close it."""
    for site in sites:
        if site.opened_by:
            patchset, _, group = site.opened_by.partition("/")
            yield f"open {site.package}: sm-patch apply {patchset} --group {group}"
    opened = sorted({site.package for site in sites if site.opened_by})
    for package in opened:
        if len(opened) > 1 and rule.parts[package].together:
            yield f"or all of it in one transaction: sm-patch apply {rule.parts[package].together}"
    if answer != "wider":
        return
    for site in sites:
        if site.default:
            off = rule.parts[site.package].off
            if off:
                yield f"or turn it off in {site.package}: {off}"
            elif site.closed_by:
                patchset, _, group = site.closed_by.partition("/")
                yield (f"or keep {site.package} from asking: sm-patch apply {patchset} --group "
                       f"{group}")
            else:
                yield (f"or keep {site.package} from asking: a python-gate patch that closes "
                       f"{site.path}:{site.line} for this GPU")
