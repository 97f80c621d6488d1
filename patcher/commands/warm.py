"""``sm-patch warm``: build what a patchset changed before the server restarts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from patcher.commands import completion
from patcher.commands.options import Settings, common
from patcher.errors import Exit, UsageError

if TYPE_CHECKING:
    from patcher.warm import Warmed


@click.command("warm")
@click.argument("names", metavar="PATCHSET...", nargs=-1, required=True,
                shell_complete=completion.patchsets)
@click.option("--lock-timeout", type=click.FloatRange(min=0), default=30.0, show_default=True,
              metavar="SECONDS", help="How long to wait for running builds.")
@common("root", "python", "cuda", "state", "env_from", "jobs", "format", "output")
def command(settings: Settings, names: tuple[str, ...], lock_timeout: float) -> Exit:
    """Build the JIT modules that applied patchsets changed, so that no request waits for it.

    Runs ninja on build files that the package wrote before. For a module that
    was never built here it prints the line to run. Exit code 1 when a build fails.
    """
    from patcher.caches.environ import read_environ
    from patcher.commands.installed import Site
    from patcher.patchset.load import load_patchset
    from patcher.warm import Result, touched_modules, warm

    site, environ = Site(settings), read_environ(settings.env_from)
    applied = site.home.journal().patchsets
    found: list[Warmed] = []
    for name in dict.fromkeys(load_patchset(name).name for name in names):
        if name not in applied:
            raise UsageError(f"{name} is not applied here", next_step=f"sm-patch apply {name}")
        paths: dict[str, set[str]] = {}
        for patch in (p for g in applied[name].groups.values() for p in g.patches):
            paths.setdefault(patch.package, set()).update(patch.files)
        for package in sorted(paths):
            installed, subject = site.installed(package), site.subject(package)
            if installed is None or subject is None:
                continue
            touched = touched_modules(installed, subject.describe(frozenset(paths[package])))
            found += warm(installed, touched, environ, jobs=settings.jobs,
                          lock_timeout=lock_timeout)
    if settings.format == "json":
        settings.emit(json.dumps({"version": 1, "modules": [
            {"module": one.module, "folder": one.folder, "result": one.result.value,
             "detail": one.detail} for one in found]}, indent=2, sort_keys=True))
    else:
        settings.emit("\n".join(_text(found)))
    failed = any(one.result is Result.FAILED for one in found)
    return Exit.CHECK_FAILED if failed else Exit.DONE


def _text(found: Sequence[Warmed]) -> Iterator[str]:
    counts = Counter(one.result.value for one in found)
    yield ", ".join(f"{count} {name}" for name, count in sorted(counts.items())) \
        or "no module is concerned"
    for one in found:
        yield f"{one.result.value:8} {one.module}{f': {one.detail}' if one.detail else ''}"
    yield "next: sm-patch status"
