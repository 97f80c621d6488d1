"""Architecture lists in the environment that build plain targets by mistake, and mixed GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from patcher.doctor.checks.fatbin import NO_CODE
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
        both = [" or ".join(_spelled(variable, p, s) for s in "af") for p in dict.fromkeys(plain)]
        yield Result(
            "arch-list", Status.ERROR,
            f"{variable}={value} builds plain {', '.join(plain)}: FP4 conversion, block-scaled "
            "mma, setmaxnreg and stmatrix b8 do not exist there",
            ("measured with ptxas: these need sm_120a, sm_120f or sm_121a",
             ("expect: ptxas: Instruction 'cvt with .e2m1x2' not supported on .target "
             f"'sm_{plain[0].replace('.', '')}'")),
            Repair(commands=(f"export {variable}='{_suffixed(variable, value)}'",),
                   advice=(f"{', '.join(both)}: the one with f needs CUDA 12.9 or newer",)),
        )


def _suffixed(variable: str, value: str) -> str:
    """The list with an ``a`` on each plain entry of 12.x."""
    def completed(match: re.Match[str]) -> str:
        entry = _ENTRY.match(match[0])
        if entry is None or entry[5] or int(entry[1] or entry[3]) < 12:
            return match[0]
        bare = f"{entry[1] or entry[3]}.{entry[2] or entry[4]}"
        return _spelled(variable, bare, "a") + (entry[6] or "")
    return re.sub(r"[^\s;,]+", completed, value)


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
        (*surroundings.gpus, "a build made for one is loaded by none of the others", NO_CODE),
        Repair(commands=() if covered else (f"export FLASHINFER_CUDA_ARCH_LIST='{suffixed}'",)))
