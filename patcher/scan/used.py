"""Which modules this user has built: the build folders of the JIT caches."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from patcher.caches.invalidate import places
from patcher.caches.paths import expand
from patcher.caches.registry import Method
from patcher.scan.model import PackageRow, Report

_BUILT = ("build.ninja", "*.so", "*.o")  # a folder of locks has none


def used_first(report: Report, environ: Mapping[str, str]) -> Report:
    """The report with the modules that are in the caches in front, otherwise in their order."""
    names = tuple(sorted({name for p in report.packages for name in _names(p, environ)}))
    modules = sorted(report.modules, key=lambda module: not is_used(module.name, names))
    return replace(report, modules=tuple(modules), used=names)


def is_used(module: str, names: Iterable[str]) -> bool:
    """True when one of the names is this module; a ``*`` in it stands for any data type."""
    return any(fnmatch.fnmatchcase(name, module) for name in names)


def _names(package: PackageRow, environ: Mapping[str, str]) -> Iterator[str]:
    for place, specs in places(package.name, environ).items():
        for spec in specs:
            if spec.method is Method.NINJA:
                pattern = spec.modules.replace("{version}", package.version or "*")
                yield from (found.path.name for found in expand(place, pattern)
                            if not found.link and _is_built(found.path))


def _is_built(folder: Path) -> bool:
    return any(next(folder.glob(pattern), None) is not None for pattern in _BUILT)
