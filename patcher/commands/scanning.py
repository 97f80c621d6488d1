"""What scan and why share: from names on the command line to a report."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from patcher.commands.options import Settings

if TYPE_CHECKING:
    from patcher.package.model import Package
    from patcher.scan.model import Options, Report


def scan_packages(settings: Settings, names: Sequence[str], options: Options) -> Report:
    """Scan each package for the devices of ``--arch`` and combine the reports."""
    from patcher.arch import target
    from patcher.cuda.store import Store
    from patcher.package.environment import find_environment
    from patcher.package.find import find_package
    from patcher.profiles import profile_for
    from patcher.scan.combine import combine
    from patcher.scan.kept import scan
    from patcher.toolchain.find import find_toolkit

    environment = find_environment(settings.python, settings.root)
    click.echo(f"environment: {environment.reason}", err=True)
    toolkit = find_toolkit(settings.cuda, environment)
    store = Store.default()
    references = [target(name) for name in settings.reference]
    reports = []
    for name in names:
        package = find_package(name, environment)
        for warning in package.warnings:
            click.echo(f"{package.name}: {warning}", err=True)
        _say_what_is_gone(package)
        profile = profile_for(package)
        resolved = [profile.resolve_target(device, package, toolkit) for device in settings.arch]
        for item in resolved:
            click.echo(f"target {item.target.name}: {item.reason}", err=True)
        assumed = tuple(f"{r.target.name}: {r.reason}" for r in resolved if r.assumed)
        targets = list(dict.fromkeys(r.target for r in resolved))
        reports.append(scan(package, profile, targets, references, toolkit,
                            replace(options, assumed=assumed, tick=_progress()), store=store))
    return combine(reports)


def _say_what_is_gone(package: Package) -> None:
    """Warn about files of RECORD that are missing; nothing left at all is an error."""
    from patcher.errors import InputError

    gone = package.gone()
    if not gone:
        return
    again = f"reinstall it: pip install --force-reinstall --no-deps {package.name}"
    own = {path for path in package.record if not path.startswith(f"{package.dist_info}/")}
    if own.issubset(gone):
        raise InputError(f"{package.name} has metadata here, but none of its {len(own)} files",
                         where=str(package.root), next_step=again)
    click.echo(f"{package.name}: {len(gone)} of {len(package.record)} installed files are "
               f"missing, among them {gone[0]}; what they hold is not scanned: {again}", err=True)


class _progress:  # noqa: N801 - used as a function
    """Counts units on a terminal's stderr, and says nothing elsewhere."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        if self._shown and (done % 20 == 0 or done == total):
            end = "\n" if done == total else ""
            click.echo(f"\r{done} of {total} units{end}", nl=False, err=True)
