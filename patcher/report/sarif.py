"""The findings of a scan as SARIF 2.1.0, within what GitHub's code scanning takes.

A row of equal gates is one result; its fingerprint is made of what the gate says, so that
it stays when lines move. A fix carries all changes of the group that opens the gate, since
a group is applied in full or not at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from patcher.gates import Gate, Severity
from patcher.report.headline import headline
from patcher.report.html.excerpts import Excerpts, Read
from patcher.report.sarif_fixes import fix_of
from patcher.scan.combine import Since
from patcher.scan.model import Report

RESULTS = 5000  # GitHub takes 25,000 in a run and keeps these
LOCATIONS = 100  # of a result; it takes 1,000
TEXT = 1000  # characters; it shows 1,024 of a description
_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.CRITICAL: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_RULES = Path(__file__).resolve().parents[1] / "data" / "rules.json"
_BASE = "%SRCROOT%"
Fixes = Mapping[str, Sequence[dict[str, Any]]]  # by group, the files that it changes


def render_sarif(report: Report, read: Read, version: str, fixes: Fixes | None = None,
                 changes: Since | None = None) -> str:
    """One run. ``fixes`` are as ``whole_changes`` gives them."""
    ranked = sorted(report.findings, key=lambda gate: list(_LEVELS).index(gate.severity))
    kept = ranked[:RESULTS]
    declared = {**{gate.rule: _unnamed(gate) for gate in kept}, **rules()}
    roots = {package.root for package in report.packages}
    place = _Places(roots.pop() if len(roots) == 1 else None)
    run: dict[str, Any] = {
        "tool": {"driver": {"name": "sm-patch", "semanticVersion": version,
                            "rules": [_rule(row) for row in declared.values()]}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True,
                         "toolExecutionNotifications": _notices(report, len(ranked) - len(kept))}],
        "results": _results(kept, list(declared), place, Excerpts(read), fixes or {}, changes),
        "properties": {"targets": [target.name for target in report.targets],
                       "packages": [f"{p.name} {p.version or ''}".strip()
                                    for p in report.packages]},
    }
    if place.root is not None:
        run["originalUriBaseIds"] = {_BASE: {"uri": place.root.as_uri().rstrip("/") + "/"}}
    document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


class _Places:
    """Paths as SARIF writes them: relative to the root where there is one."""

    def __init__(self, root: Path | None) -> None:
        self.root = root

    def artifact(self, path: str) -> dict[str, Any]:
        if path.startswith("/"):
            return {"uri": "file://" + quote(path)}
        plain = {"uri": quote(path)}
        return {**plain, "uriBaseId": _BASE} if self.root is not None else plain

    def physical(self, path: str, line: int, end: int = 0) -> dict[str, Any]:
        place: dict[str, Any] = {"artifactLocation": self.artifact(path)}
        if line > 0:
            place["region"] = {"startLine": line, **({"endLine": end} if end > line else {})}
        return {"physicalLocation": place}


def _results(gates: Sequence[Gate], declared: Sequence[str], place: _Places, excerpts: Excerpts,
             fixes: Fixes, changes: Since | None) -> list[dict[str, Any]]:
    places = {name: number for number, name in enumerate(declared)}
    prints = fingerprints(gates)
    new = {gate.id for gate in changes.new} if changes else set()
    return [{
        "ruleId": gate.rule, "ruleIndex": places[gate.rule],
        "level": _LEVELS[gate.severity], "message": {"text": _short(_message(gate))},
        "locations": [place.physical(gate.location.path, gate.location.line,
                                     gate.location.end_line if gate.count == 1 else 0)],
        "partialFingerprints": {"primaryLocationLineHash": f"{mark}:1", "gate/v1": mark},
        "properties": _properties(gate),
        **({"baselineState": "new" if gate.id in new else "unchanged"} if changes else {}),
        **_related(gate, place), **_flow(gate, place, excerpts),
        **fix_of(gate.opened_by, fixes, place.artifact),
    } for gate, mark in zip(gates, prints, strict=True)]


def fingerprints(gates: Sequence[Gate]) -> list[str]:
    """By what each gate says and, of equal ones, by their order in the file; never by lines."""
    order = sorted(range(len(gates)), key=lambda n: (gates[n].location.path,
                                                     gates[n].location.line, n))
    seen: dict[str, int] = {}
    found = [""] * len(gates)
    for number in order:
        gate = gates[number]
        key = "\0".join([gate.layer.value, gate.rule, gate.location.path, gate.within,
                         gate.condition, gate.effect.value, str(gate.over_open)])
        mark = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        seen[mark] = seen.get(mark, 0) + 1
        found[number] = f"{mark}.{seen[mark]}"
    return found


def _message(gate: Gate) -> str:
    harm = "too open: the target enters what it cannot run" if gate.over_open else "closed"
    count = f"{gate.count} gates" if gate.count > 1 else "Gate"
    words = [f"{count} {harm}: {gate.condition}."]
    words.append(f"Behind it: {gate.effect.value}; cause: {gate.cause.value}.")
    words += [f"Evidence: {item.text}." for item in gate.evidence[:1]]
    if gate.opened_by:
        words.append(f"Opened by sm-patch group {gate.opened_by}, in full or not at all.")
    return " ".join(words)


def _properties(gate: Gate) -> dict[str, Any]:
    return {"effect": gate.effect.value, "cause": gate.cause.value, "layer": gate.layer.value,
            "gate": gate.id, "modules": list(gate.modules[:20]), "openedBy": gate.opened_by,
            "open": gate.worlds.open.names, "closed": gate.worlds.closed.names}


def _related(gate: Gate, place: _Places) -> dict[str, Any]:
    """The other gates of the row."""
    others = [line for line in gate.lines if line != gate.location.line][: LOCATIONS - 1]
    return {"relatedLocations": [
        {**place.physical(gate.location.path, line), "id": number,
         "message": {"text": "the same condition"}}
        for number, line in enumerate(others, 1)]} if others else {}


def _flow(gate: Gate, place: _Places, excerpts: Excerpts) -> dict[str, Any]:
    """The include chain, from the unit to the guard."""
    if len(gate.via) < 2:
        return {}
    hops = [*excerpts.chain(gate.via), gate.location.line]
    steps = [{"location": {**place.physical(path, line), "message": {"text": text}}}
             for path, line, text in zip(
                 gate.via, hops, [*["includes the next"] * (len(hops) - 1), "the gate"],
                 strict=True)]
    return {"codeFlows": [{"threadFlows": [{"locations": steps[:LOCATIONS]}]}]}


def _rule(row: Mapping[str, str]) -> dict[str, Any]:
    words = row["id"].replace("-", " ").title().replace(" ", "")
    return {
        "id": row["id"], "name": words,
        "shortDescription": {"text": _short(row["title"])},
        "fullDescription": {"text": _short(f"{row['title']}: {row['means']}")},
        "help": {"text": f"For example: {row['example']}\nWhat to do: {row['do']}",
                 "markdown": f"For example `{row['example']}`\n\nWhat to do: `{row['do']}`"},
        "defaultConfiguration": {"level": "warning"},
        "properties": {"tags": ["gpu-architecture", row["layer"]], "precision": "high",
                       "problem.severity": "warning"},
    }


def _unnamed(gate: Gate) -> dict[str, str]:
    """A rule that the table does not describe yet."""
    return {"id": gate.rule, "layer": gate.layer.value, "example": gate.condition[:200],
            "title": f"a gate of the {gate.layer.value} layer", "means": "the target is left out",
            "do": "sm-patch why PACKAGE"}


def _notices(report: Report, dropped: int) -> list[dict[str, Any]]:
    found = [{"level": "note", "message": {"text": _short(headline(report))}}]
    if dropped:
        found.append({"level": "warning", "message": {
            "text": f"{dropped} findings of the least severity are left out: more than "
                    f"{RESULTS} are not shown"}})
    return found


def _short(text: str) -> str:
    return text if len(text) <= TEXT else text[: TEXT - 1] + "…"


@cache
def rules() -> dict[str, dict[str, str]]:
    """Every rule that a gate may name, by id."""
    return {row["id"]: row for row in json.loads(_RULES.read_text("utf-8"))["rules"]}


