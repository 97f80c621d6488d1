"""``sm-patch status``: what is applied, in which state, and whether it is in effect."""

from __future__ import annotations

from pathlib import Path

import click

from patcher.commands.options import Settings, common
from patcher.errors import Exit


@click.command("status")
@click.option("--check", is_flag=True,
              help="Exit 1 unless everything applied is in place and in effect.")
@click.option("--lock", "lock", metavar="FILE", help="Exit 1 unless the packages are as locked.")
@click.option("--digest", is_flag=True, help="Print the digest of what is patched, one line.")
@click.option("--built", is_flag=True,
              help="Also look into the JIT cache's own libraries: archs and hollow bodies.")
@common("cuda", "root", "python", "state", "env_from", "format", "output")
def command(settings: Settings, check: bool, lock: str | None, digest: bool,
            built: bool) -> Exit:
    """Show every applied patchset, group by group; needs no lock and no write permission.

    States: applied, partial, drifted, lost, superseded, poisoned, interrupted, absent.
    Effective: yes, after-restart, no with the reason, or unknown.
    """
    from patcher.commands.showing import show

    return show(settings, check=check, lock=Path(lock) if lock else None, digest=digest,
                built=built)
