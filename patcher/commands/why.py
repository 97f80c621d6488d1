"""``sm-patch why``: one feature's layers from the public function to the binary."""

from __future__ import annotations

import click

from patcher.commands.options import Settings, common
from patcher.errors import Exit, UsageError


@click.command("why")
@click.argument("topic", metavar="PACKAGE[:MODULE]")
@common("arch", "reference", "cuda", "root", "python", "format", "output")
def command(settings: Settings, topic: str) -> Exit:
    """Show why a feature is closed, from its public functions to the binary.

    MODULE may be a JIT module, a public function, a kernel or a server flag;
    without it every feature with a finding is shown. Each gate says what
    happens when it alone is opened.
    """
    from patcher.commands.scanning import scan_packages
    from patcher.report.json_scan import render_json
    from patcher.report.text_why import render_why
    from patcher.scan.combine import about, only
    from patcher.scan.model import Options

    package, _, feature = topic.partition(":") if not _is_path(topic) else (topic, "", "")
    report = scan_packages(settings, [package], Options(follow_all=bool(feature)))
    if feature:
        names = about(report, feature)
        if not names:
            known = ", ".join(m.name for m in report.modules[:8])
            raise UsageError(f"nothing in {package} excludes the target from {feature!r}",
                             next_step=f"features with findings: {known}, ...")
        report = only(report, names)
    if settings.format == "json":
        settings.emit(render_json(report))
    else:
        settings.emit(render_why(report))
    return Exit.DONE


def _is_path(topic: str) -> bool:
    from pathlib import Path

    return Path(topic).exists()
