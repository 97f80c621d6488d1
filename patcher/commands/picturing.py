"""The HTML page of a scan: the report, and what the groups that open its gates would change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from patcher.commands.options import Settings
from patcher.commands.planning import Planner
from patcher.commands.scanning import Scanned
from patcher.errors import PatcherError
from patcher.package.environment import find_environment
from patcher.patchset.load import load_patchset
from patcher.plan import Request, Untouched
from patcher.report.html.documents import scan_page
from patcher.report.html.patch_part import patch_part


def picture(settings: Settings, found: Scanned) -> str:
    """The page, with a change for every shipped group that the report names."""
    return scan_page(found.report, found.read, list(_changes(settings, found)))


def _changes(settings: Settings, found: Scanned) -> Iterable[dict[str, Any]]:
    groups: dict[str, dict[str, None]] = {}
    for gate in found.findings:
        if gate.opened_by:
            patchset, _, group = gate.opened_by.partition("/")
            groups.setdefault(patchset, {})[group] = None
    planner = Planner(settings, find_environment(settings.python, settings.root), Untouched)
    for name, chosen in sorted(groups.items()):
        for group in sorted(chosen):
            try:
                plan = planner.plan([Request(load_patchset(name), (group,))])
                yield from patch_part(plan, planner)
            except PatcherError as error:
                settings.tell(f"{name}/{group} is not in the page: {error}")
