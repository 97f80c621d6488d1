"""Build JIT modules before the server restarts, from the build files that are already there.

A module that was never built here has none: its package writes it on first use,
with flags that only the package knows, so then the line that does it is told.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path

from patcher.affected import Installed
from patcher.caches.actions import Action, CacheAction, Touched
from patcher.caches.jit import Changed, Logs, module_folders, module_lock, read_module
from patcher.caches.locks import ModuleLocks
from patcher.caches.registry import CacheSpec, Method, registry
from patcher.errors import ToolFailed
from patcher.profiles.base import JitModule
from patcher.units import affected, is_source

_CCACHE = re.compile(r"^nvcc(?:_launcher)? *=.*\bccache\b", re.M)
_TOOLKIT = re.compile(r"^cuda_home *= *(\S+)|(?<=\s)(/\S+)/bin/nvcc$", re.M)
_OUTPUT = re.compile(r"^(?:FAILED:.*|.*\b(?:error|fatal)\b.*)$", re.M | re.I)


class Result(str, Enum):
    """What became of a module."""

    BUILT = "built"
    CURRENT = "current"  # nothing was stale
    FAILED = "failed"
    ABSENT = "absent"  # never built here; ``detail`` is the line to run


@dataclass(frozen=True, slots=True)
class Warmed:
    """One module and its build folder (None when there is none); ``detail`` says why or how."""

    module: str
    folder: str | None
    result: Result
    detail: str = ""


def touched_modules(installed: Installed, touched: Touched) -> Touched:
    """``touched`` with all modules that may compile its files, as far as the profile knows."""
    sources = [path for path in touched.paths if is_source(path)]
    package = installed.package
    units = installed.profile.translation_units(package, installed.toolkit()) if sources else []
    reached = affected(package.tree, package.top, units, sources) if sources else []
    names = frozenset(name for unit in reached for name in unit.modules)
    return replace(touched, compiled=touched.compiled | names)


def warm(installed: Installed, touched: Touched, environ: Mapping[str, str], *,
         jobs: int, lock_timeout: float) -> Iterator[Warmed]:
    """Build each module that has a build file, under the lock its package would take.

    Raises ToolFailed without ninja, LockHeld while the package itself builds.
    """
    package, seen, changed = installed.package, set[str](), Changed(touched)
    for spec in registry():
        if spec.method is not Method.NINJA or not spec.concerns(package.name):
            continue
        for place in spec.folders(environ):
            if place.is_dir():
                for folder in _folders(spec, place, changed):
                    seen.add(folder.name)
                    with ModuleLocks(lock_timeout) as locks:
                        locks.take([_step(spec, place, folder)])
                        yield _build(folder, jobs)
    for module in installed.modules:
        missing = module.name in touched.modules and module.name not in seen
        if missing and not any(fnmatchcase(name, module.name) for name in seen):
            yield Warmed(module.name, None, Result.ABSENT, _line(module))


def _folders(spec: CacheSpec, place: Path, changed: Changed) -> Iterator[Path]:
    """Those that the profile names, and those that ninja recorded a changed file for."""
    touched, logs = changed.touched, Logs()
    patterns = touched.modules | touched.compiled
    for found in module_folders(spec, place):
        if found.link or not (found.path / "build.ninja").is_file():
            continue
        module = read_module(spec, place, found.path, logs)
        named = any(fnmatchcase(module.name, pattern) for pattern in patterns)
        if module.version in ("", touched.version) and (
                named or any(changed.match(module, inputs) for inputs in module.deps.values())):
            yield found.path


def _step(spec: CacheSpec, place: Path, folder: Path) -> CacheAction:
    return CacheAction(spec.id, str(folder), Action.DELETE, "build", str(place),
                       module_lock(spec, folder))


def _build(folder: Path, jobs: int) -> Warmed:
    build_file = folder / "build.ninja"
    text = build_file.read_text("utf-8", "replace")
    relative = re.search(r"^build (?!/)(?!\$\w*root)\S", text, re.M) is not None
    where = folder.parent if relative else folder  # up to 0.5.3 outputs are relative to that
    command = [_ninja(), "-C", str(where), "-f", str(build_file), "-j", str(jobs)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace",
                         stdin=subprocess.DEVNULL, env={**os.environ, **_for_ccache(text)})
    if run.returncode:
        reason = _OUTPUT.search(run.stdout + run.stderr)
        return Warmed(folder.name, str(folder), Result.FAILED,
                      reason[0].strip() if reason else f"ninja ended with {run.returncode}")
    current = "no work to do" in run.stdout
    return Warmed(folder.name, str(folder), Result.CURRENT if current else Result.BUILT)


def _for_ccache(text: str) -> dict[str, str]:
    """ccache, where a build file starts nvcc with it, knows nvcc by its size and time alone: a
    result of another cicc or ptxas behind it would be taken for one of these."""
    if not _CCACHE.search(text):
        return {}
    parts = [os.path.join(root, part) for found in _TOOLKIT.findall(text) for root in found if root
             for part in ("nvvm/bin/cicc", "bin/ptxas")]
    before = os.environ.get("CCACHE_EXTRAFILES", "").split(os.pathsep)
    files = [*filter(None, before), *filter(os.path.isfile, parts)]
    return {"CCACHE_EXTRAFILES": os.pathsep.join(dict.fromkeys(files))}


def _ninja() -> str:
    beside = Path(sys.executable).parent / "ninja"
    found = shutil.which("ninja") or (str(beside) if os.access(beside, os.X_OK) else None)
    if found is None:
        raise ToolFailed("no ninja here", next_step="pip install ninja")
    return found


def _line(module: JitModule) -> str:
    """The call that makes the package itself build the module."""
    function, path = module.generator.function, module.generator.path
    if "*" in module.name or "." in function:
        return "depends on the arguments of a call: it is built at its first use"
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"python -c 'from {name} import {function} as make; make().build(False)'"
