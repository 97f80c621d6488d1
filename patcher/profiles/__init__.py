"""What is known of single packages, behind one protocol."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patcher.package.model import Package
    from patcher.profiles.base import Profile
    from patcher.profiles.known import Known

FLASHINFER = "flashinfer-python"


def profile_for(package: Package) -> Profile:
    """The package's profile, by how its row says that it builds; a guessing one for the rest."""
    if package.name == FLASHINFER:
        return _flashinfer()
    from patcher.profiles.known import known

    return _by_build(known(package))


@cache
def _flashinfer() -> Profile:
    from patcher.profiles.flashinfer import FlashInfer

    return FlashInfer()


@cache
def _by_build(row: Known | None) -> Profile:
    if row is not None and row.build == "cmake":
        from patcher.profiles.native import CMakeBuild

        return CMakeBuild(row)
    if row is not None and row.build == "setup":
        from patcher.profiles.native import SetupBuild

        return SetupBuild(row)
    if row is not None and row.build == "sglang-jit":
        from patcher.profiles.sglang import SGLang

        return SGLang(row)
    if row is not None and row.build == "deep-gemm-jit":
        from patcher.profiles.deepgemm import DeepGEMM

        return DeepGEMM(row)
    from patcher.profiles.generic import Generic

    return Generic(row)
