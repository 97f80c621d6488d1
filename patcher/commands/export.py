"""``sm-patch export``: a patchset as patches for the project's repository."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from patcher.commands import completion
from patcher.commands.options import Settings, common
from patcher.errors import Conflict, Exit, InputError, Refused

if TYPE_CHECKING:
    from patcher.commands.planning import Planner
    from patcher.export import Mail


@click.command("export")
@click.argument("patchsets", metavar="PATCHSET...", nargs=-1, required=True,
                shell_complete=completion.patchsets)
@click.option("-o", "--output", "folder", metavar="DIR", required=True,
              type=click.Path(path_type=Path), help="An empty folder for the patches.")
@click.option("--from", "origin", metavar="PATH",
              help="Plan against this source tree or wheel. Default: the installed package.")
@click.option("--author", metavar="'NAME <MAIL>'", help="Who the patches are from.")
@common("arch", "cuda", "root", "python", "group", "state", "format")
def command(settings: Settings, patchsets: tuple[str, ...], folder: Path, origin: str | None,
            author: str | None) -> Exit:
    """Write PATCHSET... as one patch file each, with the paths of the project's repository,
    for git am. What is applied already counts as not applied. Equal input, equal files."""
    from patcher.atomic import write_atomic
    from patcher.commands.planning import requests
    from patcher.export import AUTHOR, mails
    from patcher.preview import previews
    from patcher.report.plan import lines

    _check(folder)
    planner = _planner(settings, origin)
    plan = planner.plan(requests(patchsets, settings.group))
    for line in lines(plan, "export"):
        settings.tell(line)
    if plan.refused:
        raise Conflict("some groups cannot go through: nothing was written",
                       next_step="name the others with --group")
    found = mails(previews(plan, planner), lambda name: planner(name).package, author or AUTHOR)
    if len({mail.package for mail in found}) > 1:
        raise Refused("these groups span repositories", where=", ".join(
            sorted({mail.package for mail in found})), next_step="export them one by one: --group")
    for mail in found:
        write_atomic(folder / mail.name, mail.data, durable=False)
    settings.emit(_json(found, folder) if settings.format == "json" else _text(found, folder))
    return Exit.DONE


def _check(folder: Path) -> None:
    if not folder.is_dir():
        raise InputError("not a folder", where=str(folder), next_step=f"mkdir -p {folder}")
    if any(folder.glob("*.patch")):
        raise Refused("there are patches here already", where=str(folder),
                      next_step="name an empty folder")


def _planner(settings: Settings, origin: str | None) -> Planner:
    """Plans against the packages as if nothing of ours were applied."""
    from dataclasses import replace

    from patcher.commands.planning import Planner
    from patcher.package.environment import find_environment
    from patcher.package.find import find_package
    from patcher.package.metadata import normalise
    from patcher.package.model import Environment, Package
    from patcher.plan import Untouched
    from patcher.session import reading
    from patcher.state import find_home

    environment = find_environment(settings.python, settings.root)

    def find(name: str, _environment: Environment) -> Package:
        if origin is not None:
            here = origin if origin.endswith((".whl", ".gz", "/")) else f"{origin}/"
            package = find_package(here, environment)
            if normalise(name) in (package.name, normalise(package.import_name)):
                return package
        package = find_package(name, environment)
        home = find_home(prefix=environment.prefix, root=environment.root, state=settings.state)
        return replace(package, tree=reading(home).view(package).tree())

    return Planner(settings, environment, Untouched, find)


def _next(found: list[Mail], folder: Path) -> str:
    keep = " --keep-cr" if any(mail.keep_cr for mail in found) else ""
    return f"git am{keep} {folder}/*.patch" if found else "sm-patch status"


def _text(found: list[Mail], folder: Path) -> str:
    if not found:
        return f"nothing to export: no group changes anything\nnext: {_next(found, folder)}"
    count = f"{len(found)} patch{'' if len(found) == 1 else 'es'}"
    return "\n".join([f"wrote {count} for {found[0].package} to {folder}",
                      *(f"  {mail.name}" for mail in found), f"next: {_next(found, folder)}"])


def _json(found: list[Mail], folder: Path) -> str:
    import json

    return json.dumps({"version": 1, "package": found[0].package if found else None,
                       "keep_cr": any(mail.keep_cr for mail in found),
                       "files": [str(folder / mail.name) for mail in found]},
                      indent=2, sort_keys=True)
