"""The host compiler behind nvcc: asked once per process, or shipped data in its place."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from patcher.toolchain.model import HostCompiler

PLATFORMS = ("x86_64", "aarch64")
_TIMEOUT = 20
_DEFINE = re.compile(r"#define (\w+(?:\([^)]*\))?)(?: (.*))?$")
_DATA = Path(__file__).parent.parent / "data"


def machine_platform() -> str:
    """This machine's platform as nvcc's folders know it; x86_64 when it is neither."""
    machine = platform.machine()
    return "aarch64" if machine in ("aarch64", "arm64") else "x86_64"


def find_host_compiler(target: str | None = None, standard: str = "c++17") -> HostCompiler:
    """nvcc's default host compiler (gcc on PATH, NVCC_CCBIN first) for a platform.

    A compiler of this machine says nothing about another platform: then, and
    with none installed, shipped predefines stand in and the answer is assumed.
    """
    wanted = target or machine_platform()
    if wanted == machine_platform():
        named = os.environ.get("NVCC_CCBIN")
        found = shutil.which(named) if named else shutil.which("gcc")
        if found and (asked := _ask(found, standard)):
            return asked
    return shipped_host_compiler(wanted, standard)


@cache
def _ask(compiler: str, standard: str) -> HostCompiler | None:
    command = [compiler, "-x", "c++", f"-std={standard}", "-E", "-v", "-dM", "/dev/null"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT,
                              check=True, env={**os.environ, "LC_ALL": "C"})
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r"^(?:gcc|g\+\+|clang) version (\S+)|version (\d[\w.]*)", done.stderr, re.M)
    return HostCompiler(Path(compiler), (version[1] or version[2]) if version else "",
                        _search_list(done.stderr), _macros(done.stdout), assumed=False)


def _search_list(talk: str) -> tuple[str, ...]:
    """The ``#include <...>`` list that ``-v`` prints, made absolute."""
    _, _, rest = talk.partition("#include <...> search starts here:")
    listed, _, _ = rest.partition("End of search list.")
    folders = (line.split(" (")[0].strip() for line in listed.splitlines())
    return tuple(os.path.normpath(f) for f in folders if f)


def _macros(text: str) -> tuple[tuple[str, str], ...]:
    """The definitions of a ``-dM`` dump, sorted; a function-like one keeps its parameters."""
    matches = (_DEFINE.match(line) for line in text.splitlines())
    return tuple(sorted((m[1], m[2] or "") for m in matches if m))


@cache
def shipped_host_compiler(target: str, standard: str = "c++17") -> HostCompiler:
    """gcc 12's predefines as measured for the platform (data/host_*.json); no headers."""
    data = json.loads((_DATA / f"host_{target}.json").read_text("utf-8"))
    macros = {**data["macros"], **data["standards"].get(standard, {})}
    known = sorted((name, body) for name, body in macros.items() if body is not None)
    return HostCompiler(None, str(macros.get("__VERSION__", "12")).strip('"'), (),
                        tuple(known), assumed=True)
