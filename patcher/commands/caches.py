"""``sm-patch caches``: what is cached where, what is stale there, and dropping it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from patcher.caches.actions import CacheAction
from patcher.caches.registry import MEANING, CacheSpec, Edit, registry
from patcher.commands import completion
from patcher.commands.options import Settings, common
from patcher.errors import Exit, Refused

_COMMON = ("root", "python", "cuda", "state", "env_from", "format", "output")


class _ListByDefault(click.Group):
    """``caches`` with nothing but options is ``caches list`` with them."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        bare = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        return super().parse_args(ctx, ["list", *args] if bare else args)


@click.group("caches", cls=_ListByDefault)
def command() -> None:
    """Show JIT and AOT caches, or drop from them what patches have made stale."""


@command.command("list")
@click.argument("packages", nargs=-1, shell_complete=completion.packages)
@click.option("--all", "every", is_flag=True, help="Also caches that are not there.")
@common(*_COMMON)
def list_command(settings: Settings, packages: tuple[str, ...], every: bool) -> Exit:
    """Where each cache is, how large, which edits leave it stale, and what is stale now."""
    from patcher.caches.environ import read_environ
    from patcher.caches.invalidate import plan
    from patcher.commands.installed import Site

    environ = read_environ(settings.env_from)
    site = Site(settings)
    stale: list[CacheAction] = []
    for name in site.names(packages, environ):
        subject = site.subject(name)
        if subject is not None:
            stale += plan(subject, frozenset(), environ)
    rows = [row for spec in registry() for row in _rows(spec, environ, stale)
            if every or row["exists"]]
    if settings.format == "json":
        settings.emit(json.dumps({"version": 1, "caches": rows}, indent=2, sort_keys=True))
    else:
        settings.emit("\n".join(_text(rows)))
    return Exit.DONE


@command.command("invalidate")
@click.argument("packages", nargs=-1, shell_complete=completion.packages)
@click.option("--if-changed", is_flag=True,
              help="Only what is not in line with the installed files; safe at every start.")
@click.option("--lock-timeout", type=click.FloatRange(min=0), default=30.0, show_default=True,
              metavar="SECONDS", help="How long to wait for running builds.")
@common(*_COMMON)
def invalidate_command(settings: Settings, packages: tuple[str, ...], if_changed: bool,
                       lock_timeout: float) -> Exit:
    """Drop what was built from the patched files, so that the next build makes it anew."""
    from patcher.caches.environ import read_environ
    from patcher.caches.invalidate import reconcile
    from patcher.caches.locks import ModuleLocks
    from patcher.commands.installed import Site

    environ = read_environ(settings.env_from)
    done: list[CacheAction] = []
    with Site(settings).recovered(environ, lock_timeout) as site, \
            ModuleLocks(lock_timeout) as locks:
        for name in site.names(packages, environ):
            subject = site.subject(name)
            if subject is None:
                continue
            paths = frozenset() if if_changed else frozenset(subject.state.files)
            try:
                done += reconcile(subject, paths, environ, locks)
            except OSError as error:
                raise Refused(f"cannot delete a stale entry: {error.strerror}",
                              where=str(error.filename),
                              next_step="run as the user who owns the cache") from error
    _report(settings, done)
    return Exit.DONE


def _report(settings: Settings, done: Iterable[CacheAction]) -> None:
    actions = [action.public() for action in done]
    if settings.format == "json":
        document = {"version": 1, "changed": any(action.writes for action in done),
                    "caches": actions}
        settings.emit(json.dumps(document, indent=2, sort_keys=True))
        return
    lines = [f"{a['action']:7} {a['path']}\n        {a['reason']}" for a in actions]
    count = f"{len(lines)} entr{'y' if len(lines) == 1 else 'ies'} of caches"
    head = f"{count} concerned" if lines else "nothing to drop: every cache is in line"
    settings.emit("\n".join([head, *lines, "next: sm-patch status"]))


def _rows(spec: CacheSpec, environ: Mapping[str, str],
          stale: Iterable[CacheAction]) -> list[dict[str, Any]]:
    from patcher.caches.paths import size_of

    rows = []
    for place in spec.folders(environ):
        size, files = size_of(place)
        rows.append({
            "cache": spec.id, "name": spec.name, "path": str(place), "exists": place.is_dir(),
            "bytes": size, "files": files, "advice": spec.advice,
            "stale_after": {edit.value: {"verdict": found.verdict, "why": found.why}
                            for edit, found in spec.stale_after.items()},
            "stale": [action.public() for action in stale
                      if action.cache == spec.id and action.path.startswith(f"{place}/")]})
    return rows


def _text(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    stale = sum(len(row["stale"]) for row in rows)
    count = f"{len(rows)} cache{'' if len(rows) == 1 else 's'}"
    yield f"{count} here, {stale or 'no'} stale entr{'y' if stale == 1 else 'ies'}" if rows \
        else "no cache is there yet"
    for row in rows:
        yield _line(row)
    yield "next: " + ("sm-patch caches invalidate --if-changed" if stale else "sm-patch status")


def _line(row: Mapping[str, Any]) -> str:
    edits = [MEANING[Edit(edit)] for edit, found in row["stale_after"].items()
             if found["verdict"] in ("yes", "partial")]
    after = f"can be stale after edits of {', '.join(edits)}" if edits else "never stale"
    lines = [f"{row['cache']:20} {_size(row['bytes']):>9}  {row['path']}", f"{'':31} {after}"]
    lines += [f"{'':31} stale now: {action['path']} ({action['reason']})"
              for action in row["stale"]]
    return "\n".join(lines)


def _size(count: int) -> str:
    amount, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}"
