"""The JSON of ``scan`` and ``why``: sorted, versioned, complete."""

from __future__ import annotations

import json
from typing import Any

from patcher.gates import Evidence, Gate, Worlds
from patcher.report.text_stack import verdicts
from patcher.scan.combine import Since
from patcher.scan.model import ModuleReport, OpensAlone, Report
from patcher.scan.stack import Verdict
from patcher.scan.together import together

VERSION = 1


def render_json(report: Report, changes: Since | None = None) -> str:
    """The report as one JSON document that ends with a newline."""
    values = document(report)
    if changes is not None:
        values["baseline"] = {"new": [gate.id for gate in changes.new],
                              "gone": list(changes.gone)}
    return json.dumps(values, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def document(report: Report) -> dict[str, Any]:
    """The report as plain values."""
    toolchain = report.toolchain
    return {
        "version": VERSION,
        "packages": [
            {"name": p.name, "version": p.version, "root": str(p.root)} for p in report.packages
        ],
        "targets": [target.name for target in report.targets],
        "assumed": list(report.assumed),
        "references": [target.name for target in report.references],
        "toolchain": {
            "version": toolchain.version,
            "path": str(toolchain.path) if toolchain.path else None,
            "assumed": toolchain.assumed,
        },
        "configurations": [
            {"id": c.id, "unit": c.unit, "module": c.module, "flags": list(c.flags),
             "guessed": c.guessed}
            for c in report.configurations
        ],
        "unit_count": report.unit_count,
        "file_count": report.file_count,
        "missing": [
            {"include": m.include, "from": m.source, "line": m.line} for m in report.missing
        ],
        "libraries": [
            {"path": row.path, "kind": row.kind, "module": row.module, "codes": list(row.codes),
             "parts": row.parts, "usable": dict(row.usable), "from_ptx": dict(row.from_ptx)}
            for row in report.libraries
        ],
        "features": [_feature(verdict) for verdict in verdicts(report)],
        "modules": [_module(module) for module in report.modules],
        "used": None if report.used is None else list(report.used),
        "summary": _summary(report),
        "together": [
            {"name": row.name, "passes": [str(c) for c in row.passes],
             "gates": [gate.id for gate in row.gates]}
            for row in together(report.gates)
        ],
        "gates": [gate_document(gate) for gate in report.gates],
        "notes": list(report.notes),
        "warnings": list(report.warnings),
    }


def _feature(verdict: Verdict) -> dict[str, Any]:
    return {
        "id": verdict.feature.id, "title": verdict.feature.title, "answer": verdict.answer,
        "capability": verdict.capability, "summary": verdict.summary, "ways": list(verdict.ways),
        "places": [
            {"package": s.package, "role": s.role, "default": s.default, "path": s.path,
             "line": s.line, "name": s.name, "condition": s.condition, "cause": s.cause.value,
             "state": s.states[verdict.capability], "opened_by": s.opened_by}
            for s in verdict.sites
        ],
    }


def _summary(report: Report) -> dict[str, Any]:
    findings = report.findings
    by_severity: dict[str, int] = {}
    by_cause: dict[str, int] = {}
    for gate in findings:
        by_severity[gate.severity.value] = by_severity.get(gate.severity.value, 0) + gate.count
        by_cause[gate.cause.value] = by_cause.get(gate.cause.value, 0) + gate.count
    return {
        "findings": sum(gate.count for gate in findings),
        "rows": len(findings),
        "severity": by_severity,
        "cause": by_cause,
        "modules_closed": sum(module.closed for module in report.modules),
        "worst": report.worst().value if findings else None,
    }


def _module(module: ModuleReport) -> dict[str, Any]:
    return {
        "name": module.name,
        "layers": [
            {"layer": s.layer.value, "closed": s.closed, "summary": s.summary}
            for s in module.layers
        ],
        "opens_alone": [_opens_alone(row) for row in module.opens_alone],
        "gates": list(module.gates),
        "functions": list(module.functions),
        "sources": list(module.sources),
        "guessed": module.guessed,
        "tags": [{"tag": row.name, "minimum": row.minimum, "places": list(row.places)}
                 for row in module.tags],
    }


def _opens_alone(row: OpensAlone) -> dict[str, Any]:
    return {
        "gate": row.gate,
        "result": row.result.value,
        "why": row.why,
        "functions": list(row.functions),
        "evidence": [_evidence(item) for item in row.evidence],
    }


def _evidence(item: Evidence) -> dict[str, Any]:
    return {"path": item.path, "line": item.line, "text": item.text}


def gate_document(gate: Gate) -> dict[str, Any]:
    """One gate as plain values."""
    worlds = gate.worlds
    return {
        "id": gate.id,
        "layer": gate.layer.value,
        "rule": gate.rule,
        "path": gate.location.path,
        "line": gate.location.line,
        "end_line": gate.location.end_line,
        "lines": list(gate.lines) or [gate.location.line],
        "condition": gate.condition,
        "open": worlds.open.names,
        "closed": worlds.closed.names,
        "unreached": worlds.unreached.names,
        "unknown": worlds.unknown.names,
        "host": _host(worlds),
        "excludes_target": gate.excludes_target,
        "over_open": gate.over_open,
        "effect": gate.effect.value,
        "cause": gate.cause.value,
        "evidence": [_evidence(item) for item in gate.evidence],
        "severity": gate.severity.value,
        "count": gate.count,
        "hides": list(gate.hides),
        "units": list(gate.units),
        "modules": list(gate.modules),
        "via": list(gate.via),
        "opened_by": [gate.opened_by] if gate.opened_by else None,
        "within": gate.within,
        "names": list(gate.names),
        "decided_by": list(gate.decided_by),
    }


def _host(worlds: Worlds) -> str:
    for state in ("open", "closed", "unknown"):
        if getattr(worlds, state).host:
            return state
    return "unreached"
