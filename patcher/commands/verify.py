"""``sm-patch verify``: compile before and after, and say whether the kernels are real."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patcher.commands import completion
from patcher.commands.options import Settings, common
from patcher.errors import Exit

if TYPE_CHECKING:
    from patcher.commands.proving import Proof


@click.command("verify")
@click.argument("names", metavar="PATCHSET...|PACKAGE[:MODULE]", nargs=-1, required=True,
                shell_complete=completion.patchsets)
@click.option("--effort", type=click.Choice(("quick", "full")), default="quick",
              help="quick: the user's target, unoptimised code. full: all targets, ptxas too.")
@click.option("--executor", type=click.Choice(("local", "dask")), default="local",
              help="Where the compilations run.")
@click.option("--scheduler", metavar="ADDRESS", help="The Dask scheduler, tcp://HOST:PORT.")
@click.option("--unit", "units", metavar="PATH", multiple=True,
              help="Only units whose path ends so; repeatable.")
@click.option("--write-proof", metavar="FILE", help="Write what was proven, to ship it.")
@click.option("--launcher", type=click.Choice(("auto", "none")), default="auto",
              envvar="SM_PATCH_LAUNCHER",
              help="auto: start the compilers through sccache where it is installed.")
@click.option("--without-timing", is_flag=True,
              help="No seconds and no cached in JSON: equal verdicts are equal bytes.")
@common("arch", "reference", "cuda", "root", "python", "group", "jobs", "state", "format",
        "output", formats=("text", "json", "html"))
def command(settings: Settings, names: tuple[str, ...], effort: str, executor: str,
            scheduler: str | None, units: tuple[str, ...], write_proof: str | None,
            launcher: str, without_timing: bool) -> Exit:
    """Prove with the real compiler that what a patchset enables is not hollow.

    With PACKAGE:MODULE the units of a module are judged as they are on disk.

    Needs nvcc, not a GPU. Exit code 1 when a kernel is hollow or a unit fails.
    """
    from patcher.commands.proving import proved
    from patcher.report.verify import to_json, to_text

    proof = proved(settings, names, effort=effort, units=units, executor=executor,
                   scheduler=scheduler, write_proof=Path(write_proof) if write_proof else None,
                   launch=launcher == "auto")
    if settings.format == "json":
        settings.emit(to_json(proof.rows, timing=not without_timing))
    elif settings.format == "html":
        from patcher.report.html.documents import proof_page

        settings.emit(proof_page(list(proof.rows), effort, proof.toolkit))
    else:
        settings.emit("\n".join([*to_text(proof.rows, effort, proof.toolkit),
                                 f"next: {_next(names, proof)}"]))
    return Exit.DONE if proof.proven else Exit.CHECK_FAILED


def _next(names: tuple[str, ...], proof: Proof) -> str:
    from patcher.patchset.load import is_patchset

    said = " ".join(map(shlex.quote, names))
    if not all(map(is_patchset, names)):
        return f"sm-patch why {shlex.quote(names[0])}"
    if proof.proven and proof.applied:
        return "sm-patch status"
    if proof.proven:
        return f"sm-patch apply {said}"
    return f"sm-patch verify {said} --effort full" if proof.effort == "quick" \
        else f"sm-patch diff {said}"
