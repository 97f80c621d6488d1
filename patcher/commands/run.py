"""``sm-patch run``: start a program only when its patches are in place and in effect."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from patcher.commands.options import Settings, common
from patcher.errors import Exit, InputError


@click.command("run", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
@click.option("--lock", "lock", metavar="FILE",
              help="Compare the packages with this file (apply --write-lock).")
@common("root", "python", "cuda", "state")
def command(settings: Settings, words: tuple[str, ...], lock: str | None) -> Exit:
    """Check the patched packages, set the cache epoch, and become COMMAND.

    Exits 1 without starting it when a patch is lost, drifted or without effect, or when a
    package's digest is not the one of --lock, or not that of SM_PATCH_DIGEST.
    """
    from patcher.caches.environ import own
    from patcher.commands.installed import Site

    site = Site(settings)
    environ = own()
    variables = site.epoch((), environ)
    problems = [*site.lock_problems(Path(lock) if lock else None),
                *site.problems(variables)]
    for problem in problems:
        click.echo(f"sm-patch: {problem}", err=True)
    if problems:
        way = f"sm-patch apply --from-lock {shlex.quote(lock)}" if lock else "sm-patch status"
        settings.tell(f"next: {way}")
        return Exit.CHECK_FAILED
    try:
        os.execvpe(words[0], list(words),
                   {**os.environ, **variables, "SM_PATCH_DIGEST": site.digest()})
    except OSError as error:
        raise InputError(f"cannot start: {error.strerror}", where=words[0]) from error
