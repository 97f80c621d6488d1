"""A plan as text and JSON, for diff, apply and check alike."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from patcher.operations.base import Outcome
from patcher.patchset.load import typed
from patcher.plan import GroupPlan, PatchsetPlan, Plan
from patcher.report.wrapping import wrap


@dataclass(frozen=True, slots=True)
class PackageRow:
    """A package in the report; ``after`` is None when nothing changes."""

    name: str
    version: str | None
    root: str
    before: str
    after: str


def to_json(plan: Plan, packages: Sequence[PackageRow], diff: str, *,
            effective: dict[tuple[str, str], str] | None = None,
            caches: Sequence[dict[str, Any]] = (), restart: Sequence[dict[str, Any]] = (),
            changed: bool | None = None) -> str:
    """The contract's document. ``effective`` is by patchset and group; only selected groups.

    ``changed`` is what was written, or would be; None derives it from the plan.
    """
    known = effective or {}
    document = {
        "version": 1,
        "changed": plan.changed and not plan.refused if changed is None else changed,
        "packages": [{"name": row.name, "version": row.version, "root": row.root,
                      "digest_before": row.before, "digest_after": row.after}
                     for row in packages],
        "patchsets": [{"name": item.patchset.name, "digest": item.patchset.digest,
                       "groups": [_group(group, known.get((item.patchset.name, group.id)))
                                  for group in item.groups if group.selected]}
                      for item in plan.patchsets],
        "caches": list(caches),
        "restart": list(restart),
        "diff": diff,
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _group(group: GroupPlan, effective: str | None) -> dict[str, Any]:
    return {
        "id": group.id, "outcome": group.outcome.value, "reason": group.reason,
        "effective": effective or "unknown", "warning": group.group.warning,
        "patches": [{"id": patch.id, "outcome": patch.outcome.value, "reason": patch.reason,
                     "files": list(patch.files), "asked": patch.asked.names,
                     "effective_set": patch.effective.names} for patch in group.patches],
    }


def lines(plan: Plan, verb: str, *, done: bool = False) -> Iterator[str]:
    """Each selected group with its outcome, or with ``done`` as applied; and what to do next."""
    for item in plan.patchsets:
        name = item.patchset.name
        for group in item.groups:
            if group.selected:
                yield from _lines_of(name, group, done)
        yield from _next(item, verb)


def _lines_of(name: str, group: GroupPlan, done: bool) -> Iterator[str]:
    reason = f": {group.reason}" if group.reason else ""
    written = done and group.outcome is Outcome.APPLICABLE
    yield f"{name}/{group.id}: {'applied' if written else group.outcome.value}{reason}"
    if not written:  # else they were said before anything was written
        yield from (f"  {line}" for line in _cautions(group))


def _cautions(group: GroupPlan) -> Iterator[str]:
    """What to know of a group before it is applied."""
    if group.outcome is Outcome.APPLICABLE:
        if group.group.warning:
            yield f"warning: {group.group.warning}"
        yield from (f"needs: {need}" for need in group.group.needs)


def cautions(plan: Plan) -> Iterator[str]:
    """What to know before the selected groups are applied, a line each."""
    for item in plan.patchsets:
        for group in item.groups:
            for line in _cautions(group) if group.selected else ():
                yield f"{item.patchset.name}/{group.id}: {line}"


def _next(item: PatchsetPlan, verb: str) -> Iterator[str]:
    """Which command goes through, and which other groups there are."""
    name = typed(item.patchset)
    chosen = [group for group in item.groups if group.selected]
    if any(group.outcome.refused for group in chosen):
        fine = [group.id for group in chosen if group.outcome is Outcome.APPLICABLE]
        if fine:
            yield f"  this goes through: {command(verb, name, fine)}"
    for group in item.groups:
        if not group.selected and group.outcome is Outcome.APPLICABLE:
            yield from wrap(f"{group.id} ({group.group.summary}):", "also there: ", "  ")
            yield f"  {command(verb, name, [group.id])}"


def command(verb: str, name: str, groups: Sequence[str]) -> str:
    """The command line that takes exactly these groups."""
    return " ".join(["sm-patch", verb, name, *(f"--group {group}" for group in groups)])
