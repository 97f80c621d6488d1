"""Run the checks; what breaks one check is its result, and the rest goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from patcher.doctor.checks.abi import torch_abi
from patcher.doctor.checks.archlist import arch_lists, mixed_gpus
from patcher.doctor.checks.caches import writable_caches
from patcher.doctor.checks.closed import closed_places
from patcher.doctor.checks.fatbin import gpu_code_of_extensions, stub_kernels
from patcher.doctor.checks.flashinfer import built_modules, version_triple
from patcher.doctor.checks.headers import mixed_cccl, toolkit_headers
from patcher.doctor.checks.host import build_tools, host_compiler, python_headers
from patcher.doctor.checks.installs import installs
from patcher.doctor.checks.links import driver_library, link_libraries
from patcher.doctor.checks.loading import needed_libraries
from patcher.doctor.checks.skew import torch_release, version_skew
from patcher.doctor.checks.triton import driver_for_triton, triton_ptxas
from patcher.doctor.model import Check, Result, Status, Surroundings
from patcher.errors import PatcherError

CHECKS: tuple[Check, ...] = (
    version_skew,
    torch_release,
    toolkit_headers,
    mixed_cccl,
    link_libraries,
    driver_library,
    build_tools,
    host_compiler,
    python_headers,
    arch_lists,
    mixed_gpus,
    closed_places,
    installs,
    torch_abi,
    needed_libraries,
    gpu_code_of_extensions,
    stub_kernels,
    triton_ptxas,
    driver_for_triton,
    version_triple,
    built_modules,
    writable_caches,
)
_ORDER = list(Status)


def examine(surroundings: Surroundings, checks: Sequence[Check] = CHECKS) -> list[Result]:
    """What every check says; one that cannot work says so, and the rest goes on."""
    return [result for check in checks for result in _run(check, surroundings)]


def ordered(results: Iterable[Result]) -> list[Result]:
    """The worst first, each once; among equals in the order of the checks."""
    return sorted(dict.fromkeys(results), key=lambda r: _ORDER.index(r.status))


def _run(check: Check, surroundings: Surroundings) -> Iterable[Result]:
    try:
        return list(check(surroundings))
    except (PatcherError, OSError) as error:
        name = check.__name__.replace("_", "-")
        return [Result(name, Status.WARNING, f"cannot be checked: {error}")]
