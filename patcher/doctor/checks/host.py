"""What compiling on this machine needs: a C compiler, Python.h, ninja, an nvcc."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from patcher.doctor.installing import toolkit_command
from patcher.doctor.model import Repair, Result, Status, Surroundings

# Import names of packages that compile at run time, by what they call.
_LAUNCHERS = ("triton",)  # builds a C module against Python.h
_BUILDERS = ("flashinfer", "sglang", "sgl_kernel", "vllm", "deep_gemm", "tvm_ffi")


def _who(surroundings: Surroundings, names: tuple[str, ...]) -> str:
    """The installed packages that compile, for messages; empty when none does."""
    return ", ".join(name for name in names if surroundings.anywhere(name))


def _is_image(surroundings: Surroundings) -> bool:
    """True for ``--root``: the machine it will run on is not this one."""
    return surroundings.environment.root is not None


def host_compiler(surroundings: Surroundings) -> Iterable[Result]:
    """The order is Triton's: CC, gcc, clang (triton/runtime/build.py, 3.3.1 to 3.9.0)."""
    users = _who(surroundings, _LAUNCHERS + _BUILDERS)
    if _is_image(surroundings) or not users:
        return
    named = surroundings.variables.get("CC")
    for tool in [named] if named else ["gcc", "clang"]:
        if found := surroundings.which(tool):
            yield Result("host-compiler", Status.OK, f"C compiler: {found}")
            return
    what = f"CC={named} is not a program" if named else "neither CC, gcc nor clang is there"
    yield Result(
        "host-compiler", Status.ERROR, f"no C compiler: {what}; {users} cannot compile",
        (("expect: RuntimeError: Failed to find C compiler. Please specify via CC environment "
         "variable"), ("flash-linear-attention: 'Triton is not supported on current platform, roll "
         "back to CPU' hides this failure; it is not a missing GPU")),
        Repair(commands=("apt-get install gcc", "export CC=/path/to/a/C/compiler")),
    )


def python_headers(surroundings: Surroundings) -> Iterable[Result]:
    """Python.h of the interpreter that runs the server, not of ours."""
    environment = surroundings.environment
    if _is_image(surroundings) or not _who(surroundings, _LAUNCHERS):
        return
    searched = [environment.include] if environment.include else []
    for variable in ("CPATH", "C_INCLUDE_PATH"):  # gcc searches these after -I
        listed = surroundings.variables.get(variable) or ""
        searched += [Path(folder) for folder in listed.split(":") if folder]
    if found := next((f for f in searched if os.path.isfile(f / "Python.h")), None):
        yield Result("python-headers", Status.OK, f"Python.h: {found}")
        return
    dotted = ".".join(map(str, environment.version)) if environment.version else "3"
    yield Result(
        "python-headers", Status.ERROR,
        f"Python.h of Python {dotted} is missing: Triton cannot build its launcher",
        (*(f"looked in {folder}" for folder in searched),
         "expect: fatal error: Python.h: No such file or directory",
         ("flash-linear-attention: 'Triton is not supported on current platform, roll back to "
         "CPU' hides this failure")),
        Repair(commands=(f"apt-get install python{dotted}-dev",
                         f"export CPATH=/folder/with/Python.h/of/{dotted}")),
    )


def build_tools(surroundings: Surroundings) -> Iterable[Result]:
    """nvcc and ninja, which the JIT builds of these packages run."""
    users = _who(surroundings, _BUILDERS)
    if not users or _is_image(surroundings):
        return
    if not any(toolkit.nvcc for toolkit in surroundings.toolkits):
        ptxas = [name for name in surroundings.distributions
                 if re.fullmatch(r"nvidia-cuda-nvcc-cu\d+", name)]
        yield Result("nvcc", Status.ERROR, f"no nvcc: {users} cannot build at run time",
                     (*(f"{name} is installed, but brings ptxas alone, no nvcc" for name in ptxas),
                      "expect: RuntimeError: Could not find nvcc and default cuda_home"),
                     Repair(commands=(toolkit_command(surroundings.torch_cuda),)))
    beside = Path(surroundings.environment.python or "/").parent / "ninja"
    found = surroundings.which("ninja") or (str(beside) if os.path.isfile(beside) else None)
    if found:
        yield Result("ninja", Status.OK, f"ninja: {found}")
    else:
        yield Result("ninja", Status.ERROR, f"no ninja: {users} cannot build at run time",
                     ("expect: FileNotFoundError: [Errno 2] No such file or directory: 'ninja'",),
                     Repair(commands=("pip install ninja",)))
