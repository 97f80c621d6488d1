"""``sm-patch probe``: measure the instruction table again with a ptxas of the user's."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from patcher.commands.options import Settings, common
from patcher.errors import Exit, ToolFailed

if TYPE_CHECKING:
    from patcher.probe import Assembler, Difference


@click.command("probe")
@click.option("--ptxas", metavar="PATH", help="The assembler. Default: the toolkit's.")
@common("arch", "cuda", "jobs", "format", "output")
def command(settings: Settings, ptxas: str | None) -> Exit:
    """Ask ptxas which of the known instructions each target has, and compare with our table.

    Takes under two minutes on two cores; needs no GPU and no headers. --arch
    limits it to some targets. Exit code 1 when the table differs.
    """
    from patcher.arch import target
    from patcher.probe import compare, find_assembler, measure
    from patcher.verify.execute import interruptible

    wanted = [target(name) for name in settings.arch if name != "auto"]
    with interruptible():
        assembler = find_assembler(Path(ptxas) if ptxas else _from_toolkit(settings))
        chosen = [t for t in assembler.targets if not wanted or t in wanted]
        measured = measure(assembler, chosen, settings.jobs, _progress)
    differences = compare(measured, assembler.release)
    if settings.format == "json":
        settings.emit(_json(assembler, measured, differences))
    else:
        settings.emit(_text(assembler, measured, differences))
    return Exit.CHECK_FAILED if differences else Exit.DONE


def _from_toolkit(settings: Settings) -> Path:
    from patcher.toolchain.find import find_toolkit

    toolkit = find_toolkit(settings.cuda)
    if toolkit.path is None:
        raise ToolFailed("no ptxas here", where=toolkit.reason,
                         next_step="pip install 'sm-patch[nvcc]', or name one: --ptxas PATH")
    return toolkit.path / "bin" / "ptxas"


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{done} of {total} targets", nl=done == total, err=True)


def _text(assembler: Assembler, measured: dict[str, dict[str, str]],
          differences: list[Difference]) -> str:
    count = sum(len(row) for row in measured.values())
    head = (f"ptxas {assembler.release}: {count} answers for {len(measured)} targets, "
            f"{len(differences) or 'none'} differ{'s' * (len(differences) < 2)} from our table")
    lines = [f"  {d.target:9} {d.feature}: {'accepted' if d.measured else 'rejected'}, the table "
             f"says {'accepted' if d.shipped else 'rejected'}"
             f"{f' ({d.message})' if d.message else ''}" for d in differences]
    return "\n".join([head, *lines, "next: sm-patch scan PACKAGE"])


def _json(assembler: Assembler, measured: dict[str, dict[str, str]],
          differences: list[Difference]) -> str:
    rows = [{"feature": d.feature, "target": d.target, "measured": d.measured,
             "shipped": d.shipped, "message": d.message} for d in differences]
    accepted = {name: sorted(feature for feature, error in row.items() if not error)
                for name, row in measured.items()}
    return json.dumps({"version": 1, "ptxas": assembler.release, "isa": assembler.isa,
                       "accepted": accepted, "differences": rows}, indent=2, sort_keys=True)
