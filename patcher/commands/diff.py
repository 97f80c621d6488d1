"""``sm-patch diff``: the git-apply-able diff of patchsets; writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patcher.commands.options import Settings, common
from patcher.errors import Exit

if TYPE_CHECKING:
    from patcher.engine.request import Staged
    from patcher.package.model import Package
    from patcher.report.plan import PackageRow
    from patcher.session import Session


@click.command("diff")
@click.argument("patchsets", metavar="PATCHSET...", nargs=-1, required=True)
@common("arch", "cuda", "root", "python", "group", "state", "format", "output")
def command(settings: Settings, patchsets: tuple[str, ...]) -> Exit:
    """Print what PATCHSET... would change, as a diff that git apply takes, grouped by patch.

    Writes nothing and needs no lock. Outcomes and warnings go to stderr. When a
    selected group cannot go through, no diff is printed and the exit code is 3,
    as apply would write nothing.
    """
    from patcher.commands.planning import Planner, requests
    from patcher.engine.asked import request_of
    from patcher.package.environment import find_environment
    from patcher.preview import diff
    from patcher.report.plan import lines, to_json
    from patcher.session import reading
    from patcher.state import find_home

    wanted = requests(patchsets, settings.group)
    environment = find_environment(settings.python, settings.root)
    home = find_home(prefix=environment.prefix, root=environment.root, state=settings.state)
    session = reading(home)
    planner = Planner(settings, environment, session.view)
    plan = planner.plan(wanted)
    text = "" if plan.refused else diff(plan, planner)
    for line in (*dict.fromkeys(planner.notes), *lines(plan, "diff")):
        settings.tell(line)
    if settings.format == "json":
        request = request_of(plan, lambda name: session.view(planner(name).package), {})
        staged = session.stage(request, planner.targets)
        rows = [_row(planner(name).package, session, staged) for name in plan.packages]
        text = to_json(plan, rows, text)
    if text or settings.format == "json":
        settings.emit(text, verbatim=True)
    return plan.exit


def _row(package: Package, session: Session, staged: Staged) -> PackageRow:
    """A package with its digest now, and as it would be."""
    from patcher.engine.digest import package_digest
    from patcher.report.plan import PackageRow

    name, version = package.name, package.version
    return PackageRow(name, version, str(package.root),
                      package_digest(session.home, session.journal, name, version),
                      package_digest(session.home, staged.journal, name, version, staged.steps))
