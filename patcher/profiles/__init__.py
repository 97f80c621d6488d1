"""What is known of single packages, behind one protocol."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patcher.package.model import Package
    from patcher.profiles.base import Profile

FLASHINFER = "flashinfer-python"


def profile_for(package: Package) -> Profile:
    """The package's profile; one for unknown packages when nobody wrote it one."""
    return _flashinfer() if package.name == FLASHINFER else _generic()


@cache
def _flashinfer() -> Profile:
    from patcher.profiles.flashinfer import FlashInfer

    return FlashInfer()


@cache
def _generic() -> Profile:
    from patcher.profiles.generic import Generic

    return Generic()
