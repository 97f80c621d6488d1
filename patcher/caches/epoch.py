"""Cache folders of their own for each set of patched files and tools: none can be stale.

An epoch redirects only caches that can go stale after these patches. What would
move along without need (prebuilt cubins, fetched once and not to be had offline)
is pinned to where it was.
"""

from __future__ import annotations

import hashlib
import mmap
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from patcher.caches.actions import Touched
from patcher.caches.registry import CacheSpec, registry, variables
from patcher.errors import InputError

_TOOLS = {"nvcc": "bin/nvcc", "ptxas": "bin/ptxas", "cicc": "nvvm/bin/cicc"}
_CUDART = re.compile(rb"#define\s+CUDART_VERSION\s+(\d+)")
_RELEASE = re.compile(rb"release \d+\.\d+, V[\d.]+")
_BUILD = re.compile(rb"Build cuda_[\w./]+")


def epoch_of(digests: Mapping[str, str], tools: Mapping[str, str]) -> str:
    """SHA-256 over the packages' digests and the tools' versions, each as ``name NUL value``."""
    lines = [f"{name}\0{value}\n"
             for part in (digests, tools) for name, value in sorted(part.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def tool_versions(toolkit: Path | None) -> dict[str, str]:
    """The versions of nvcc, ptxas, cicc and the runtime's headers; ``absent`` where there is none.

    Read from the compilers themselves: a folder's name does not follow an
    update, and cicc has no option that tells.
    """
    versions = {name: _version(toolkit / path) if toolkit else "absent"
                for name, path in _TOOLS.items()}
    versions["cudart"] = _cudart(toolkit) if toolkit else "absent"
    return versions


def _version(tool: Path) -> str:
    """The release and build that a compiler was made as, else the hash of what stands there."""
    try:
        with open(tool, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            found = [match[0].decode() for pattern in (_RELEASE, _BUILD)
                     if (match := pattern.search(data))]
            return " ".join(found) or hashlib.sha256(data).hexdigest()
    except (OSError, ValueError):  # an empty file cannot be mapped
        return "absent"


def _cudart(toolkit: Path) -> str:
    try:
        found = _CUDART.search((toolkit / "include" / "cuda_runtime_api.h").read_bytes())
    except OSError:
        return "absent"
    return found[1].decode() if found else "absent"


def epoch_folder(epoch: str, environ: Mapping[str, str]) -> Path:
    """Where an epoch's caches are. Raises InputError without XDG_CACHE_HOME and HOME."""
    home = environ.get("XDG_CACHE_HOME") or (environ.get("HOME") and environ["HOME"] + "/.cache")
    if not home:
        raise InputError("neither HOME nor XDG_CACHE_HOME is set",
                         next_step="set one, or name the server with --env-from")
    return Path(home) / "sm-patch" / "epoch" / epoch


def epoch_variables(folder: Path, touched: Iterable[Touched],
                    environ: Mapping[str, str]) -> dict[str, str]:
    """The variables to set, by name: redirected caches, and pins of those that stay.

    A cache that a package of the environment stands for (flashinfer-cubin)
    needs no pin, and a pin would hide the package.
    """
    every = tuple(touched)
    moved = {spec.id: spec for spec in registry() if any(_stale(spec, each) for each in every)}
    chosen = {name: str(folder / part) for spec in moved.values() for name, part in spec.epoch}
    for spec in registry():
        packaged = any(spec.stands_in(each.root) for each in every)
        pin = None if spec.id in moved or packaged else _pin(spec, environ, chosen)
        if pin is not None:
            chosen.setdefault(*pin)
    return dict(sorted(chosen.items()))


def _stale(spec: CacheSpec, touched: Touched) -> bool:
    return bool(spec.epoch) and spec.concerns(touched.name) and bool(spec.stale(touched))


def _pin(spec: CacheSpec, environ: Mapping[str, str],
         chosen: Mapping[str, str]) -> tuple[str, str] | None:
    """The variable that keeps this cache where it is, if the chosen ones would move it."""
    for group in spec.places:
        own = group[0].removeprefix("$")
        before = spec.place(group, environ)
        if own in variables() and own not in chosen and before is not None \
                and spec.place(group, {**environ, **chosen}) != before:
            return own, str(before)
    return None
