"""``sm-patch audit``: what somebody did to an installed package."""

from __future__ import annotations

from pathlib import Path

import click

from patcher.commands import completion
from patcher.commands.options import Settings, common
from patcher.errors import Exit


@click.command("audit")
@click.argument("package", metavar="PACKAGE", shell_complete=completion.packages)
@click.option("--pristine", metavar="WHEEL", type=click.Path(path_type=Path, exists=True),
              help="The wheel (or its unpacked folder) that was installed: gives diffs and gates, "
              "where neither the journal nor uv's or pip's cache has the file.")
@common("arch", "reference", "cuda", "root", "python", "state", "format", "output")
def command(settings: Settings, package: str, pristine: Path | None) -> Exit:
    """Show every file of PACKAGE that differs from RECORD, the gates that were changed, and
    the shipped group that this equals in whole or in part. Edits of applied patchsets are
    told apart; a file edited through a shared hard link is named as poisoned."""
    from patcher.commands.auditing import Auditor
    from patcher.report.audit import to_json, to_text

    found = Auditor(settings, package, pristine).audit()
    settings.emit(to_json(found) if settings.format == "json" else "\n".join(to_text(found)))
    return Exit.DONE
