"""Several reports as one, parts of a report, and what is new since an older one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patcher.errors import InputError
from patcher.gates import Gate
from patcher.scan.model import Report


def combine(reports: Sequence[Report]) -> Report:
    """The reports of several packages as one, in their order."""
    first = reports[0]
    if len(reports) == 1:
        return first
    return replace(
        first,
        packages=tuple(p for r in reports for p in r.packages),
        targets=tuple(dict.fromkeys(t for r in reports for t in r.targets)),
        assumed=tuple(dict.fromkeys(a for r in reports for a in r.assumed)),
        gates=tuple(g for r in reports for g in r.gates),
        modules=tuple(m for r in reports for m in r.modules),
        configurations=tuple(c for r in reports for c in r.configurations),
        unit_count=sum(r.unit_count for r in reports),
        file_count=sum(r.file_count for r in reports),
        missing=tuple(m for r in reports for m in r.missing),
        libraries=tuple(row for r in reports for row in r.libraries),
        sites=tuple(site for r in reports for site in r.sites),
        notes=tuple(n for r in reports for n in r.notes),
        warnings=tuple(w for r in reports for w in r.warnings),
        applied={name: groups for r in reports for name, groups in r.applied.items()},
        details={k: v for r in reports for k, v in r.details.items()},
    )


@dataclass(frozen=True, slots=True)
class Since:
    """Findings that an older report did not have, and ids that are gone."""

    new: tuple[Gate, ...]
    gone: tuple[str, ...]


def since(report: Report, baseline: Path) -> Since:
    """Compare the findings with those of an older scan's JSON.

    Raises InputError when the file is no such document.
    """
    try:
        document = json.loads(baseline.read_text("utf-8"))
        old = {gate["id"]: (gate["excludes_target"], gate["over_open"])
               for gate in document["gates"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"not the JSON of a scan: {error}", where=str(baseline),
                         next_step="write one with `sm-patch scan --format json`") from error
    now = {gate.id: gate for gate in report.findings}
    new = tuple(g for g in report.findings
                if old.get(g.id, (False, False)) != (g.excludes_target, g.over_open))
    found = {name for name, (closed, wide) in old.items() if closed or wide}
    return Since(new, tuple(sorted(found - now.keys())))


def only(report: Report, names: Sequence[str]) -> Report:
    """The report cut down to some modules and their gates."""
    modules = tuple(module for module in report.modules if module.name in names)
    wanted = {identifier for module in modules for identifier in module.gates}
    return replace(report, modules=modules,
                   gates=tuple(gate for gate in report.gates if gate.id in wanted))


def within(report: Report, names: Sequence[str]) -> Report:
    """The report without the gates that concern none of some modules."""
    return replace(report, gates=tuple(gate for gate in report.gates
                                       if not set(names).isdisjoint(gate.modules)))


def about(report: Report, topic: str) -> list[str]:
    """Modules that a topic means: a module, a public function, a kernel, or a flag."""
    plain = topic.lstrip("-").replace("-", "_")
    exact = [m.name for m in report.modules if topic == m.name]
    functions = [m.name for m in report.modules
                 if any(topic in (f, f.rpartition(".")[2]) for f in m.functions)]
    kernels = [
        m.name for m in report.modules
        if any(_names(report.gate(i), plain) for i in m.gates)
    ]
    return exact or functions or kernels


def _names(gate: Gate, name: str) -> bool:
    parts = {part for text in gate.names for part in (text, text.rpartition("::")[2])}
    return name in parts or name in gate.condition
