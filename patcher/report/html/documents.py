"""The pages: a scan with the changes that open its gates, a change, a proof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patcher.plan import Plan, Subjects
from patcher.report.headline import headline
from patcher.report.html.excerpts import Read
from patcher.report.html.page import render_page
from patcher.report.html.patch_part import patch_part
from patcher.report.html.scan_part import scan_part
from patcher.report.plan import PackageRow
from patcher.report.verify import to_text
from patcher.scan.model import Report


def scan_page(report: Report, read: Read, patches: Sequence[dict[str, Any]] = ()) -> str:
    """The matrix and the gates, and what the groups that open some of them would change."""
    names = ", ".join(f"{p.name} {p.version or ''}".strip() for p in report.packages)
    targets = ", ".join(target.name for target in report.targets)
    parts: dict[str, Any] = {"scan": scan_part(report, read)}
    if patches:
        parts["patches"] = list(patches)
    return render_page(f"{names} on {targets}", headline(report), parts)


def change_page(plan: Plan, subjects: Subjects, rows: Sequence[PackageRow]) -> str:
    """What diff prints, side by side."""
    names = ", ".join(item.patchset.name for item in plan.patchsets)
    where = ", ".join(f"{row.name} {row.version or '(no version)'}" for row in rows)
    groups = patch_part(plan, subjects)
    files = {file["path"] for group in groups for patch in group["patches"]
             for file in patch["files"]}
    if plan.refused:
        answer = "A selected group cannot go through: apply would write nothing"
    else:
        answer = f"{len(files)} file{'' if len(files) == 1 else 's'} of {where} would change"
    return render_page(f"{names} on {where}", answer, {"patches": groups})


def proof_page(rows: Sequence[dict[str, Any]], effort: str, toolkit: str) -> str:
    """What verify prints, as a table."""
    answer = next(iter(to_text(rows, effort, toolkit)))
    return render_page("What the compiler says", answer,
                       {"proof": {"answer": answer, "units": list(rows)}})
