"""Parts of a CUDA tree from different releases: which pairs break, and how they say it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from shlex import quote

from patcher.doctor.installing import toolkit_command
from patcher.doctor.markers import LAUNCH_ARITY, Parts, dotted, read_parts
from patcher.doctor.model import Repair, Result, Status, Surroundings
from patcher.toolchain.model import Toolkit
from patcher.tree import plain_text

_ESCAPE = "CCCL_DISABLE_CTK_COMPATIBILITY_CHECK"
_CHECKER = "cuda/std/__cccl/cuda_toolkit.h"
_LAUNCH = {  # by whether cicc writes more arguments than the macro takes
    True: 'error: macro "__cudaLaunch" passed 2 arguments, but takes just 1',
    False: 'error: macro "__cudaLaunch" requires 2 arguments, but only 1 given',
}


def version_skew(surroundings: Surroundings) -> Iterable[Result]:
    """nvcc, crt, nvvm and runtime should have the same major.minor; CCCL need not."""
    for toolkit in surroundings.toolkits:
        if toolkit.path is None or toolkit.nvcc is None:
            continue
        parts = read_parts(toolkit, surroundings.environment.site_packages)
        results = [*_compiler(toolkit, parts), *_runtime(toolkit, parts)]
        yield from results or [
            Result("toolkit-versions", Status.OK,
                   f"the CUDA toolkit is of one release ({parts.nvcc})",
                   (_list(parts), f"in {toolkit.path}"))
        ]


def _compiler(toolkit: Toolkit, parts: Parts) -> Iterable[Result]:
    """The parts of the compiler itself."""
    if parts.nvcc is None:
        return
    wrong = [f"{name} is {version}" for name, version in (("crt", parts.crt), ("nvvm", parts.nvvm))
             if version not in (None, parts.nvcc)]
    clash = _clash(parts)
    if clash and not wrong:
        wrong = ["the crt headers are of another release"]
    if not wrong:
        return
    said = ": nothing compiles, not even an empty kernel" if clash else ""
    reason, message = clash or (
        "plain kernels compile all the same, but only parts of one release belong together", "")
    yield Result(
        "toolkit-skew-compiler", Status.ERROR if clash else Status.WARNING,
        f"nvcc is {parts.nvcc}, but {' and '.join(wrong)}{said}",
        (_list(parts), f"in {toolkit.path}", reason, *([f"expect: {message}"] if message else [])),
        Repair(commands=(_pins(parts.nvcc, "nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm"),)),
    )


def _clash(parts: Parts) -> tuple[str, str] | None:
    """Why nothing compiles and what is said, in the order in which nvcc gets there."""
    nvvm, nvcc = parts.nvvm or parts.nvcc or "", parts.nvcc or ""
    if option := parts.strange_option:
        return (f"nvcc passes {option} to cicc, which does not know it",
                f"Command-line error: invalid option: {option}")
    if _number(nvvm) > _number(nvcc):
        return f"the ptxas of nvcc {nvcc} does not read the PTX of cicc {nvvm}", _ptx(nvvm, nvcc)
    written, taken = LAUNCH_ARITY.get(nvvm), parts.launch_arity
    if written and taken and written != taken:
        return (f"crt/host_runtime.h: __cudaLaunch takes {taken}, and cicc {nvvm} writes {written}",
                _LAUNCH[written > taken])
    return None


def _ptx(nvvm: str, nvcc: str) -> str:
    """What ptxas says; of CUDA 13.0, 13.2 and 13.5 the PTX is 9.0, 9.2 and 9.5."""
    written, known = (f"9.{release.partition('.')[2]}" for release in (nvvm, nvcc))
    return f"ptxas fatal : Unsupported .version {written}; current version is '{known}'"


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part.isdigit())


def _runtime(toolkit: Toolkit, parts: Parts) -> Iterable[Result]:
    """CCCL compares the compiler's release with CUDART_VERSION and stops on a difference."""
    if parts.nvcc is None or parts.runtime in (None, parts.nvcc):
        return
    escape = _has_escape(toolkit)
    extra = (f"compile with -D{_ESCAPE}, which this CCCL knows",) if escape else ()
    yield Result(
        "toolkit-skew-runtime", Status.ERROR,
        f"nvcc is {parts.nvcc}, but the runtime headers are {parts.runtime}: every include of "
        "<cuda/std/...> stops",
        (_list(parts), f"in {toolkit.path}", f"{_CHECKER} compares the two",
         ('expect: #error "CUDA compiler and CUDA toolkit headers are incompatible, '
         'please check your include paths"')),
        Repair(commands=(_pins(parts.nvcc, "nvidia-cuda-runtime"),), advice=extra),
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
    major = built_with.split(".")[0]
    fitting = [t.path for t in surroundings.toolkits
               if t.nvcc and t.path and t.tool.split(".")[0] == major]
    yield Result(
        "toolkit-torch", Status.WARNING,
        f"torch was built with CUDA {built_with}, and nvcc is {toolkit.tool}: extensions need one "
        "major version",
        (f"nvcc: {toolkit.nvcc}",
         "expect: RuntimeError: The detected CUDA version (" + toolkit.tool.rpartition(".")[0] +
         ") mismatches the version that was used to compile PyTorch"),
        Repair(commands=(f"export CUDA_HOME={quote(str(fitting[0]))}" if fitting else
                         toolkit_command(built_with),)))


def _has_escape(toolkit: Toolkit) -> bool:
    for folder in (*toolkit.include, *toolkit.system):
        for prefix in ("", "cccl/"):
            if _ESCAPE in plain_text(Path(folder) / f"{prefix}{_CHECKER}"):
                return True
    return False


def _pins(version: str, *names: str) -> str:
    return "pip install " + " ".join(f"'{name}=={version}.*'" for name in names)


def _list(parts: Parts) -> str:
    cccl = "absent" if parts.cccl is None else dotted(parts.cccl)
    shown = {"nvcc": parts.nvcc, "crt": parts.crt, "nvvm": parts.nvvm, "runtime": parts.runtime}
    return ", ".join(f"{n} {v or 'does not say'}" for n, v in shown.items()) + f", cccl {cccl}"
