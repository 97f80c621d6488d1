"""``sm-patch diff``: the git-apply-able diff of patchsets; writes nothing."""

from __future__ import annotations

import click

from patcher.commands import completion
from patcher.commands.options import Settings, common
from patcher.errors import Exit


@click.command("diff")
@click.argument("patchsets", metavar="PATCHSET...", nargs=-1, required=True,
                shell_complete=completion.patchsets)
@common("arch", "cuda", "root", "python", "group", "state", "format", "output",
        formats=("text", "json", "html", "markdown"))
def command(settings: Settings, patchsets: tuple[str, ...]) -> Exit:
    """Print what PATCHSET... would change, as a diff that git apply takes, grouped by patch.

    Writes nothing and needs no lock. Outcomes and warnings go to stderr. When a
    selected group cannot go through, no diff is printed and the exit code is 3,
    as apply would write nothing. With --format html the change stands side by side.
    """
    from patcher.commands.planning import planned
    from patcher.patchset.load import typed
    from patcher.report.plan import lines, to_json

    found = planned(settings, patchsets)
    for line in lines(found.plan, "diff"):
        settings.tell(line)
    if settings.format == "json":
        settings.emit(to_json(found.plan, found.packages, found.diff))
    elif settings.format == "html":
        from patcher.report.html.documents import change_page

        settings.emit(change_page(found.plan, found.subjects, found.packages))
    elif settings.format == "markdown":
        from patcher.report.markdown import change_markdown

        settings.emit(change_markdown(found.plan, found.packages, found.diff))
    elif found.diff:
        settings.emit(found.diff, verbatim=True)
    if not found.plan.refused:
        said = " ".join(typed(item.patchset) for item in found.plan.patchsets)
        settings.tell(f"next: sm-patch apply {said}" if found.changed else "next: sm-patch status")
    return found.plan.exit
