"""Run the checks; what breaks one check is its result, and the rest goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from patcher.doctor.checks.abi import needed_libraries, torch_abi
from patcher.doctor.checks.archlist import arch_lists
from patcher.doctor.checks.fatbin import gpu_code_of_extensions
from patcher.doctor.checks.headers import toolkit_headers
from patcher.doctor.checks.host import host_compiler, python_headers
from patcher.doctor.checks.links import driver_library, link_libraries
from patcher.doctor.checks.skew import version_skew
from patcher.doctor.model import Check, Result, Status, Surroundings
from patcher.errors import PatcherError

CHECKS: tuple[Check, ...] = (
    version_skew,
    toolkit_headers,
    link_libraries,
    driver_library,
    host_compiler,
    python_headers,
    arch_lists,
    torch_abi,
    needed_libraries,
    gpu_code_of_extensions,
)
_ORDER = {Status.ERROR: 0, Status.WARNING: 1, Status.OK: 2, Status.SKIPPED: 3}


def examine(surroundings: Surroundings, checks: Sequence[Check] = CHECKS) -> list[Result]:
    """All results, the worst first."""
    results = [result for check in checks for result in _run(check, surroundings)]
    return sorted(dict.fromkeys(results), key=lambda r: (_ORDER[r.status], r.id, r.summary))


def _run(check: Check, surroundings: Surroundings) -> Iterable[Result]:
    try:
        return list(check(surroundings))
    except (PatcherError, OSError) as error:
        name = check.__name__.replace("_", "-")
        return [Result(name, Status.WARNING, f"cannot be checked: {error}")]
