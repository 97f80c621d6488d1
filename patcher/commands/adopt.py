"""``sm-patch adopt``: a patchset from what somebody edited in place."""

from __future__ import annotations

from pathlib import Path

import click

from patcher.commands import completion
from patcher.commands.options import Settings, common
from patcher.errors import Exit


@click.command("adopt")
@click.argument("package", metavar="PACKAGE", shell_complete=completion.packages)
@click.option("--pristine", metavar="WHEEL", type=click.Path(path_type=Path, exists=True),
              help="The wheel (or its unpacked folder) that was installed.")
@click.option("--name", metavar="NAME", help="The patchset's name. Default: PACKAGE-local.")
@common("root", "python", "state", "output")
def command(settings: Settings, package: str, pristine: Path | None, name: str | None) -> Exit:
    """Write the edits that `audit` finds in PACKAGE as a patchset of exact texts.

    It applies to the release as it was installed and gives the files as they are now.
    Open gates in it by gate operations where you can: text proves nothing about them.
    """
    from patcher.audit.adopt import adopt
    from patcher.commands.auditing import Auditor

    auditor = Auditor(settings, package, pristine)
    made = adopt(auditor.package, auditor.files, name or f"{auditor.package.name}-local")
    settings.emit(made.text, verbatim=True)
    count = len(made.files)
    click.echo(f"adopted the edits of {count} file{'' if count == 1 else 's'}", err=True)
    for path in made.left:
        click.echo(f"not adopted, as text cannot say it: {path}", err=True)
    settings.tell(f"next: reinstall {auditor.package.name}, then sm-patch apply "
                  f"{settings.output or 'what was written'}")
    return Exit.DONE
