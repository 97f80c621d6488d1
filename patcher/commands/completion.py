"""What a shell completes: patchsets, packages, targets; files where these may be meant."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_PACKAGES = ("flashinfer", "sglang", "sgl_kernel", "vllm")


def targets(_context: click.Context, _parameter: click.Parameter, incomplete: str
            ) -> list[CompletionItem]:
    """Devices and nvcc targets, behind a comma too."""
    from click.shell_completion import CompletionItem

    from patcher.arch import known_targets
    from patcher.profiles.devices import device_names

    before, comma, begun = incomplete.rpartition(",")
    names = ["auto", *device_names(), *(target.name for target in known_targets())]
    return [CompletionItem(f"{before}{comma}{name}") for name in names if name.startswith(begun)]


def patchsets(_context: click.Context, _parameter: click.Parameter, incomplete: str
              ) -> list[CompletionItem]:
    """Shipped patchsets, and files."""
    from patcher.patchset.shipped import shipped

    return _or_file(sorted(shipped()), incomplete)


def groups(context: click.Context, _parameter: click.Parameter, incomplete: str
           ) -> list[CompletionItem]:
    """The groups of the patchsets that were typed before; of every shipped one when none was."""
    from click.shell_completion import CompletionItem

    from patcher.errors import PatcherError
    from patcher.patchset.load import load_patchset
    from patcher.patchset.shipped import shipped

    before, comma, begun = incomplete.rpartition(",")
    named = context.args or sorted(shipped())  # what was typed is not taken apart yet
    found: dict[str, str] = {}
    for name in named:
        with suppress(PatcherError, OSError):
            found |= {str(group.id): group.summary for group in load_patchset(name).groups}
    return [CompletionItem(f"{before}{comma}{name}", help=summary)
            for name, summary in found.items() if name.startswith(begun)]


def packages(_context: click.Context, _parameter: click.Parameter, incomplete: str
             ) -> list[CompletionItem]:
    """Packages that have a profile of their own, and files."""
    return _or_file(_PACKAGES, incomplete)


def _or_file(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    # first, as bash forgets what stands before it; it names files when there is nothing else
    return [CompletionItem(incomplete, type="file"), *found]
