"""``sm-patch revert``: back to the bytes from before, plus what remains applied."""

from __future__ import annotations

import click

from patcher.commands import completion
from patcher.commands.options import Settings, common
from patcher.errors import Exit


@click.command("revert")
@click.argument("patchsets", metavar="[PATCHSET]...", nargs=-1, shell_complete=completion.patchsets)
@click.option("--all", "every", is_flag=True, help="Everything that is applied here.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if something would change.")
@click.option("--require-clean", is_flag=True,
              help="Refuse files that somebody else has edited.")
@click.option("--no-cache", is_flag=True, help="Leave caches as they are.")
@click.option("--lock-timeout", type=click.FloatRange(min=0), default=30.0, show_default=True,
              metavar="SECONDS", help="How long to wait for locks.")
@common("cuda", "root", "python", "group", "state", "env_from", "format", "output")
def command(settings: Settings, patchsets: tuple[str, ...], every: bool, check: bool,
            require_clean: bool, no_cache: bool, lock_timeout: float) -> Exit:
    """Undo PATCHSET..., or the one that is applied, from the journal; the YAML is not needed.

    Other patchsets stay as they are. An edit that somebody made elsewhere in a file is kept;
    one inside a patched place is shown, and nothing is written (exit code 3).
    """
    from patcher.commands.reverting import Reversion

    return Reversion(settings, check=check, require_clean=require_clean, no_cache=no_cache,
                     timeout=lock_timeout).run(patchsets, every=every)
