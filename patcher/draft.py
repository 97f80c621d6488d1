"""A proposed patchset from what a scan found: only gates that are closed by software alone.

A module is proposed whole or not at all. Where another of its gates is closed
by hardware, on purpose, by prebuilt code, or for no known reason, opening the
rest would only move the failure, so it is left with that reason. Every
operation is tried on the package before it is proposed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from patcher.arch import ArchSet, Capability, Target, known_targets
from patcher.cuda.directives import normalise
from patcher.gates import Cause, Evidence, Gate, Layer, Severity
from patcher.operations.base import Outcome
from patcher.operations.cuda_guard import arms
from patcher.operations.flag import functions
from patcher.operations.region import line_of
from patcher.operations.registry import find
from patcher.package.model import Package
from patcher.patchset.schema import Count, CudaGuard, Flag, Operation, PythonGate, RelativePath
from patcher.python.index import parse
from patcher.scan.model import SHUTTING_RULES, Report
from patcher.wrong import of_gate

_NOT = {
    Cause.HARDWARE: "the hardware lacks what is behind it",
    Cause.BINARY: "its kernels are prebuilt for other devices",
    Cause.INTENDED: "its authors mean it",
    Cause.UNKNOWN: "nothing shows that it is software alone",
}


@dataclass(frozen=True, slots=True)
class Proposal:
    """One operation, the gates it opens, and why that is right."""

    operation: Operation
    gates: tuple[Gate, ...]

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return tuple(dict.fromkeys(e for gate in self.gates for e in gate.evidence))

    @property
    def shipped(self) -> tuple[str, ...]:
        """Shipped groups that open one of these gates."""
        return tuple(sorted({gate.opened_by for gate in self.gates if gate.opened_by}))


@dataclass(frozen=True, slots=True)
class DraftGroup:
    """What a module needs, all or nothing. ``functions`` are those that reach it."""

    module: str
    proposals: tuple[Proposal, ...]
    functions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Left:
    """A gate that is not proposed, and why."""

    gate: Gate
    why: str


@dataclass(frozen=True, slots=True)
class Draft:
    groups: tuple[DraftGroup, ...]
    left: tuple[Left, ...]
    open: ArchSet  # what every operation opens


def draft(report: Report, package: Package) -> Draft:
    """Propose a patchset for the targets of ``report``, a scan of ``package``.

    All capabilities of a target's major number are opened together: gates seldom
    tell them apart, and ptxas accepts the same instructions for 12.0 and 12.1.
    """
    wanted = family(report.targets)
    closed = [gate for gate in report.findings if gate.excludes_target]
    left = [Left(gate, _because(gate)) for gate in closed if gate.cause is not Cause.SOFTWARE]
    wrong = {id(gate): str(row) for gate in closed if (row := of_gate(gate, wanted))}
    left += [Left(gate, wrong[id(gate)]) for gate in closed
             if gate.cause is Cause.SOFTWARE and id(gate) in wrong]
    groups: list[DraftGroup] = []
    modules = {module.name: module for module in report.modules}
    software = [g for g in closed if g.cause is Cause.SOFTWARE and id(g) not in wrong]
    for name, gates in _by_module(software).items():
        own = [gate for gate in closed if name in gate.modules] if name else gates
        blocking = _blocking(own)
        if blocking is not None:
            why = f"{_place(blocking)} stays closed: {_because(blocking)}"
            left += [Left(gate, why) for gate in gates]
            continue
        proposals, failed = _proposals(gates, package, wanted)
        if failed:
            left += failed
            left += [Left(gate, "another gate of its module cannot be opened")
                     for proposal in proposals for gate in proposal.gates]
            continue
        functions = modules[name].functions if name in modules else ()
        groups.append(DraftGroup(name, tuple(proposals), functions))
    return Draft(tuple(groups), tuple(left), wanted)


def family(targets: Iterable[Target]) -> ArchSet:
    """Every target with the major number of one of these."""
    majors = {target.capability.major for target in targets}
    return ArchSet.of(*(t for t in known_targets() if t.capability.major in majors))


def capabilities(worlds: ArchSet) -> tuple[Capability, ...]:
    """The capabilities that these targets have, in order."""
    return tuple(sorted({target.capability for target in worlds}))


def _because(gate: Gate) -> str:
    said = next((evidence.text for evidence in gate.evidence if evidence.text), "")
    return f"{gate.cause.value}: {said}" if said else f"{gate.cause.value}: {_NOT[gate.cause]}"


def _place(gate: Gate) -> str:
    return f"{gate.location.path}:{gate.location.line}"


def _by_module(gates: Iterable[Gate]) -> dict[str, list[Gate]]:
    """Software gates by the module they are in; those that several share come first.

    A gate of several modules stands with the first of them by name.
    """
    found: dict[str, list[Gate]] = {}
    for gate in sorted(gates, key=lambda g: (min(g.modules, default=""), _place(g))):
        found.setdefault(min(gate.modules, default=""), []).append(gate)
    return found


def _blocking(own: Sequence[Gate]) -> Gate | None:
    """A gate that keeps the module shut, or empties it, for another reason than software."""
    for gate in own:
        grave = gate.severity is Severity.CRITICAL and len(gate.modules) == 1
        if gate.cause is not Cause.SOFTWARE and (gate.rule in SHUTTING_RULES or grave):
            return gate
    return None


def _proposals(gates: Sequence[Gate], package: Package, wanted: ArchSet
               ) -> tuple[list[Proposal], list[Left]]:
    """Operations for all gates of a module, and the gates that none was found for."""
    found: list[Proposal] = []
    failed: list[Left] = []
    guards: dict[tuple[str, str], list[Gate]] = {}
    for gate in gates:
        if gate.layer is Layer.PREPROCESSOR:
            guards.setdefault((gate.location.path, normalise(gate.condition)), []).append(gate)
            continue
        candidates = {Layer.PYTHON: _python, Layer.BUILD: _flags}.get(gate.layer)
        operations = candidates(gate, package, wanted) if candidates else ()
        fitting = next((o for o in operations if _fits(o, gate, package)), None)
        if fitting is None:
            failed.append(Left(gate, f"no operation opens this {gate.layer.value} gate: by hand"))
        else:
            found.append(Proposal(fitting, (gate,)))
    for (path, key), rows in guards.items():
        guard = _guard(path, key, rows, package, wanted)
        if isinstance(guard, str):
            failed += [Left(gate, guard) for gate in rows]
        else:
            found.append(Proposal(guard, tuple(rows)))
    return found, failed


def _python(gate: Gate, package: Package, wanted: ArchSet) -> Iterator[Operation]:
    """The gate by its name, as the operation knows it, then by its whole condition."""
    text = gate.condition
    names = [text.partition("=")[0].strip(), text.lstrip("@").partition("(")[0].split(".")[-1],
             text]
    for name in dict.fromkeys(names):
        yield PythonGate(file=RelativePath(gate.location.path), gate=name, within=gate.within,
                         open=wanted, count=Count(gate.count))


def _flags(gate: Gate, package: Package, wanted: ArchSet) -> Iterator[Operation]:
    """The flag in any list of flags that its function has."""
    tree = parse(package.tree.read(gate.location.path))
    names: dict[str, None] = {}
    for function in functions(tree, gate.within) if tree else ():
        for node in ast.walk(function):
            if isinstance(node, ast.keyword) and node.arg:
                names[node.arg] = None
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names[node.id] = None
    for name in names:
        if "flags" in name and ("cuda" in name or "nvcc" in name):
            yield Flag(file=RelativePath(gate.location.path), flag=gate.condition, list=name,
                       within=gate.within)


def _fits(operation: Operation, gate: Gate, package: Package) -> bool:
    """True when the operation edits lines of this gate (a flag: of its function) only."""
    finding = find(operation, package.tree)
    if finding.outcome is not Outcome.APPLICABLE:
        return False
    if isinstance(operation, Flag):
        return True
    data = package.tree.read(gate.location.path)
    lines = {line_of(data, edit.span.start) for edit in finding.edits[gate.location.path]}
    first = gate.lines or (gate.location.line,)
    height = gate.location.end_line - gate.location.line
    return all(any(at <= line <= at + height for at in first) for line in lines)


def _guard(path: str, key: str, rows: Sequence[Gate], package: Package, wanted: ArchSet
           ) -> CudaGuard | str:
    """One operation for all guards with this condition in a file; why not, when some are not
    of these gates."""
    there = [arm.line for arm in arms(package.tree.read(path)) if normalise(arm.condition) == key]
    meant = {line for gate in rows for line in (gate.lines or (gate.location.line,))}
    if set(there) - meant:
        return (f"{len(set(there) - meant)} other guards of {path} have the same condition and "
                "are not closed by software alone")
    guard = CudaGuard(file=RelativePath(path), condition=rows[0].condition,
                      count=Count(len(there)), open=wanted)
    finding = find(guard, package.tree)
    return guard if finding.outcome is Outcome.APPLICABLE else finding.reason
