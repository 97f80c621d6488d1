"""Parts of a CUDA tree from different releases: which pairs break, and how they say it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from patcher.doctor.markers import LAUNCH_ARITY, Parts, dotted, read_parts
from patcher.doctor.model import Repair, Result, Status, Surroundings
from patcher.toolchain.model import Toolkit

_ESCAPE = "CCCL_DISABLE_CTK_COMPATIBILITY_CHECK"
_CHECKER = "cuda/std/__cccl/cuda_toolkit.h"


def version_skew(surroundings: Surroundings) -> Iterable[Result]:
    """nvcc, crt, nvvm and runtime must have the same major.minor; CCCL need not."""
    for toolkit in surroundings.toolkits:
        if toolkit.path is None:
            continue
        parts = read_parts(toolkit, surroundings.environment.site_packages)
        results = [*_launch(toolkit, parts), *_runtime(toolkit, parts)]
        yield from results or [
            Result("toolkit-versions", Status.OK,
                   f"the CUDA toolkit is of one release ({parts.nvcc})",
                   (_list(parts), f"in {toolkit.path}"))
        ]


def _launch(toolkit: Toolkit, parts: Parts) -> Iterable[Result]:
    """The stub that cicc and cudafe++ write calls a macro of the crt headers."""
    if parts.nvcc is None:
        return
    wrong = [f"{name} is {version}" for name, version in (("crt", parts.crt), ("nvvm", parts.nvvm))
             if version not in (None, parts.nvcc)]
    expected = LAUNCH_ARITY.get(parts.nvcc)
    if not wrong and expected and parts.launch_arity not in (None, expected):
        wrong = ["the crt headers are of another release"]
    if not wrong:
        return
    yield Result(
        "toolkit-skew-compiler", Status.ERROR,
        f"nvcc is {parts.nvcc}, but {' and '.join(wrong)}: nothing compiles, not even an empty "
        "kernel",
        (_list(parts), f"in {toolkit.path}",
         f"crt/host_runtime.h: __cudaLaunch takes {parts.launch_arity} parameter(s)",
         ('expect: error: macro "__cudaLaunch" requires 2 arguments, but only 1 given'
         " (or: passed 2 arguments, but takes just 1)")),
        Repair(commands=(_pins(parts.nvcc, "nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm"),)),
    )


def _runtime(toolkit: Toolkit, parts: Parts) -> Iterable[Result]:
    """CCCL compares the compiler's release with CUDART_VERSION and stops on a difference."""
    if parts.nvcc is None or parts.runtime in (None, parts.nvcc):
        return
    escape = _has_escape(toolkit)
    extra = (f"or compile with -D{_ESCAPE} (this CCCL knows it)",) if escape else ()
    yield Result(
        "toolkit-skew-runtime", Status.ERROR,
        f"nvcc is {parts.nvcc}, but the runtime headers are {parts.runtime}: every include of "
        "<cuda/std/...> stops",
        (_list(parts), f"in {toolkit.path}", f"{_CHECKER} compares the two",
         ('expect: #error "CUDA compiler and CUDA toolkit headers are incompatible, '
         'please check your include paths"')),
        Repair(commands=(_pins(parts.nvcc, "nvidia-cuda-runtime"), *extra)),
    )


def torch_release(surroundings: Surroundings) -> Iterable[Result]:
    """Extensions are built by the toolkit and loaded beside torch: one major version for both."""
    built_with = surroundings.torch_cuda
    toolkit = next((t for t in surroundings.toolkits if t.nvcc), None)
    if built_with is None or toolkit is None or not toolkit.tool:
        return
    if built_with.split(".")[0] == toolkit.tool.split(".")[0]:
        yield Result("toolkit-torch", Status.OK, f"torch and nvcc agree on CUDA {built_with}")
        return
    yield Result(
        "toolkit-torch", Status.WARNING,
        f"torch was built with CUDA {built_with}, and nvcc is {toolkit.tool}: extensions need one "
        "major version",
        (f"nvcc: {toolkit.nvcc}", ("expect: RuntimeError: The detected CUDA version mismatches the "
         "version that was used to compile PyTorch")),
        Repair(commands=(f"export CUDA_HOME=/folder/of/a/CUDA/{built_with}/toolkit",)))


def _has_escape(toolkit: Toolkit) -> bool:
    for folder in (*toolkit.include, *toolkit.system):
        for prefix in ("", "cccl/"):
            try:
                if _ESCAPE in (Path(folder) / f"{prefix}{_CHECKER}").read_text("utf-8", "replace"):
                    return True
            except OSError:
                continue
    return False


def _pins(version: str, *names: str) -> str:
    return "pip install " + " ".join(f"'{name}=={version}.*'" for name in names)


def _list(parts: Parts) -> str:
    cccl = "absent" if parts.cccl is None else dotted(parts.cccl)
    shown = {"nvcc": parts.nvcc, "crt": parts.crt, "nvvm": parts.nvvm, "runtime": parts.runtime}
    return ", ".join(f"{n} {v or 'does not say'}" for n, v in shown.items()) + f", cccl {cccl}"
