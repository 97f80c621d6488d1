"""``sm-patch check``: a table of what patchsets would do to other releases."""

from __future__ import annotations

from pathlib import Path

import click

from patcher.commands import completion
from patcher.commands.options import Settings, common, split_list
from patcher.errors import Exit, UsageError


@click.command("check")
@click.argument("patchsets", metavar="PATCHSET...", nargs=-1, shell_complete=completion.patchsets)
@click.option("--all", "every", is_flag=True,
              help="The project file's patchsets, else every shipped one.")
@click.option("--versions", metavar="VERSION...", multiple=True, callback=split_list,
              help="Releases: 0.6.3, or A==1.0/B==2.0 for a pair; repeatable.")
@click.option("--against", metavar="LOCK", type=click.Path(path_type=Path),
              help="The releases of a requirements.txt, pylock.toml, uv.lock or poetry.lock.")
@click.option("--wheels", metavar="DIR", type=click.Path(path_type=Path),
              help="Take wheels from this folder. Default: fetch them with pip, and keep them.")
@common("arch", "cuda", "root", "python", "group", "format", "output")
def command(settings: Settings, patchsets: tuple[str, ...], every: bool,
            versions: tuple[str, ...], against: Path | None, wheels: Path | None) -> Exit:
    """Say for each release and group: applicable, not-needed, conflict, missing or
    unsupported, and why. Decided by gates, not by version numbers; writes nothing.

    Exit 1 when some group conflicts. With --wheels and no version: all that are there.
    """
    from dataclasses import replace

    from patcher.commands.checking import Checker, locked_releases, releases_of
    from patcher.commands.everything import project_of
    from patcher.patchset.load import load_patchset
    from patcher.patchset.shipped import shipped
    from patcher.releases import Wheels
    from patcher.report.check import to_json, to_text, verdict

    if bool(patchsets) == every:
        raise UsageError("name patchsets, or use --all",
                         next_step="sm-patch patchsets lists the shipped ones")
    if versions and against:
        raise UsageError("use either --versions or --against")
    if every:
        settings, project = project_of(settings)
        patchsets = project.patchsets if project else tuple(sorted(shipped()))
        groups = project.groups if project else ()
        settings = replace(settings, group=settings.group or groups)
    chosen = [load_patchset(name) for name in patchsets]
    locked, notes = locked_releases(against) if against else (None, [])
    for note in notes:
        click.echo(f"{against}: {note}", err=True)
    archives = Wheels(wheels)
    releases = releases_of(chosen, versions, archives, locked)
    checker = Checker(settings, archives, lambda text: click.echo(text, err=True))
    rows = list(checker.rows(chosen, releases))
    settings.emit(to_json(rows) if settings.format == "json" else "\n".join(to_text(rows)))
    return verdict(rows)
