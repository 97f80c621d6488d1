"""Find the CUDA toolkit: named, in the environment, on PATH, in the usual places, in wheels."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from patcher.binary.mapped import mapped
from patcher.errors import InputError, UsageError
from patcher.package.model import Environment
from patcher.toolchain.host import PLATFORMS, find_host_compiler, machine_platform
from patcher.toolchain.model import HostCompiler, Toolkit
from patcher.tree import matching, plain_text

DEFAULT_VERSION = "13.0"  # the release that the shipped instruction table was measured with
_FOLDERS = {"x86_64": "x86_64-linux", "aarch64": "sbsa-linux"}
_MACHINES = {62: "x86_64", 183: "aarch64"}  # e_machine in the ELF header
_VERSION = re.compile(r"\d+(\.\d+){0,2}$")
_CUDA_H = re.compile(r"#define\s+(?:CUDA_VERSION|CUDART_VERSION)\s+(\d+)")
_JSON = re.compile(r'"cuda"\s*:\s*\{[^}]*?"version"\s*:\s*"(\d+\.\d+)')
_TOOL = re.compile(rb"release \d+\.\d+, V(\d+\.\d+\.\d+)")
_WRAPPED = re.compile(rb"(/[\w./+-]*/nvcc)\b")
_SHARED = re.compile(r"cu\d+$")
_WRAPPER_BYTES = 8192
__all__ = ["DEFAULT_VERSION", "HostCompiler", "Toolkit", "find_toolkit", "find_toolkits",
           "toolkit_at"]


def find_toolkit(spec: str | None = None, environment: Environment | None = None, *,
                 platform: str | None = None) -> Toolkit:
    """The toolkit that nvcc calls of this environment would use, or the one named.

    ``spec`` is a folder, an nvcc, or a version (``12.9``). Without a toolkit the
    answer is DEFAULT_VERSION, marked as assumed, so that questions that do not
    need headers are answered all the same. Raises UsageError for a spec that is
    neither a version nor a path, InputError for a path without a toolkit.
    """
    where = platform or machine_platform()
    if where not in PLATFORMS:
        raise UsageError(f"unknown platform {where!r}", next_step="known: " + " ".join(PLATFORMS))
    if spec and _VERSION.match(spec):
        return _by_version(spec, environment, where)
    if spec:
        root = _root_of(Path(os.path.abspath(spec)))
        found = toolkit_at(root, f"--cuda {spec}", where) if root else None
        if found is None:
            raise InputError("no CUDA toolkit here: neither bin/nvcc nor include/cuda.h",
                             where=spec, next_step="name its folder or a version such as 13.0")
        return found
    for reason, root in _candidates(environment):
        if found := toolkit_at(root, reason, where):
            return found
    return _without(DEFAULT_VERSION, where, assumed=True,
                    reason=f"no toolkit found: CUDA {DEFAULT_VERSION} is assumed")


def find_toolkits(spec: str | None = None, environment: Environment | None = None, *,
                  environ: Mapping[str, str] | None = None) -> list[Toolkit]:
    """Every toolkit that is there, the one that builds would use first; for a spec that alone.

    ``environ`` are the variables of the server. Raises as ``find_toolkit`` does.
    """
    if spec:
        return [find_toolkit(spec, environment, platform=_named_platform(spec))]
    found: dict[str, Toolkit] = {}
    for reason, root in _candidates(environment, environ):
        place = os.path.realpath(root)
        if place not in found and (toolkit := toolkit_at(root, reason, platform_of(root))):
            found[place] = toolkit
    return list(found.values())


def _named_platform(spec: str) -> str:
    root = None if _VERSION.match(spec) else _root_of(Path(os.path.abspath(spec)))
    return platform_of(root) if root else machine_platform()


def platform_of(root: Path) -> str:
    """The platform a toolkit is for: its only target folder's, that of its nvcc, else ours."""
    present = [name for name, folder in _FOLDERS.items()
               if os.path.isdir(root / "targets" / folder)]
    return present[0] if len(present) == 1 else _processor(root / "bin" / "nvcc")


def _processor(program: Path) -> str:
    """What an ELF program runs on, from its header; this machine's when it does not say."""
    try:
        with mapped(program) as data:
            header = data[:20]
    except (OSError, ValueError):
        header = b""
    number = int.from_bytes(header[18:20], "little") if header.startswith(b"\x7fELF") else 0
    return _MACHINES.get(number) or machine_platform()


def _by_version(spec: str, environment: Environment | None, where: str) -> Toolkit:
    wanted = ".".join((spec + ".0").split(".")[:2])
    for reason, root in _candidates(environment):
        found = toolkit_at(root, f"--cuda {spec}: {reason}", where)
        if found and found.version == wanted:
            return found
    return _without(wanted, where, assumed=False,
                    reason=f"--cuda {spec}: not installed, its headers are missing")


def _without(version: str, where: str, *, assumed: bool, reason: str) -> Toolkit:
    return Toolkit(version, None, None, (), (), find_host_compiler(where), where, assumed, reason)


