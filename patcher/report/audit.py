"""What an audit found, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from patcher.audit.consequence import Consequence
from patcher.audit.files import Change, Difference
from patcher.audit.gates import GateChange
from patcher.audit.groups import GroupMatch, PatchPresence, Presence
from patcher.package.model import Package


@dataclass(frozen=True, slots=True)
class Audit:
    """Everything of one package. ``gates`` and ``consequences`` are by path and group name."""

    package: Package
    files: tuple[Difference, ...]
    gates: Mapping[str, tuple[GateChange, ...]]
    groups: tuple[GroupMatch, ...]
    consequences: Mapping[str, tuple[Consequence, ...]]

    @property
    def foreign(self) -> tuple[Difference, ...]:
        return tuple(file for file in self.files if file.is_foreign)

    @property
    def unknown(self) -> bool:
        """True when some file's installed bytes are not known, so that it has no diff."""
        return any(file.before is None and file.change is not Change.ADDED
                   for file in self.foreign)


def to_json(audit: Audit) -> str:
    return json.dumps({
        "version": 1,
        "package": {"name": audit.package.name, "version": audit.package.version,
                    "root": str(audit.package.root)},
        "files": [_file(audit, file) for file in audit.files],
        "groups": [{"name": match.name, "whole": not match.missing,
                    "patches": [{"id": p.patch.id, "presence": p.presence.value,
                                 "lines": list(p.lines), "reason": p.reason}
                                for p in match.patches],
                    "consequences": [
                        {"result": c.result.value, "functions": list(c.functions), "why": c.why}
                        for c in audit.consequences.get(match.name, ())]}
                   for match in audit.groups],
    }, indent=2, sort_keys=True)


def _file(audit: Audit, file: Difference) -> dict[str, Any]:
    return {"path": file.path, "change": file.change.value, "owners": list(file.owners),
            "links": file.links, "poisoned": file.poisoned, "diff": file.diff,
            "gates": [{"layer": g.layer.value, "before": g.before, "after": g.after,
                       "lines": list(g.lines), "opened": g.opened.names,
                       "closed": g.closed.names} for g in audit.gates.get(file.path, ())]}


def to_text(audit: Audit) -> Iterator[str]:
    """The answer, the files with gates and diffs, the groups, what next."""
    yield headline(audit)
    for file in audit.files:
        yield from _lines(audit, file)
    for match in audit.groups:
        yield ""
        yield f"{_equals(match)}{_outcome(audit, match)}"
        for consequence in audit.consequences.get(match.name, ()):
            yield f"  {consequence.result.value}: {consequence.why}"
    yield ""
    yield f"next: {_next(audit)}"


def headline(audit: Audit) -> str:
    """One sentence: is it as installed, and if not, what is it?"""
    name = f"{audit.package.name} {audit.package.version or ''}".rstrip()
    if not audit.foreign:
        ours = f" but for {len(audit.files)} files of applied patchsets" if audit.files else ""
        return f"{name} is as installed{ours}"
    count = len(audit.foreign)
    text = f"{name}: {count} file{'' if count == 1 else 's'} differ{'s' if count == 1 else ''}"
    poisoned = [file for file in audit.files if file.poisoned]
    if poisoned:
        text += f", {len(poisoned)} of them edited through a shared hard link"
    if audit.groups:
        text += f"; {_equals(audit.groups[0])}{_outcome(audit, audit.groups[0])}"
    return text


def _equals(match: GroupMatch) -> str:
    if not match.missing:
        return f"equals {match.name}"
    return f"equals {match.name} minus {', '.join(map(_lacking, match.missing))}"


def _lacking(patch: PatchPresence) -> str:
    if patch.presence is Presence.PARTIAL:
        noun = "guard at line" if len(patch.lines) == 1 else "guards at lines"
        return f"the {noun} {', '.join(map(str, patch.lines))}"
    unclear = " (unclear)" if patch.presence is Presence.UNCLEAR else ""
    return f"{patch.patch.id}{unclear}"


def _outcome(audit: Audit, match: GroupMatch) -> str:
    found = audit.consequences.get(match.name, ())
    return "".join(f": {c.result.value} for {', '.join(c.functions) or 'its functions'}"
                   for c in found[:1])


def _lines(audit: Audit, file: Difference) -> Iterator[str]:
    owners = f" ({', '.join(file.owners)})" if file.owners else ""
    yield f"{file.change.value} {file.path}{owners}"
    if file.poisoned:
        yield (f"  poisoned: {file.links} names share these bytes, among them perhaps the "
               "installer's cache and other environments")
    for gate in audit.gates.get(file.path, ()):
        yield f"  {_gate(gate)}"
    if file.is_foreign and file.before is None and file.change is not Change.ADDED:
        yield "  no diff: no cache here has it as installed; --pristine WHEEL gives one"
    yield from (f"    {line}" for line in file.diff.splitlines()[1:])


def _gate(gate: GateChange) -> str:
    places = f"line {', '.join(map(str, gate.lines[:8]))}" if gate.lines else "a gate that is gone"
    if len(gate.lines) > 1:
        places = f"{len(gate.lines)} gates, lines {', '.join(map(str, gate.lines[:13]))}"
    moves = [f"{word} {worlds}" for word, worlds in (("opened for", gate.opened),
                                                     ("closed for", gate.closed)) if worlds]
    change = f"{gate.before or 'nothing'} -> {gate.after or 'nothing'}"
    return f"{gate.layer.value} {places}: {' and '.join(moves)}: {change}"


def _next(audit: Audit) -> str:
    package = audit.package
    if any(file.poisoned for file in audit.files):
        return (f"uv cache clean {package.name}, then reinstall {package.name} "
                "in every environment that shares it")
    if not audit.foreign:
        return "sm-patch status"
    if audit.unknown:
        return (f"pip download --no-deps {package.name}=={package.version}, then sm-patch audit "
                f"{package.name} --pristine WHEEL")
    whole = next((match for match in audit.groups if not match.missing), None)
    if whole:
        return (f"reinstall {package.name}, then sm-patch apply {whole.patchset.name} "
                f"--group {whole.group.id}")
    return f"sm-patch adopt {package.name} -o {package.name}-local.yaml"
