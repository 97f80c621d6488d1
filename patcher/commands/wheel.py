"""``sm-patch wheel``: a patched wheel for installers and lock files."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patcher.commands import completion
from patcher.commands.options import Settings, common
from patcher.errors import Conflict, Exit, InputError, PackageNotFound

if TYPE_CHECKING:
    from patcher.package.model import Environment, Package
    from patcher.plan import Plan
    from patcher.wheel import Patched


@click.command("wheel")
@click.argument("patchsets", metavar="PATCHSET...", nargs=-1, required=True,
                shell_complete=completion.patchsets)
@click.argument("wheel", metavar="WHEEL", type=click.Path(path_type=Path))
@click.option("-o", "--output", "folder", metavar="DIR", default=".", show_default=True,
              type=click.Path(path_type=Path), help="Where the new wheel goes.")
@common("arch", "cuda", "python", "group", "format")
def command(settings: Settings, patchsets: tuple[str, ...], wheel: Path, folder: Path) -> Exit:
    """Write WHEEL with PATCHSET... applied, as version X+smpatch.DIGEST.

    The version changes in METADATA and in names only, RECORD is right, and the same
    input gives the same bytes everywhere: install it with pip or uv, pin it in a lock.
    """
    from patcher.package.find import find_package
    from patcher.report.plan import lines
    from patcher.wheel import write_wheel

    if wheel.suffix != ".whl":
        raise InputError("not a wheel", where=str(wheel), next_step="the last name is the wheel")
    if not wheel.is_file():
        name, version, *_ = [*wheel.name.split("-"), "VERSION"]
        raise InputError("no such file", where=str(wheel),
                         next_step=f"pip download --no-deps {shlex.quote(f'{name}=={version}')}")
    if not folder.is_dir():
        raise InputError("not a folder", where=str(folder), next_step=f"mkdir -p {folder}")
    environment = _environment(settings)
    package = find_package(str(wheel), environment)
    plan, changes = _planned(settings, patchsets, package, environment)
    for line in lines(plan, "wheel"):
        settings.tell(f"{line} {wheel}" if "sm-patch wheel " in line else line)
    if plan.refused:
        raise Conflict("some groups cannot go through: no wheel was written",
                       next_step="name the others with --group")
    written = write_wheel(package, changes, folder) if changes else None
    settings.emit(_json(package, plan, written) if settings.format == "json"
                  else _text(package, plan, written))
    return Exit.DONE


def _environment(settings: Settings) -> Environment:
    from patcher.package.environment import find_environment

    return find_environment(settings.python, None)


def _planned(settings: Settings, patchsets: tuple[str, ...], package: Package,
             environment: Environment) -> tuple[Plan, tuple[Any, ...]]:
    """The plan, and the changes of this one package."""
    from patcher.commands.planning import Planner, requests
    from patcher.package.metadata import normalise
    from patcher.plan import Untouched
    from patcher.preview import package_changes

    def find(name: str, _environment: Environment) -> Package:
        if normalise(name) not in (package.name, normalise(package.import_name)):
            raise PackageNotFound(f"this is a wheel of {package.name}, not of {name}")
        return package

    planner = Planner(settings, environment, Untouched, find)
    plan = planner.plan(requests(patchsets, settings.group))
    changes = () if plan.refused else tuple(
        change for found in package_changes(plan, planner).values() for change in found)
    return plan, changes


def _groups(plan: Plan) -> list[str]:
    from patcher.operations.base import Outcome

    return [f"{item.patchset.name}/{group.id}" for item in plan.patchsets
            for group in item.groups if group.selected and group.outcome is Outcome.APPLICABLE]


def _text(package: Package, plan: Plan, written: Patched | None) -> str:
    if written is None:
        return (f"nothing to do: {package.name} {package.version} needs none of these patches\n"
                f"next: pip install {package.root}")
    return "\n".join([
        f"wrote {written.path} with {', '.join(_groups(plan))}",
        f"{package.name}=={written.version} --hash=sha256:{written.sha256}",
        f"next: pip install --no-deps {written.path}"])


def _json(package: Package, plan: Plan, written: Patched | None) -> str:
    import json

    document: dict[str, Any] = {
        "version": 1, "changed": written is not None, "groups": _groups(plan),
        "package": {"name": package.name, "version": package.version},
        "wheel": None if written is None else {
            "path": str(written.path), "version": written.version, "sha256": written.sha256,
            "digest": written.digest}}
    return json.dumps(document, indent=2, sort_keys=True)
