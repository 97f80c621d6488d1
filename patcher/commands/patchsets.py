"""``sm-patch patchsets``: the shipped patchsets, and how each fits this environment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from patcher.commands.options import Settings, common
from patcher.errors import Exit

if TYPE_CHECKING:
    from patcher.commands.planning import Planner
    from patcher.patchset.schema import Group, Patchset


@click.command("patchsets")
@common("arch", "cuda", "root", "python", "state", "format", "output")
def command(settings: Settings) -> Exit:
    """List the shipped patchsets with their groups, risk and proof, and whether each group
    would apply here. Where the package is not installed the list is shown without fit."""
    from patcher.commands.planning import Planner
    from patcher.package.environment import find_environment
    from patcher.patchset.load import load_patchset
    from patcher.patchset.shipped import shipped
    from patcher.session import reading
    from patcher.state import find_home

    environment = find_environment(settings.python, settings.root)
    home = find_home(prefix=environment.prefix, root=environment.root, state=settings.state)
    planner = Planner(settings, environment, reading(home).view)
    found = [load_patchset(str(path)) for path in shipped().values()]
    rows = [(patchset, _fits(patchset, planner)) for patchset in found]
    if settings.format == "json":
        settings.emit(_json(rows))
    else:
        settings.emit("\n".join(_lines(rows)))
    return Exit.DONE


@dataclass(frozen=True, slots=True)
class Fit:
    """What a group would do here: an outcome, and what the compiler made of the very bytes."""

    outcome: str
    reason: str
    proven: str = ""


def _fits(patchset: Patchset, planner: Planner) -> dict[str, Fit]:
    """Each group's outcome; without the law, which only apply and diff have to ask."""
    from patcher.commands.proven import proven
    from patcher.errors import PatcherError
    from patcher.plan import Request, plan

    fits: dict[str, Fit] = {}
    for group in patchset.groups:
        try:
            made = plan([Request(patchset, (group.id,))], planner)
        except PatcherError as error:
            fits[group.id] = Fit("absent", str(error))
            continue
        (planned,) = (g for g in made.patchsets[0].groups if g.id == group.id)
        fits[group.id] = Fit(planned.outcome.value, planned.reason,
                             proven(patchset, planned, made, planner))
    return fits


def _json(rows: list[tuple[Patchset, dict[str, Fit]]]) -> str:
    import json

    return json.dumps({"version": 1, "patchsets": [
        {"name": patchset.name, "summary": patchset.summary, "package": patchset.package,
         "digest": patchset.digest, "source": patchset.source,
         "groups": [_group(patchset, group, fits[group.id]) for group in patchset.groups]}
        for patchset, fits in rows]}, indent=2, sort_keys=True) + "\n"


def _group(patchset: Patchset, group: Group, fit: Fit) -> dict[str, Any]:
    return {"id": group.id, "summary": group.summary, "why": group.why,
            "default": group.id in patchset.default_groups, "risk": group.risk.value,
            "warning": group.warning, "needs": list(group.needs), "versions": group.versions,
            "fixed_in": group.fixed_in, "references": list(group.references),
            "proof": group.proof, "proven": fit.proven, "outcome": fit.outcome,
            "reason": fit.reason}


def _lines(rows: list[tuple[Patchset, dict[str, Fit]]]) -> Iterator[str]:
    from patcher.report.wrapping import wrap

    fitting = [(patchset.name, group.id) for patchset, fits in rows for group in patchset.groups
               if fits[group.id].outcome == "applicable"]
    yield from wrap(f"{len(rows)} patchsets; applicable here: "
                    f"{', '.join('/'.join(one) for one in fitting) or 'none'}")
    for patchset, fits in rows:
        yield f"{patchset.name}  {patchset.summary}"
        for group in patchset.groups:
            taken = "default" if group.id in patchset.default_groups else "on request"
            yield f"  {group.id}  {fits[group.id].outcome}, {taken}, risk {group.risk.value}"
            yield f"    {group.summary}"
            for name, text in (("versions", group.versions), ("fixed in", group.fixed_in),
                               ("needs", "; ".join(group.needs)), ("warning", group.warning),
                               ("proof", group.proof), ("proven", fits[group.id].proven),
                               ("see", ", ".join(group.references))):
                if text:
                    yield f"    {name}: {text}"
    yield "next: " + ("sm-patch diff {} --group {}".format(*fitting[0]) if fitting
                      else "sm-patch scan PACKAGE")
