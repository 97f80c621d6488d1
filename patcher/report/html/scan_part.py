"""What a scan found, as the compact values that the page's script unpacks."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from patcher.arch import known_targets
from patcher.gates import Evidence, Gate
from patcher.report.headline import headline
from patcher.report.html.excerpts import Excerpts, Read
from patcher.report.html.interning import Interned
from patcher.report.libraries import library_lines
from patcher.scan.features import counts, shuts
from patcher.scan.model import ModuleReport, Report

_DATA = Path(__file__).resolve().parents[2] / "data"
_UNITS = 60  # names of units that a row lists
_CLOSED, _OVER, _COUNTS, _SHUTS = 1, 2, 4, 8  # flags of a gate


def scan_part(report: Report, read: Read) -> dict[str, Any]:
    """The report with the source around its gates, as far as ``read`` finds it."""
    interned, excerpts = Interned(), Excerpts(read)
    for gate in report.gates:
        excerpts.gate(gate)
    gates = [_gate(gate, interned, excerpts) for gate in report.gates]
    places = {gate.id: number for number, gate in enumerate(report.gates)}
    modules = [_module(module, places) for module in report.modules]
    toolchain = report.toolchain
    return {
        "headline": headline(report),
        "packages": [{"name": p.name, "version": p.version, "root": str(p.root)}
                     for p in report.packages],
        "targets": [target.name for target in report.targets],
        "references": [target.name for target in report.references],
        "worlds": [target.name for target in known_targets()],
        "toolchain": f"CUDA {toolchain.version}" + (" (assumed)" if toolchain.assumed else ""),
        "counts": {"units": report.unit_count, "files": report.file_count},
        "notes": list(report.notes),
        "warnings": list(report.warnings),
        "missing": sorted({row.include for row in report.missing}),
        "libraries": [line.strip() for line in library_lines(report, everything=True)
                      if line.strip()],
        "topics": topics(),
        "rules": _rules(),
        "gates": gates,
        "modules": modules,
        "files": excerpts.files(),
        **interned.tables(),
    }


def _gate(gate: Gate, interned: Interned, excerpts: Excerpts) -> list[Any]:
    """The fields in the order in which the script reads them (``data.js``)."""
    place, worlds = gate.location, gate.worlds
    flags = (gate.excludes_target * _CLOSED | gate.over_open * _OVER
             | (gate.excludes_target and counts(gate)) * _COUNTS | shuts(gate) * _SHUTS)
    host = next((name for name in ("open", "closed", "unknown")
                 if getattr(worlds, name).host), "unreached")
    text = interned.string
    return [
        gate.id, text(gate.layer.value), text(gate.rule), text(place.path), place.line,
        place.end_line, text(gate.condition), interned.set(worlds.open),
        interned.set(worlds.closed), interned.set(worlds.unreached),
        interned.set(worlds.unknown), text(host), flags, text(gate.effect.value),
        text(gate.cause.value), text(gate.severity.value),
        [_evidence(item, interned) for item in gate.evidence],
        len(gate.units), interned.list(gate.units[:_UNITS]), interned.list(gate.modules),
        interned.list(gate.via), excerpts.chain(gate.via), list(gate.lines),
        gate.opened_by or "", text(gate.within), interned.list(gate.names),
        interned.list(gate.decided_by), list(gate.hides),
    ]


def _evidence(item: Evidence, interned: Interned) -> list[int]:
    return [interned.string(item.path), item.line, interned.string(item.text)]


def _module(module: ModuleReport, places: dict[str, int]) -> dict[str, Any]:
    return {
        "name": module.name,
        "closed": module.closed,
        "layers": [[s.layer.value, s.closed, s.summary] for s in module.layers],
        "alone": [[places[row.gate], row.result.value, row.why, list(row.functions)]
                  for row in module.opens_alone],
        "gates": [places[name] for name in module.gates],
        "functions": list(module.functions),
        "sources": list(module.sources),
        "guessed": module.guessed,
    }


@cache
def topics() -> list[dict[str, Any]]:
    """What people ask about, with the words that modules of that kind have in their names."""
    found: list[dict[str, Any]] = json.loads((_DATA / "topics.json").read_text("utf-8"))["topics"]
    return found


@cache
def _rules() -> dict[str, list[str]]:
    rows = json.loads((_DATA / "rules.json").read_text("utf-8"))["rules"]
    return {row["id"]: [row["title"], row["means"]] for row in rows}
