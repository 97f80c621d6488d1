"""A draft as a patchset's text, its evidence in comments, and what was left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from patcher.draft import Draft, DraftGroup, Left, Proposal, capabilities
from patcher.package.model import Package
from patcher.patchset.schema import CudaGuard, Flag, PythonGate

_SHOWN = 200  # gates that are listed as left out


def to_yaml(draft: Draft, package: Package, name: str) -> str:
    """The patchset; empty when nothing is proposed."""
    if not draft.groups:
        return ""
    archs = " ".join(str(c) for c in capabilities(draft.open))
    lines = [f"# Drafted for {package.name} {package.version}: gates that software alone closes.",
             "# Read every patch, then: sm-patch diff, and sm-patch verify for its module.",
             "sm-patch: 1", f"name: {name}",
             f"summary: {_quoted(f'Open {package.name} for {archs}')}",
             f"package: {package.name}",
             f"archs: [{', '.join(t.name for t in draft.open if t.suffix)}]", "groups:"]
    for group in draft.groups:
        lines += _group(group, draft, package)
    return "\n".join(lines) + "\n"


def _group(group: DraftGroup, draft: Draft, package: Package) -> Iterator[str]:
    name = _identifier(group.module or "package")
    yield f"  - id: {name}"
    summary = f"the module {group.module}" if group.module else "checks outside of any module"
    yield f"    summary: {_quoted(summary)}"
    if group.functions:
        yield f"    why: {_quoted(', '.join(group.functions) + ' reach it')}"
    yield "    default: false"
    yield "    risk: high"
    yield f"    versions: {_quoted(f'=={package.version}')}"
    for shipped in sorted({s for p in group.proposals for s in p.shipped}):
        yield f"    # shipped already: {shipped}"
    yield "    patches:"
    for number, proposal in enumerate(group.proposals, 1):
        yield from _patch(proposal, draft, number)


def _patch(proposal: Proposal, draft: Draft, number: int) -> Iterator[str]:
    for gate in proposal.gates:
        at = ", ".join(map(str, gate.lines or (gate.location.line,)))
        yield f"      # {gate.layer.value}, {gate.effect.value}, line {at}"
    for evidence in proposal.evidence[:6]:
        yield f"      # {evidence.where}: {_plain(evidence.text)}"
    operation = proposal.operation
    kind = {PythonGate: "python-gate", CudaGuard: "cuda-guard", Flag: "flag"}[type(operation)]
    yield f"      - id: {kind}-{number}"
    if isinstance(operation, Flag):
        yield "        affects: all"
        yield "        reason: a flag reaches every target of its module"
    yield f"        {kind}:"
    for key, value in _fields(operation, draft).items():
        yield f"          {key}: {value}"


def _fields(operation: object, draft: Draft) -> dict[str, Any]:
    opened = "[" + ", ".join(f'"{c}"' for c in capabilities(draft.open)) + "]"
    if isinstance(operation, Flag):
        return {"file": operation.file, "within": _quoted(operation.within),
                "list": operation.list, "flag": _quoted(operation.flag)}
    if isinstance(operation, CudaGuard):
        return {"file": operation.file, "condition": _quoted(" ".join(operation.condition.split())),
                "count": operation.count, "open": opened}
    assert isinstance(operation, PythonGate)
    fields = {"file": operation.file, "gate": _quoted(operation.gate)}
    if operation.within:
        fields["within"] = _quoted(operation.within)
    return {**fields, "count": operation.count, "open": opened}


def _quoted(text: str) -> str:
    """A YAML double-quoted scalar is a JSON string."""
    return json.dumps(text, ensure_ascii=False)


def _plain(text: str) -> str:
    return " ".join(text.split())[:160]


def _identifier(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "package"


def left_lines(draft: Draft) -> Iterator[str]:
    """Every gate that is not proposed, one line each, and how many more there are."""
    for item in draft.left[:_SHOWN]:
        gate = item.gate
        yield (f"{gate.location.path}:{gate.location.line} {_plain(gate.condition)[:80]}: "
               f"{_plain(item.why)}")
    if len(draft.left) > _SHOWN:
        yield f"and {len(draft.left) - _SHOWN} more"


def to_json(draft: Draft, package: Package, text: str) -> str:
    return json.dumps({
        "version": 1, "package": {"name": package.name, "version": package.version},
        "open": [str(c) for c in capabilities(draft.open)], "patchset": text,
        "groups": [{"module": group.module, "functions": list(group.functions),
                    "gates": [gate.id for p in group.proposals for gate in p.gates],
                    "shipped": sorted({s for p in group.proposals for s in p.shipped})}
                   for group in draft.groups],
        "left": [_left(item) for item in draft.left],
    }, indent=2, sort_keys=True)


def _left(item: Left) -> dict[str, Any]:
    gate = item.gate
    return {"gate": gate.id, "path": gate.location.path, "line": gate.location.line,
            "condition": gate.condition, "cause": gate.cause.value, "why": item.why}
