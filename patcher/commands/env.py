"""``sm-patch env``: the variables of a cache epoch, for a shell, an env file, or a program."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping

import click

from patcher.commands import completion
from patcher.commands.options import Settings, common
from patcher.errors import Exit


@click.command("env")
@click.argument("packages", nargs=-1, shell_complete=completion.packages)
@common("root", "python", "cuda", "state", "env_from", "format", "output",
        formats=("shell", "env", "json"))
def command(settings: Settings, packages: tuple[str, ...]) -> Exit:
    """Print variables that point caches to folders of their own for what is patched now.

    Use it as `eval "$(sm-patch env)"`, or `--format env` for a unit or a container. Only
    caches that can be stale after these patches move; downloaded cubins stay.
    """
    from patcher.caches.environ import read_environ
    from patcher.commands.installed import Site

    variables = Site(settings).epoch(packages, read_environ(settings.env_from))
    if not variables:
        click.echo("nothing is patched here: no cache needs another folder", err=True)
    settings.emit(_render(settings.format, variables))
    return Exit.DONE


def _render(form: str, variables: Mapping[str, str]) -> str:
    if form == "json":
        return json.dumps({"version": 1, "variables": dict(variables)}, indent=2, sort_keys=True)
    if form == "env":
        return "\n".join(f"{name}={value}" for name, value in variables.items())
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items())
