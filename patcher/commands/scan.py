"""``sm-patch scan``: the gates that exclude the target, grouped by feature."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from patcher.commands import completion
from patcher.commands.options import Settings, common
from patcher.errors import Exit

if TYPE_CHECKING:
    from patcher.commands.scanning import Scanned
    from patcher.cuda.second import CheckedConditions
    from patcher.gates import Gate
    from patcher.scan.combine import Since

_LAYERS = ("python", "preprocessor", "host", "build", "binary")


@click.command("scan")
@click.argument("packages", metavar="PACKAGE...", nargs=-1, required=True,
                shell_complete=completion.packages)
@click.option("--all", "everything", is_flag=True,
              help="Also what hardware, intent or an alternative explains.")
@click.option("--expand", is_flag=True, help="Every gate of a row, and all evidence.")
@click.option("--layer", "layers", type=click.Choice(_LAYERS), multiple=True,
              help="Only these layers; repeatable.")
@click.option("--module", "modules", metavar="NAME", multiple=True,
              help="Only these JIT modules; repeatable.")
@click.option("--unit", "units", metavar="PATH[@CONFIG]", multiple=True,
              help="Only these translation units; repeatable.")
@click.option("--used", is_flag=True,
              help="The modules in this user's JIT cache first.")
@click.option("--baseline", metavar="OLD.json", type=click.Path(path_type=Path),
              help="Show what is newly closed or newly over-open since an older scan.")
@click.option("--fail-on", type=click.Choice(("critical", "warning")),
              help="Exit with 1 when a finding (with --baseline: a new one) is that grave.")
@click.option("--self-check", is_flag=True,
              help="Have pcpp evaluate the conditions, too; exit with 1 when it differs.")
@common("arch", "reference", "cuda", "root", "python", "state", "env_from", "format", "output",
        formats=("text", "json", "sarif", "html", "markdown"))
def command(
    settings: Settings, packages: tuple[str, ...], everything: bool, expand: bool,
    layers: tuple[str, ...], modules: tuple[str, ...], units: tuple[str, ...],
    used: bool, baseline: Path | None, fail_on: str | None, self_check: bool,
) -> Exit:
    """Show what keeps the target out of PACKAGE..., layer by layer, worst first.

    Each finding names the shipped group that opens it, or why none does.
    Nothing of the package is imported or run, and no GPU or compiler is needed.
    """
    from patcher.commands.scanning import scanned
    from patcher.gates import Layer
    from patcher.scan.combine import since
    from patcher.scan.model import Options

    if settings.env_from:
        from patcher.caches.environ import read_environ

        read_environ(settings.env_from)  # one that is not there is an error without --used, too
    checked = _second_opinion() if self_check else None
    options = Options(frozenset(map(Layer, layers)), modules, units, conditions=checked)
    found = scanned(settings, packages, options)
    if used:
        found = _used_first(settings, found)
    report = found.report
    changes = since(report, baseline) if baseline else None
    settings.emit(_render(settings, found, changes, everything, expand))
    if checked is not None and _differs(checked):
        return Exit.CHECK_FAILED
    return _exit(changes.new if changes else report.findings, fail_on)


def _used_first(settings: Settings, found: Scanned) -> Scanned:
    from dataclasses import replace

    from patcher.caches.environ import read_environ
    from patcher.scan.used import used_first

    return replace(found, report=used_first(found.report, read_environ(settings.env_from)))


def _second_opinion() -> CheckedConditions:
    from patcher.cuda.second import CheckedConditions

    return CheckedConditions()


def _differs(checked: CheckedConditions) -> bool:
    click.echo(f"self-check: {checked.summary()}", err=True)
    for one in checked.disagreements:
        click.echo(f"self-check: on {one.world} we say {one.ours}, pcpp {one.theirs}: "
                   f"#if {one.condition}", err=True)
    return bool(checked.disagreements)


def _render(settings: Settings, found: Scanned, changes: Since | None, everything: bool,
            expand: bool) -> str:
    report = found.report
    if settings.format == "json":
        from patcher.report.json_scan import render_json

        return render_json(report, changes)
    if settings.format == "markdown":
        from patcher.report.markdown import scan_markdown

        return scan_markdown(report, changes)
    if settings.format in ("html", "sarif"):
        from patcher.commands.picturing import picture, sarif

        return (picture(settings, found) if settings.format == "html"
                else sarif(settings, found, changes))
    from patcher.report.text_scan import Style, render_changes, render_text

    style = Style(everything, expand)
    if changes:
        return render_changes(report, changes, style)
    if len(report.packages) > 1 and not expand:
        from patcher.report.text_stack import render_stack

        return render_stack(report, everything=everything)
    return render_text(report, style)


def _exit(findings: tuple[Gate, ...], fail_on: str | None) -> Exit:
    grave = {"critical": ("critical",), "warning": ("critical", "warning")}.get(fail_on or "", ())
    found = any(gate.severity.value in grave for gate in findings)
    return Exit.CHECK_FAILED if found else Exit.DONE
