"""``sm-patch apply``: plan, preflight, write, drop stale builds; all of it or nothing."""

from __future__ import annotations

import click

from patcher.commands import completion
from patcher.commands.options import Settings, common
from patcher.errors import Exit


@click.command("apply")
@click.argument("patchsets", metavar="PATCHSET...", nargs=-1, shell_complete=completion.patchsets)
@click.option("--all", "every", is_flag=True,
              help="The project file's patchsets, else every shipped one that fits; "
                   "and again what was lost.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if something would change.")
@click.option("--keep-going", is_flag=True,
              help="Write the groups that go through; exit 3 naming the rest.")
@click.option("--require-clean", is_flag=True,
              help="Refuse files that somebody else has edited.")
@click.option("--aot", type=click.Choice(("aside", "keep")),
              help="Prebuilt modules that win over patched source: set them aside, or keep them.")
@click.option("--no-cache", is_flag=True, help="Leave caches as they are.")
@click.option("--force", is_flag=True, help="Write although preflight found trouble.")
@click.option("--commit", is_flag=True,
              help="In a git source tree: a review branch instead, one commit per patch.")
@click.option("--write-lock", metavar="FILE", help="Record what is applied for other machines.")
@click.option("--from-lock", metavar="FILE", help="Apply what a lock file records, exactly.")
@click.option("--lock-timeout", type=click.FloatRange(min=0), default=30.0, show_default=True,
              metavar="SECONDS", help="How long to wait for locks.")
@common("arch", "cuda", "root", "python", "group", "state", "env_from", "format", "output")
def command(settings: Settings, patchsets: tuple[str, ...], every: bool, check: bool,
            keep_going: bool, require_clean: bool, aot: str | None, no_cache: bool, force: bool,
            commit: bool, write_lock: str | None, from_lock: str | None,
            lock_timeout: float) -> Exit:
    """Write the groups of PATCHSET... that are taken by default, or those of --group.

    One invocation is one transaction: if a group conflicts, nothing is written and the
    exit code is 3. Applying again changes nothing and exits 0.
    """
    from patcher.commands.applying import Application, Options, chosen

    wanted = chosen(settings, patchsets, every=every, from_lock=from_lock)
    if every:
        from patcher.commands.everything import everything

        found = everything(settings)
        settings, wanted, every = found.settings, list(found.requests), not found.strict
    options = Options(check, keep_going, require_clean, aot, no_cache, force,
                      write_lock, from_lock, every, lock_timeout)
    if commit:
        from patcher.commands.review import review

        return review(settings, wanted)
    done = Application(settings, options, wanted).run()
    settings.emit(done.json() if settings.format == "json" else done.text())
    return done.exit
