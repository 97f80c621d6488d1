"""The real version markers of a CUDA tree's parts: read from files, never from file names alone.

Wheels of nvcc, crt, nvvm and runtime land in one folder and are pinned to each
other by nothing, so each part is asked where it says its own version.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patcher.toolchain.find import has_text, tool_version
from patcher.toolchain.model import Toolkit
from patcher.tree import matching, plain_text

_CUDART = re.compile(r"#\s*define\s+CUDART_VERSION\s+(\d+)")
_CCCL = re.compile(r"#\s*define\s+CCCL_VERSION\s+(\d+)")
_LAUNCH = re.compile(r"#\s*define\s+__cudaLaunch\(([^)]*)\)")
_OPTIONS = ("--simt-only",)  # in nvcc 13.5, but not 13.2; cicc knows it from 13.2 on
CCCL_MARKERS = ("cccl/cuda/std/__cccl/version.h", "cuda/std/__cccl/version.h")


@dataclass(frozen=True, slots=True)
class Parts:
    """``major.minor`` of each part, None when it is absent or does not say.

    ``launch_arity`` is the number of parameters of ``__cudaLaunch`` in the crt
    headers, which the code that cicc (nvvm) writes must agree with; ``strange_option``
    is one that nvcc passes to cicc and cicc does not know.
    """

    nvcc: str | None
    crt: str | None
    nvvm: str | None
    runtime: str | None
    cccl: int | None
    launch_arity: int | None
    strange_option: str = ""


# Read in the wheels of nvidia-cuda-crt (nvidia-cuda-nvcc for 12.9) of each release.
LAUNCH_ARITY = {"12.9": 1, "13.0": 2, "13.1": 1, "13.2": 1, "13.3": 1, "13.4": 1, "13.5": 1}


def read_parts(toolkit: Toolkit, site_packages: Sequence[Path]) -> Parts:
    """Read the markers of one toolkit: nvcc's and cicc's own text, macros of the headers.

    The crt headers name no release: there the wheel's metadata counts, where the
    tree is made of wheels.
    """
    root = toolkit.path
    includes = [Path(f) for f in toolkit.include]
    sites = [s for s in site_packages if root and _inside(root, s)]
    return Parts(
        nvcc=_minor(toolkit.tool),
        crt=_dist(sites, "nvidia_cuda_crt"),
        nvvm=_minor(tool_version(root / "nvvm" / "bin" / "cicc")) if root else None,
        runtime=_cudart(includes),
        cccl=cccl_version(includes),
        launch_arity=_arity(includes),
        strange_option=_strange(toolkit),
    )


def _strange(toolkit: Toolkit) -> str:
    if toolkit.path is None or toolkit.nvcc is None:
        return ""
    cicc = toolkit.path / "nvvm" / "bin" / "cicc"
    return next((option for option in _OPTIONS if has_text(toolkit.nvcc, option) and
                 os.path.isfile(cicc) and not has_text(cicc, option.lstrip("-"))), "")


def cccl_version(includes: Sequence[Path], markers: Sequence[str] = CCCL_MARKERS) -> int | None:
    """CCCL_VERSION (3002000 is 3.2.0) of the first CCCL on these folders."""
    for folder in includes:
        for marker in markers:
            if found := _search(_CCCL, folder / marker):
                return int(found)
    return None


def dotted(version: int) -> str:
    """A CCCL_VERSION as people write it."""
    return f"{version // 1000000}.{version // 1000 % 1000}.{version % 1000}"


def _cudart(includes: Sequence[Path]) -> str | None:
    for folder in includes:
        if found := _search(_CUDART, folder / "cuda_runtime_api.h"):
            return f"{int(found) // 1000}.{int(found) % 1000 // 10}"
    return None


def _arity(includes: Sequence[Path]) -> int | None:
    for folder in includes:
        parameters = _search(_LAUNCH, folder / "crt" / "host_runtime.h")
        if parameters is not None:
            return parameters.count(",") + 1
    return None


def _search(pattern: re.Pattern[str], path: Path) -> str | None:
    match = pattern.search(plain_text(path))
    return match[1] if match else None


def _dist(sites: Sequence[Path], stem: str) -> str | None:
    for site in sites:
        for folder in matching(site, f"{stem}-*.dist-info"):
            return _minor(folder.name.removesuffix(".dist-info").rpartition("-")[2])
    return None


def _minor(version: str) -> str | None:
    return ".".join(version.split(".")[:2]) if version else None


def _inside(path: Path, folder: Path) -> bool:
    return folder in path.parents
