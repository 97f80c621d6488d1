"""What patchsets would change, file by file and side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from patcher.patchset.load import typed
from patcher.plan import GroupPlan, Plan, Subjects
from patcher.preview import change_diff, package_changes, previews
from patcher.report.plan import command

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def patch_part(plan: Plan, subjects: Subjects) -> list[dict[str, Any]]:
    """Each selected group with its outcome and the changes of its patches."""
    changed: dict[tuple[str, str], list[dict[str, Any]]] = {}
    if not plan.refused:
        for preview in previews(plan, subjects):
            key = (preview.patchset.name, preview.group.id)
            changed.setdefault(key, []).append({
                "id": preview.patch.id,
                "summary": preview.patch.patch.summary,
                "reason": preview.patch.patch.reason,
                "affects": preview.patch.affects.value,
                "files": [{"path": change.path, "hunks": list(hunks(change_diff(change)))}
                          for change in preview.changes],
            })
    return [_group(item.patchset.name, typed(item.patchset), group,
                   changed.get((item.patchset.name, group.id), []))
            for item in plan.patchsets for group in item.groups if group.selected]


def whole_changes(plan: Plan, subjects: Subjects) -> list[dict[str, Any]]:
    """The files that a plan changes, each with the hunks of all its patches together."""
    if plan.refused:
        return []
    return [{"path": change.path, "hunks": list(hunks(change_diff(change)))}
            for changes in package_changes(plan, subjects).values() for change in changes]


def _group(patchset: str, name: str, group: GroupPlan, patches: list[dict[str, Any]]
           ) -> dict[str, Any]:
    about = group.group
    return {
        "name": f"{patchset}/{group.id}", "outcome": group.outcome.value,
        "reason": group.reason, "summary": about.summary, "why": about.why,
        "risk": about.risk.value, "warning": about.warning,
        "needs": list(about.needs), "references": list(about.references),
        "command": command("apply", name, [group.id]), "patches": patches,
    }


def hunks(diff: str) -> Iterator[dict[str, Any]]:
    """The hunks of one file's unified diff: where they begin, and their lines with their sign."""
    hunk: dict[str, Any] | None = None
    for line in diff.split("\n"):
        if match := _HUNK.match(line):
            if hunk is not None:
                yield hunk
            hunk = {"old": int(match[1]), "new": int(match[2]), "lines": []}
        elif hunk is not None and line[:1] in ("+", "-", " "):
            hunk["lines"].append(line)
    if hunk is not None:
        yield hunk
