"""What compiling on this machine needs: a C compiler and Python.h (Triton builds a launcher)."""

from __future__ import annotations

from collections.abc import Iterable

from patcher.doctor.model import Repair, Result, Status, Surroundings


def host_compiler(surroundings: Surroundings) -> Iterable[Result]:
    """The order is Triton's: CC, gcc, clang (triton/runtime/build.py, 3.6.0)."""
    named = surroundings.variables.get("CC")
    for tool in [named] if named else ["gcc", "clang"]:
        if tool and (found := surroundings.which(tool)):
            yield Result("host-compiler", Status.OK, f"C compiler: {found}")
            return
    what = f"CC={named} is not a program" if named else "neither CC, gcc nor clang is there"
    yield Result(
        "host-compiler", Status.ERROR, f"no C compiler: {what}; Triton and every JIT build stop",
        (("expect: RuntimeError: Failed to find C compiler. Please specify via CC environment "
         "variable"), ("flash-linear-attention: 'Triton is not supported ... roll back to CPU': "
         "that is this failure, not a missing GPU")),
        Repair(commands=("apt-get install gcc",)),
    )


def python_headers(surroundings: Surroundings) -> Iterable[Result]:
    """Python.h of the interpreter that runs the server, not of ours."""
    include = surroundings.environment.include
    if include is not None and (include / "Python.h").is_file():
        yield Result("python-headers", Status.OK, f"Python.h: {include}")
        return
    version = surroundings.environment.version
    dotted = f"{version[0]}.{version[1]}" if version else "3"
    yield Result(
        "python-headers", Status.ERROR,
        "Python.h of the environment's interpreter is missing; Triton cannot build its launcher",
        (f"looked in {include}", "expect: fatal error: Python.h: No such file or directory"),
        Repair(commands=(f"apt-get install python{dotted}-dev",)),
    )
