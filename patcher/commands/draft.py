"""``sm-patch draft``: a proposed patchset for what software alone closes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from patcher.commands import completion
from patcher.commands.options import Settings, common
from patcher.errors import Exit

if TYPE_CHECKING:
    from patcher.draft import Draft
    from patcher.package.model import Package
    from patcher.patchset.schema import Patchset
    from patcher.plan import GroupPlan


@click.command("draft")
@click.argument("package", metavar="PACKAGE", shell_complete=completion.packages)
@click.option("--name", metavar="NAME", help="The patchset's name. Default: PACKAGE-draft.")
@click.option("--module", "modules", metavar="NAME", multiple=True,
              help="Only these JIT modules; repeatable.")
@common("arch", "reference", "cuda", "root", "python", "format", "output")
def command(settings: Settings, package: str, name: str | None,
            modules: tuple[str, ...]) -> Exit:
    """Propose a patchset that opens what software alone keeps closed in PACKAGE, each gate
    with its evidence. What hardware, intent, prebuilt code or nothing known explains is
    listed with the reason and never proposed; so is what the law refuses."""
    from patcher.commands.scanning import scan_packages
    from patcher.draft import draft
    from patcher.package.environment import find_environment
    from patcher.package.find import find_package
    from patcher.report.draft import left_lines, to_json, to_yaml
    from patcher.scan.model import Options

    report = scan_packages(settings, [package], Options(modules=modules, follow_all=True))
    found = find_package(package, find_environment(settings.python, settings.root))
    title = name or f"{found.name}-draft"
    proposed = _lawful(draft(report, found), found, title, settings)
    text = to_yaml(proposed, found, title)
    if settings.format == "json":
        settings.emit(to_json(proposed, found, text))
        return Exit.DONE
    for line in left_lines(proposed):
        click.echo(f"not proposed: {line}", err=True)
    if text:
        settings.emit(text, verbatim=True)
    settings.tell(_summary(proposed, settings.output or "what was written"))
    return Exit.DONE


def _summary(proposed: Draft, where: str) -> str:
    groups = len(proposed.groups)
    shipped = {s for g in proposed.groups for p in g.proposals for s in p.shipped}
    left = len(proposed.left)
    line = (f"{groups} group{'' if groups == 1 else 's'} proposed, "
            f"{left} gate{'' if left == 1 else 's'} left")
    if shipped:
        line += f"; shipped already: {', '.join(sorted(shipped))}"
    return f"{line}\nnext: " + (f"sm-patch diff {where}" if groups else "sm-patch patchsets")


def _lawful(proposed: Draft, package: Package, name: str, settings: Settings) -> Draft:
    """The draft without groups that planning refuses, those with the reason."""
    from dataclasses import replace

    from patcher.draft import Left
    from patcher.patchset.load import parse_patchset
    from patcher.report.draft import to_yaml

    text = to_yaml(proposed, package, name)
    if not text:
        return proposed
    groups, left = [], list(proposed.left)
    plans = _plans(parse_patchset(text.encode(), name), package, settings)
    for group, planned in zip(proposed.groups, plans, strict=True):
        if planned.outcome.refused:
            left += [Left(gate, f"refused: {planned.reason}")
                     for proposal in group.proposals for gate in proposal.gates]
        else:
            groups.append(group)
    return replace(proposed, groups=tuple(groups), left=tuple(left))


def _plans(patchset: Patchset, package: Package, settings: Settings) -> list[GroupPlan]:
    """Each group planned by itself on this package."""
    from dataclasses import replace

    from patcher.commands.planning import Planner
    from patcher.package.environment import find_environment
    from patcher.plan import Request, Untouched

    environment = find_environment(settings.python, settings.root)
    planner = Planner(settings, environment, Untouched, lambda _name, _environment: package)
    return [planner.plan([Request(replace(patchset, groups=(group,)), (group.id,))])
            .patchsets[0].groups[0] for group in patchset.groups]
