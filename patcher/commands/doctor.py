"""``sm-patch doctor``: what is wrong around the gates, with evidence and repair."""

from __future__ import annotations

import click

from patcher.commands import completion
from patcher.commands.options import Settings, common
from patcher.errors import Exit


@click.command("doctor")
@click.argument("packages", metavar="[PACKAGE...]", nargs=-1, shell_complete=completion.packages)
@click.option("--fail-on", type=click.Choice(("warning", "error")),
              help="Exit with 1 when a finding is at least that grave.")
@common("arch", "cuda", "root", "python", "env_from", "format", "output")
def command(settings: Settings, packages: tuple[str, ...], fail_on: str | None) -> Exit:
    """Examine toolkits, headers, prebuilt code and libraries; change nothing.

    Looks at the whole environment, or at PACKAGE... and what they need. No
    package is imported, so a broken one is examined all the same.
    """
    from patcher.doctor.gather import gather
    from patcher.doctor.model import Status
    from patcher.doctor.run import examine, ordered
    from patcher.report.doctor import to_json, to_text

    surroundings, found = gather(packages, archs=settings.arch, cuda=settings.cuda,
                                 root=settings.root, python=settings.python,
                                 env_from=settings.env_from)
    results = ordered([*found, *examine(surroundings)])
    if settings.format == "json":
        settings.emit(to_json(results, settings.again))
    else:
        settings.emit(to_text(results, surroundings))
    grave = {"error": (Status.ERROR,), "warning": (Status.ERROR, Status.WARNING)}
    failed = any(result.status in grave.get(fail_on or "", ()) for result in results)
    return Exit.CHECK_FAILED if failed else Exit.DONE