def toolkit_at(root: Path, reason: str, where: str) -> Toolkit | None:
    """The toolkit in a folder, None when there is neither nvcc nor cuda.h."""
    nvcc = root / "bin" / "nvcc"
    include = _include(root, where)
    if not os.path.isfile(nvcc) and not os.path.isfile(include / "cuda.h"):
        return None
    tool = tool_version(nvcc)
    headers = _header_version(include) or _json_version(root)
    version = headers or ".".join(tool.split(".")[:2])
    if not version:
        return None
    notes = []
    if tool and headers and not tool.startswith(f"{headers}."):
        notes.append(f"nvcc is {tool}, its headers are {headers}")
    if not os.path.isfile(include / "cuda_runtime.h"):
        notes.append(f"{include} has no cuda_runtime.h")
    folders = [include, *_split_wheels(root)]
    cccl = [f / "cccl" for f in folders if os.path.isdir(f / "cccl")]
    return Toolkit(version, root, nvcc if os.path.isfile(nvcc) else None,
                   tuple(str(f) for f in folders if os.path.isdir(f)), tuple(map(str, cccl)),
                   find_host_compiler(where), where, False, reason, tuple(notes), tool)


def _include(root: Path, where: str) -> Path:
    """nvcc's own choice: the target's folder when there is one."""
    target = root / "targets" / _FOLDERS[where] / "include"
    return target if os.path.isdir(target) else root / "include"


def _split_wheels(root: Path) -> list[Path]:
    """Include folders of sibling wheels: before CUDA 13 each library has a folder of its own.

    From cu13 on all share one, and what lies beside it belongs to another release.
    """
    home = root.parent
    if home.name != "nvidia" or _SHARED.match(root.name):
        return []
    return [f for f in matching(home, "*/include")
                  if f.parent != root and not _SHARED.match(f.parent.name)]


def _header_version(include: Path) -> str:
    for name in ("cuda.h", "cuda_runtime_api.h"):
        if match := _CUDA_H.search(plain_text(include / name)):
            number = int(match[1])
            return f"{number // 1000}.{number % 1000 // 10}"
    return ""


def _json_version(root: Path) -> str:
    match = _JSON.search(plain_text(root / "version.json"))
    return match[1] if match else ""


def has_text(tool: Path, text: str) -> bool:
    """True for a program that holds this text; it is not run."""
    try:
        with mapped(tool) as data:
            return data.find(text.encode()) >= 0
    except (OSError, ValueError):
        return False


def tool_version(tool: Path) -> str:
    """The full version (``13.0.88``) in the text of nvcc or cicc, "" without; it is not run."""
    try:
        with mapped(tool) as data:
            match = _TOOL.search(data)
            return match[1].decode() if match else ""
    except (OSError, ValueError):
        return ""


def _candidates(environment: Environment | None,
                environ: Mapping[str, str] | None = None) -> Iterator[tuple[str, Path]]:
    """Where a toolkit may be, in the order builds look, each with the reason to say."""
    variables = os.environ if environ is None else environ
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if value := variables.get(variable):
            yield f"{variable}={value}", Path(value)
    found = shutil.which("nvcc", path=variables.get("PATH"))
    if found and (root := _root_of(Path(found))):
        yield f"nvcc on PATH ({found})", root
    yield "the usual place", Path("/usr/local/cuda")
    newest = sorted(matching(Path("/usr/local"), "cuda-*"), key=_by_number, reverse=True)
    for root in [*newest, Path("/opt/cuda")]:
        yield "the usual place", root
    for site in environment.site_packages if environment else ():
        yield from _wheels(site)
    conda = environment.prefix if environment and environment.prefix else None
    for prefix in _distinct([conda, variables.get("CONDA_PREFIX")]):
        yield "conda", prefix


def _wheels(site: Path) -> Iterator[tuple[str, Path]]:
    nvidia = site / "nvidia"
    for root in sorted(matching(nvidia, "cu[0-9]*"), key=_by_number, reverse=True):
        yield "wheels of the package's environment", root
    yield "wheels of the package's environment", nvidia / "cuda_runtime"


def _by_number(path: Path) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", path.name)]


def _distinct(places: Iterable[Path | str | None]) -> list[Path]:
    return list(dict.fromkeys(Path(p) for p in places if p))


def _root_of(path: Path) -> Path | None:
    """The toolkit's folder from a folder or an nvcc: links and shell wrappers are followed."""
    if os.path.isdir(path):
        return path
    for _ in range(4):
        real = Path(os.path.realpath(path))
        if not os.path.isfile(real):
            return None
        wrapped = _wrapped(real)
        if wrapped is None:
            return real.parent.parent
        path = wrapped
    return None


def _wrapped(path: Path) -> Path | None:
    """The nvcc that a small shell script runs, None for a real one."""
    with mapped(path) as data:
        head = data[:_WRAPPER_BYTES]
    match = _WRAPPED.search(head) if head.startswith(b"#!") else None
    return Path(match[1].decode()) if match else None
