"""Architecture lists in the environment that build plain targets by mistake, and mixed GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from patcher.doctor.model import Repair, Result, Status, Surroundings

VARIABLES = ("FLASHINFER_CUDA_ARCH_LIST", "TORCH_CUDA_ARCH_LIST", "CUTE_DSL_ARCH")
_ENTRY = re.compile(r"(?:(\d+)\.(\d)|sm_(\d+)(\d))([af]?)(\+PTX)?$")


def arch_lists(surroundings: Surroundings) -> Iterable[Result]:
    """On 12.x the architecture-specific instructions need an ``a`` or ``f`` target."""
    for variable in VARIABLES:
        value = surroundings.variables.get(variable)
        if not value:
            continue
        entries = [match for word in re.split(r"[\s;,]+", value) if (match := _ENTRY.match(word))]
        plain = [f"{m[1] or m[3]}.{m[2] or m[4]}" for m in entries
                 if int(m[1] or m[3]) >= 12 and not m[5]]
        if not plain:
            yield Result("arch-list", Status.OK, f"{variable}={value}")
            continue
        suffixed = " or ".join(_spelled(variable, p, s) for p in dict.fromkeys(plain) for s in "af")
        yield Result(
            "arch-list", Status.ERROR,
            f"{variable}={value} builds plain {', '.join(plain)}: FP4 conversion, block-scaled "
            "mma, setmaxnreg and stmatrix b8 do not exist there",
            ("measured with ptxas: these need sm_120a, sm_120f or sm_121a",
             "expect: '... not supported on .target sm_120', or kernels that trap"),
            Repair(commands=(f"write {variable} with {suffixed} (f needs CUDA 12.9 or newer)",)),
        )


def _spelled(variable: str, entry: str, suffix: str) -> str:
    return (f"sm_{entry.replace('.', '')}{suffix}" if variable.startswith("CUTE")
            else f"{entry}{suffix}")


def mixed_gpus(surroundings: Surroundings) -> Iterable[Result]:
    """A host with GPUs of several capabilities builds for one of them, or for all."""
    capabilities = sorted({gpu.split()[0] for gpu in surroundings.gpus},
                          key=lambda text: [int(part) for part in text.split(".")])
    if len(capabilities) < 2:
        return
    suffixed = " ".join(f"{c}a" if int(c.split(".")[0]) >= 9 else c for c in capabilities)
    listed = surroundings.variables.get("FLASHINFER_CUDA_ARCH_LIST") or ""
    covered = all(c in listed for c in capabilities)
    yield Result(
        "mixed-gpus", Status.OK if covered else Status.WARNING,
        f"GPUs of {', '.join(capabilities)} on one host: JIT builds and caches must name each",
        (*surroundings.gpus, "a build made for one is loaded by none of the others"),
        Repair(commands=() if covered else (f"export FLASHINFER_CUDA_ARCH_LIST='{suffixed}'",)))
