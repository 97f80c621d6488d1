"""``sm-patch abi``: which torch a prebuilt library was built for, and what it misses here."""

from __future__ import annotations

import json
from pathlib import Path

import click

from patcher.commands import completion
from patcher.commands.options import Settings, common
from patcher.errors import Exit, UsageError


@click.command("abi")
@click.argument("subjects", metavar="FILE|PACKAGE", nargs=-1, required=True,
                shell_complete=completion.packages)
@click.option("--as", "release", metavar="VERSION", help="With learn: the torch release it is.")
@click.option("--fail-on", type=click.Choice(("warning", "error")),
              help="Exit with 1 when something does not fit.")
@common("root", "python", "format", "output")
def command(settings: Settings, subjects: tuple[str, ...], release: str | None,
            fail_on: str | None) -> Exit:
    """Compare what FILE or PACKAGE asks of torch with the torch that is installed.

    Names the torch releases that fit, and the ways out. Without a torch the
    known releases answer. `sm-patch abi learn LIBDIR --as VERSION` adds a
    release from its torch/lib folder.
    """
    if subjects[0] == "learn":
        if len(subjects) != 2 or not release:
            raise UsageError("learn needs a folder and a version",
                             next_step="sm-patch abi learn .../torch/lib --as 2.12.0")
        from patcher.doctor.learn import learn

        place, count = learn(Path(subjects[1]), release)
        settings.emit(f"torch {release}: {count} names, kept in {place}")
        return Exit.DONE
    if release:
        raise UsageError("--as goes with learn",
                         next_step="sm-patch abi learn LIBDIR --as VERSION")
    from patcher.doctor.verdict import verdict
    from patcher.report.abi import to_checks, to_text

    verdicts = [verdict(subject, settings.python, settings.root) for subject in subjects]
    if settings.format == "json":
        checks = [check for each in verdicts for check in to_checks(each)]
        settings.emit(json.dumps({"version": 1, "checks": checks}, indent=2, sort_keys=True))
    else:
        settings.emit("\n\n".join("\n".join(to_text(each)) for each in verdicts))
    wrong = any(not each.fits for each in verdicts)
    return Exit.CHECK_FAILED if fail_on and wrong else Exit.DONE
