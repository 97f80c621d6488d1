"""Architecture lists in the environment that build plain targets by mistake."""

from __future__ import annotations

import re
from collections.abc import Iterable

from patcher.doctor.model import Repair, Result, Status, Surroundings

VARIABLES = ("FLASHINFER_CUDA_ARCH_LIST", "TORCH_CUDA_ARCH_LIST", "CUTE_DSL_ARCH")
_ENTRY = re.compile(r"(\d+)\.(\d)([af]?)(\+PTX)?$")


def arch_lists(surroundings: Surroundings) -> Iterable[Result]:
    """From 9.0 on the architecture-specific instructions need an ``a`` or ``f`` target."""
    for variable in VARIABLES:
        value = surroundings.variables.get(variable)
        if not value:
            continue
        plain = [
            word for word in re.split(r"[\s;,]+", value)
            if (match := _ENTRY.match(word)) and int(match[1]) >= 12 and not match[3]
        ]
        if not plain:
            yield Result("arch-list", Status.OK, f"{variable}={value}")
            continue
        suffixed = " or ".join(f"{p.removesuffix('+PTX')}{s}" for p in plain for s in "af")
        yield Result(
            "arch-list", Status.ERROR,
            f"{variable}={value} builds plain {', '.join(plain)}: FP4 conversion, block-scaled "
            "mma, setmaxnreg and stmatrix b8 do not exist there",
            ("measured with ptxas: these need sm_120a, sm_120f or sm_121a",
             "expect: '... not supported on .target sm_120', or kernels that trap"),
            Repair(commands=(f"{variable}: write {suffixed} (f needs CUDA 12.9 or newer)",)),
        )
