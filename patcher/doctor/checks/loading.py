"""Libraries that the loader will not find once torch is imported, as it would look for them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Any

from patcher.binary.loader import Loader, Unresolved, ld_cache
from patcher.doctor.model import Repair, Result, Status, Surroundings
from patcher.errors import PatcherError
from patcher.tree import matching, plain_text

_DATA = Path(__file__).parents[2] / "data" / "cuda_wheels.json"
_DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1", "libcudadebugger.so.1")
# What `import torch` opens, in its order (torch/__init__.py, 2.8.0 to 2.11.0).
_TORCH = ("libtorch_global_deps.so", "libtorch_python.so")
_MENTION = re.compile(r"\blib\w+\.so(?:\.\d+)*")
_OURS = re.compile(r"lib(cu|nv|npp)")  # what wheels bring; the rest is the system's
_HOMES = ("nvidia/*/lib", "torch/lib")


def needed_libraries(surroundings: Surroundings) -> Iterable[Result]:
    """DT_NEEDED of every extension, after ``import torch`` and the package's own preloads."""
    libraries = surroundings.libraries
    image = surroundings.environment.root is not None
    base = Loader((surroundings.variables.get("LD_LIBRARY_PATH") or "").split(":"),
                  {} if image else ld_cache(), read=libraries.dynamic)
    for path in [libraries.torch / name for name in _TORCH] if libraries.torch else ():
        _load(base, path)
    for name, paths in libraries.extensions.items():
        process = base.fork()
        for path in _preloads(name, surroundings):
            _load(process, path)
        lost: dict[str, Unresolved] = {}
        for path in filter(libraries.needs_torch, paths):
            for missing in _load(process.fork(), path):
                lost.setdefault(missing.name, missing)
        found = [m for m in lost.values() if m.name not in _DRIVER
                 and not m.name.startswith(("libtorch", "libc10"))  # the ABI check speaks of torch
                 and (not image or _OURS.match(m.name))]
        yield from _explained(name, found, surroundings)
        if not found and any(map(libraries.needs_torch, paths)):
            yield Result(f"loader-{name}", Status.OK, f"{name}: the loader finds what it needs")


def _load(process: Loader, path: Path) -> tuple[Unresolved, ...]:
    try:
        return process.load(path).missing
    except PatcherError:
        return ()  # the ABI check reports what cannot be read


def _preloads(name: str, surroundings: Surroundings) -> Iterator[Path]:
    """Libraries that the package's own Python code opens by name before it loads its own."""
    folder = surroundings.anywhere(name)
    for source in matching(folder, "*.py") if folder else ():
        text = plain_text(source)
        if "CDLL(" in text:
            for mention in dict.fromkeys(_MENTION.findall(text)):
                yield from _present(mention, surroundings)


def _present(pattern: str, surroundings: Surroundings) -> list[Path]:
    return [path for site in surroundings.environment.site_packages for home in _HOMES
            for path in matching(site, f"{home}/{pattern}")]


def _explained(package: str, lost: list[Unresolved],
               surroundings: Surroundings) -> Iterator[Result]:
    """One result for each library that is here all the same, one for all that are not."""
    absent = []
    for missing in lost:
        stem = missing.name.partition(".so.")[0]
        present = _present(f"{stem}.so*", surroundings)
        exact = next((path for path in present if path.name == missing.name), None)
        others = [path for path in present if path.name != f"{stem}.so"]
        if exact:
            folder = quote(str(exact.parent))
            yield Result(
                f"loader-{package}", Status.ERROR,
                f"{missing.name} is installed, but the loader will not find it",
                (*_evidence(missing), f"it is {exact}"),
                Repair(commands=(f"export LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH",)))
        elif others:
            yield Result(
                f"loader-{package}", Status.ERROR,
                f"{package} needs {missing.name}, and only {others[0].name} is here: its wheel is "
                f"for CUDA {_major(missing.name)}",
                (*_evidence(missing), f"found {others[0]}",
                 "a link from one major version to another loads, and crashes later"),
                Repair(advice=(f"install the {package} wheel built for this CUDA",)))
        else:
            absent.append(missing)
    if absent:
        yield _absent(package, absent, surroundings)


def _absent(package: str, absent: list[Unresolved], surroundings: Surroundings) -> Result:
    """Sure to fail on this machine; another one may bring what is missing in an image."""
    names = ", ".join(missing.name for missing in absent)
    image = surroundings.environment.root is not None
    return Result(
        f"loader-{package}", Status.WARNING if image else Status.ERROR,
        f"{names}, which {package} needs, {'is' if len(absent) == 1 else 'are'} not here",
        _evidence(absent[0]), Repair(commands=_bringing(absent, surroundings.torch_cuda)))


def _evidence(missing: Unresolved) -> tuple[str, ...]:
    return (f"needed by {missing.asker}",
            f"expect: ImportError: {missing.name}: cannot open shared object file")


def _major(name: str) -> str:
    return name.partition(".so.")[2].split(".")[0]


def _bringing(absent: list[Unresolved], torch_cuda: str | None) -> tuple[str, ...]:
    """Commands that install what brings these libraries; from CUDA 13 on wheels lose the suffix."""
    known = _wheels()
    stems = {m.name: m.name.partition(".so.")[0] for m in absent}
    wheels = {n: known["libraries"][s] for n, s in stems.items() if s in known["libraries"]}
    cuda = next((_major(n) for n, w in wheels.items() if w in known["numbered_like_cuda"]),
                (torch_cuda or "").split(".")[0])
    lines = []
    if wheels and cuda:
        plain = int(cuda) >= 13
        lines.append("pip install " + " ".join(dict.fromkeys(
            f"nvidia-{wheel}" if plain and wheel not in known["own_number"]
            else f"nvidia-{wheel}-cu{cuda}" for wheel in wheels.values())))
    if system := [known["system"][n] for n in stems if n in known["system"]]:
        lines.append(f"apt-get install {' '.join(system)}")
    return tuple(lines)


@cache
def _wheels() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_DATA.read_text("utf-8"))
    return document
