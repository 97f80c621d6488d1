"""Headers that a toolkit made of wheels lacks, found by walking real include closures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from patcher.cuda.model import Configuration, Missing, TranslationUnit
from patcher.doctor.markers import cccl_version
from patcher.doctor.model import Repair, Result, Status, Surroundings
from patcher.toolchain.model import Toolkit

# What JIT units of this field include; each stands for the headers behind it.
PROBES = ("nv/target", "cuda/std/atomic", "cuda_fp16.h", "cooperative_groups.h", "cub/cub.cuh")
_OWNERS = {"nv": "nvidia-cuda-cccl", "cuda": "nvidia-cuda-cccl", "cub": "nvidia-cuda-cccl",
           "thrust": "nvidia-cuda-cccl", "curand": "nvidia-curand", "cublas": "nvidia-cublas",
           "crt": "nvidia-cuda-crt"}


def toolkit_headers(surroundings: Surroundings) -> Iterable[Result]:
    """Walk a probe unit over each toolkit's own folders and name what is not found."""
    for toolkit in surroundings.toolkits:
        if toolkit.path is None:
            continue
        missing = closure_gaps(toolkit, PROBES)
        if not missing:
            yield Result("toolkit-headers", Status.OK, f"{toolkit.path}: the headers are complete")
            continue
        yield _gap(toolkit, missing, surroundings)


def closure_gaps(toolkit: Toolkit, includes: Iterable[str]) -> tuple[Missing, ...]:
    """The includes that a unit with these headers would not find in this toolkit."""
    from patcher.cuda.predefined import ToolkitMacros
    from patcher.cuda.walk import Walker
    from patcher.tree import FolderTree

    content = "".join(f"#include <{name}>\n" for name in includes).encode()
    configuration = Configuration(
        "probe", include=toolkit.include, system=(*toolkit.system, *toolkit.host.include))
    unit = TranslationUnit("probe.cu", configuration, content=content)
    macros = ToolkitMacros(toolkit.version, toolkit.platform, toolkit.host.macros or None)
    walker = Walker(FolderTree(Path("/")), toolkit=macros)
    return walker.walk(unit).missing


def _gap(toolkit: Toolkit, missing: tuple[Missing, ...], surroundings: Surroundings) -> Result:
    first = missing[0]
    asked_by_us = first.source.endswith("probe.cu")
    owner = _OWNERS.get(first.include.split("/")[0].split("_")[0].split(".")[0], "")
    place = "" if asked_by_us else f", needed by {first.source}:{first.line}"
    evidence = tuple(f"{m.source}:{m.line}: {m.include}: No such file or directory"
                     for m in missing[:6])
    partial = cccl_version([Path(f) for f in (*toolkit.include, *toolkit.system)]) is None and (
        "nv/detail" in first.include)
    detail = " (a partial copy of CCCL; the whole set is the unit of repair)" if partial else ""
    release = toolkit.version
    wheel = f"pip install '{owner}=={release}.*'" if owner else "install the matching CUDA wheel"
    patchset = "cuda-headers" if owner == "nvidia-cuda-cccl" and _bundled(surroundings) else None
    return Result(
        "toolkit-headers", Status.ERROR,
        f"{toolkit.path}: {first.include} is missing{place}{detail}", evidence,
        Repair(patchset, (wheel,)),
    )


def _bundled(surroundings: Surroundings) -> Path | None:
    """A CCCL that another package carries (FlashInfer does from 0.6.10 on)."""
    package = surroundings.anywhere("flashinfer")
    folder = package / "data" / "cccl" if package else None
    return folder if folder and folder.is_dir() else None
