"""``sm-patch verify``: compile before and after, and say whether the kernels are real."""

from __future__ import annotations

from pathlib import Path

import click

from patcher.commands.options import Settings, common
from patcher.errors import Exit


@click.command("verify")
@click.argument("names", metavar="PATCHSET...|PACKAGE[:MODULE]", nargs=-1, required=True)
@click.option("--effort", type=click.Choice(("quick", "full")), default="quick",
              help="quick: the user's target, unoptimised code. full: all targets, ptxas too.")
@click.option("--executor", type=click.Choice(("local", "dask")), default="local",
              help="Where the compilations run.")
@click.option("--scheduler", metavar="ADDRESS", help="The Dask scheduler, tcp://HOST:PORT.")
@click.option("--unit", "units", metavar="PATH", multiple=True,
              help="Only units whose path ends so; repeatable.")
@click.option("--write-proof", metavar="FILE", help="Write what was proven, to ship it.")
@common("arch", "reference", "cuda", "root", "python", "group", "jobs", "state", "format",
        "output")
def command(settings: Settings, names: tuple[str, ...], effort: str, executor: str,
            scheduler: str | None, units: tuple[str, ...], write_proof: str | None) -> Exit:
    """Prove with the real compiler that what a patchset enables is not hollow.

    With PACKAGE:MODULE the units of a module are judged as they are on disk.

    Needs nvcc, not a GPU. Exit code 1 when a kernel is hollow or a unit fails.
    """
    from patcher.arch import target
    from patcher.commands.planning import Planner
    from patcher.commands.proving import Asked
    from patcher.package.environment import find_environment
    from patcher.report.progress import progress
    from patcher.report.verify import to_json, to_text
    from patcher.session import reading
    from patcher.state import find_home
    from patcher.verify.judge import Verdict
    from patcher.verify.proof import Options

    environment = find_environment(settings.python, settings.root)
    home = find_home(prefix=environment.prefix, root=environment.root, state=settings.state)
    planner = Planner(settings, environment, reading(home).view)
    with progress("compiling") as shown:
        options = Options(effort == "quick", tuple(map(target, settings.reference)), units,
                          executor, scheduler, settings.jobs, shown)
        asked = Asked(planner, home.journal(), options)
        rows = asked.answer(names, settings.group)
        if write_proof:
            count = asked.write_proofs(names, settings.group, Path(write_proof))
            planner.notes.append(f"{count} proofs are in {write_proof}")
    for note in dict.fromkeys(planner.notes):
        click.echo(note, err=True)
    if settings.format == "json":
        settings.emit(to_json(rows))
    else:
        toolkit = f"CUDA {planner.toolkit.version}"
        settings.emit("\n".join(to_text(rows, effort, toolkit)))
    bad = any(row["verdict"] in (Verdict.HOLLOW.value, Verdict.FAILED.value) for row in rows)
    return Exit.CHECK_FAILED if bad else Exit.DONE
