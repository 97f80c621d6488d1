"""What a shell completes: patchsets, packages, targets; files where these may be meant."""

from __future__ import annotations

from collections.abc import Iterable
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


def packages(_context: click.Context, _parameter: click.Parameter, incomplete: str
             ) -> list[CompletionItem]:
    """Packages that have a profile of their own, and files."""
    return _or_file(_PACKAGES, incomplete)


def _or_file(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    found = [CompletionItem(name) for name in names if name.startswith(incomplete)]
    # first, as bash forgets what stands before it; it names files when there is nothing else
    return [CompletionItem(incomplete, type="file"), *found]
