"""Which objects of a ninja cache a change makes stale, by what they were built from.

Never by time alone: an object newer than the patched source is just as stale when
it was built from another content (an image rebuilt over an older cache volume).
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from patcher.caches.actions import Action, CacheAction, Touched
from patcher.caches.includes import Includes
from patcher.caches.ninja import Build, BuildFile, read_build_file, recorded
from patcher.caches.paths import Found, expand
from patcher.caches.registry import CacheSpec

Logs = dict[Path, dict[str, tuple[str, ...]]]


@dataclass(frozen=True)
class Module:
    """A build folder of a cache: one library and its objects.

    ``version`` is the part of its path that stands for the package's version,
    empty where the cache has none. ``deps`` is what ninja recorded.
    """

    cache: str
    folder: Path
    place: Path
    version: str
    lock: str
    deps: Mapping[str, tuple[str, ...]]

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def build(self) -> BuildFile:
        """The build file; an empty one when it is missing or unreadable."""
        try:
            return read_build_file(self.folder / "build.ninja")
        except OSError:
            return BuildFile((), (), ())

    def objects(self) -> list[str]:
        """The object files that exist now."""
        return sorted(str(path) for path in self.folder.glob("*.o") if not path.is_symlink())

    def libraries(self) -> list[str]:
        return sorted(str(path) for path in self.folder.glob("*.so") if not path.is_symlink())

    def drop(self, path: str, reason: str) -> CacheAction:
        return CacheAction(self.cache, path, Action.DELETE, reason, str(self.place), self.lock)


class Changed:
    """Answers whether a recorded input is one of the changed files, under any of its names."""

    def __init__(self, touched: Touched) -> None:
        self.touched = touched
        self.includes = Includes()
        names = [os.path.join(touched.root, path) for path in touched.paths]
        self._absolute = {*map(os.path.normpath, names), *map(os.path.realpath, names)}
        self._leaves = {os.path.basename(name) for name in self._absolute}
        self._suffixes = tuple("/" + path for path in touched.paths if not path.startswith("/"))

    def match(self, module: Module, inputs: tuple[str, ...] | frozenset[str]) -> str | None:
        """The first of the inputs that is a changed file.

        In the folder of the package's own version its path below any root counts
        too (the environment was moved, or mounted elsewhere), and a copy of the
        same name among the generated sources.
        """
        ours = module.version in ("", self.touched.version)
        for path in inputs:
            if path[path.rfind("/") + 1:] not in self._leaves:
                continue
            if path in self._absolute or os.path.realpath(path) in self._absolute:
                return path
            if ours and (path.endswith(self._suffixes) or _is_generated(module, path)):
                return path
        return None


def module_folders(spec: CacheSpec, place: Path) -> Iterator[Found]:
    """The build folders below a place, and links that stand for one."""
    for found in expand(place, spec.modules.replace("{version}", "*")):
        if found.link or found.path.is_dir():
            yield found


def module_lock(spec: CacheSpec, folder: Path) -> str:
    """The lock file that a build in this folder holds; "" when the cache has none."""
    if not spec.module_lock:
        return ""
    return os.path.normpath(folder / spec.module_lock.replace("{module}", folder.name))


def read_module(spec: CacheSpec, place: Path, folder: Path, logs: Logs) -> Module:
    """A build folder with what ninja recorded, in it or one level up."""
    above = logs.setdefault(folder.parent, recorded(folder.parent))
    prefix = str(folder) + "/"
    deps = {out: names for out, names in above.items() if out.startswith(prefix)}
    parts = spec.modules.split("/")
    version = ""
    if "{version}" in parts:
        version = folder.relative_to(place).parts[parts.index("{version}")]
    return Module(spec.id, folder, place, version, module_lock(spec, folder),
                  deps | recorded(folder))


def stale_entries(spec: CacheSpec, place: Path, touched: Touched) -> Iterator[CacheAction]:
    """What must go from this cache, as far as recorded now."""
    changed = Changed(touched)
    logs: Logs = {}
    for found in module_folders(spec, place):
        if found.link:
            yield CacheAction(spec.id, str(found.path), Action.ADVISE,
                              "a link leads elsewhere; delete stale objects there yourself",
                              str(place))
        else:
            module = read_module(spec, place, found.path, logs)
            yield from _stale_in(module, changed, spec.lazy_until)


def _stale_in(module: Module, changed: Changed, lazy_until: str) -> Iterator[CacheAction]:
    reasons = _stale_objects(module, changed)
    for path, reason in sorted(reasons.items()):
        yield module.drop(path, reason)
    if reasons:
        # relinked from the new objects; alone it would be relinked from the stale ones
        for path in module.libraries():
            yield module.drop(path, "linked from stale objects")
    build_file = module.folder / "build.ninja"
    if _keeps_old_flags(module, changed.touched, lazy_until) and build_file.is_file():
        yield module.drop(str(build_file), "holds old flags, and this version never rewrites it")


def _stale_objects(module: Module, changed: Changed) -> dict[str, str]:
    # by name: up to 0.5.3 outputs are relative to the folder above (jit/core.py, run_ninja)
    builds = {os.path.basename(build.output): build for build in module.build.builds}
    reasons: dict[str, str] = {}
    unrecorded: dict[str, Build] = {}
    for path in module.objects():
        build = builds.get(os.path.basename(path))
        if (source := changed.match(module, module.deps.get(path, ()))) is not None:
            reasons[path] = f"built from {source}"
        elif build is not None and (build.is_host or path not in module.deps):
            unrecorded[path] = build
    for path, build in unrecorded.items():
        folders = (*module.build.include, *module.build.system)
        reached = changed.includes.closure(build.inputs[0], folders)
        if (source := changed.match(module, reached.files)) is not None:
            reasons[path] = f"may include {source}, which its dependency file leaves out"
        elif reasons and not reached.complete:
            reasons[path] = "an include of its source is a macro, so it may be concerned"
    return reasons


def _keeps_old_flags(module: Module, touched: Touched, lazy_until: str) -> bool:
    ours = module.version in ("", touched.version)
    named = any(fnmatch.fnmatchcase(module.name, pattern) for pattern in touched.modules)
    return ours and named and _is_lazy(touched.version, lazy_until)


def _is_lazy(version: str | None, until: str) -> bool:
    """True when this version writes build.ninja only where there is none, or is unknown."""
    if not until:
        return False
    from packaging.version import InvalidVersion, Version

    try:
        return version is None or Version(version) < Version(until)
    except InvalidVersion:
        return True


def _is_generated(module: Module, path: str) -> bool:
    """True for a source copied into the cache beside the modules, which share its version."""
    return path.startswith(str(module.folder.parent.parent / "generated") + "/")

