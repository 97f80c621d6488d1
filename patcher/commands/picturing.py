"""A scan as HTML or SARIF: with what the groups that open its gates would change."""

from __future__ import annotations

from collections.abc import Iterator

from patcher import __version__
from patcher.commands.options import Settings
from patcher.commands.planning import Planner
from patcher.commands.scanning import Scanned
from patcher.errors import PatcherError
from patcher.package.environment import find_environment
from patcher.patchset.load import load_patchset
from patcher.plan import Plan, Request, Untouched
from patcher.report.html.documents import scan_page
from patcher.report.html.patch_part import patch_part, whole_changes
from patcher.report.sarif import render_sarif
from patcher.scan.combine import Since


def picture(settings: Settings, found: Scanned) -> str:
    """The page, with a change for every shipped group that the report names."""
    parts = [part for _, plan, subjects in _plans(settings, found)
             for part in patch_part(plan, subjects)]
    return scan_page(found.report, found.read, parts)


def sarif(settings: Settings, found: Scanned, changes: Since | None) -> str:
    """The document, with a fix for every gate that a shipped group opens."""
    fixes = {name: whole_changes(plan, subjects)
             for name, plan, subjects in _plans(settings, found)}
    return render_sarif(found.report, found.read, __version__, fixes, changes)


def _plans(settings: Settings, found: Scanned) -> Iterator[tuple[str, Plan, Planner]]:
    """A plan for every group that opens a gate of the report, as far as it can be planned."""
    planner = Planner(settings, find_environment(settings.python, settings.root), Untouched)
    for name in sorted({gate.opened_by for gate in found.findings if gate.opened_by}):
        patchset, _, group = name.partition("/")
        try:
            yield name, planner.plan([Request(load_patchset(patchset), (group,))]), planner
        except PatcherError as error:
            settings.tell(f"{name} is not shown with its change: {error}")
