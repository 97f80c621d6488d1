"""The atlas of caches: where each is, what its key leaves out, when a patch makes it stale.

The knowledge is ``data/caches.json``; this module reads it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from patcher.caches.actions import Touched
from patcher.errors import PatcherError
from patcher.tree import read_plain

_VARIABLE = re.compile(r"\$(\w+)")
_UNIT_SUFFIXES = (".cu", ".cpp", ".cc", ".cxx", ".c")


class Edit(str, Enum):
    """What kind of file an edit changed, as far as caches tell them apart."""

    PYTHON = "python_gate"
    UNIT = "cu"
    HEADER = "cuh"
    TOOLCHAIN = "toolchain"


class Method(str, Enum):
    """How a cache's stale entries are found and dropped."""

    NINJA = "ninja"  # the objects whose recorded dependencies name the file
    REMOVE = "remove"  # the paths the record names
    AOT = "aot"  # a module of the environment that shadows its source
    APPLY = "apply"  # apply itself takes care (.pyc files, the installer's hard links)
    ADVISE = "advise"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Staleness:
    """Whether an entry survives an edit although stale: yes, partial, no, n/a; and why."""

    verdict: str
    why: str = ""

    @property
    def possible(self) -> bool:
        return self.verdict in ("yes", "partial")


@dataclass(frozen=True, slots=True)
class CacheSpec:
    """One record of the atlas.

    ``places`` are groups of alternatives, in order of precedence; ``paths`` and
    ``modules`` are globs below a place, where ``{version}`` is the package's.
    ``kernels`` names the .py files that are kernels or helpers here: all ("*"),
    or those beside a file that imports this module; "" when kernels are C++.
    ``package_folder`` is an import package that is used in the cache's place.
    """

    id: str
    name: str
    packages: tuple[str, ...]
    places: tuple[tuple[str, ...], ...]
    method: Method
    paths: tuple[str, ...]
    modules: str
    module_lock: str
    lazy_until: str
    epoch: tuple[tuple[str, str], ...]
    kernels: str
    stale_after: Mapping[Edit, Staleness]
    advice: str
    package_folder: str

    def folders(self, environ: Mapping[str, str]) -> tuple[Path, ...]:
        """The folders this cache uses under these variables, whether they exist or not."""
        found = [self.place(group, environ) for group in self.places]
        return tuple(dict.fromkeys(place for place in found if place is not None))

    @staticmethod
    def place(alternatives: Iterable[str], environ: Mapping[str, str]) -> Path | None:
        """The first alternative whose variables are set, as a folder; None when none is."""
        for template in alternatives:
            if not all(environ.get(name) for name in _VARIABLE.findall(template)):
                continue
            # DG_JIT_CACHE_DIR is a list whose first folder is written to
            text = _VARIABLE.sub(lambda match: environ[match[1]].split(":")[0], template)
            if PurePosixPath(text).is_absolute():  # "off" and "0" disable some caches
                return Path(text)
        return None

    def concerns(self, package: str) -> bool:
        return "*" in self.packages or package in self.packages

    def stands_in(self, root: str) -> bool:
        """True when an installed package is used in place of this cache."""
        return bool(self.package_folder) and os.path.isdir(os.path.join(root, self.package_folder))

    def stale(self, touched: Touched) -> str:
        """Why entries go stale when these files change; empty when they do not."""
        edits = {edit for path in touched.paths for edit in self.edits_of(path, touched.root)}
        if touched.modules:
            edits.add(Edit.PYTHON)
        for edit in Edit:
            found = self.stale_after.get(edit)
            if edit in edits and found and found.possible:
                return found.why or f"its key does not cover {MEANING[edit]}"
        return ""

    def edits_of(self, path: str, root: str) -> frozenset[Edit]:
        """Which kinds of edit a change of this file may be for this cache."""
        if path.startswith("/"):
            return frozenset({Edit.TOOLCHAIN})
        if path.endswith(".py"):
            kernel = self.kernels == "*" or (
                self.kernels and _imports(os.path.dirname(os.path.join(root, path)), self.kernels))
            return frozenset({Edit.PYTHON, *((Edit.UNIT, Edit.HEADER) if kernel else ())})
        if self.kernels:
            return frozenset()
        return frozenset({Edit.UNIT if path.endswith(_UNIT_SUFFIXES) else Edit.HEADER})


MEANING = {
    Edit.PYTHON: "Python code",
    Edit.UNIT: "kernel sources",
    Edit.HEADER: "headers",
    Edit.TOOLCHAIN: "the toolkit",
}


def _imports(folder: str, module: str) -> bool:
    """True when a Python file of the folder imports the module at its top level."""
    pattern = re.compile(rb"^(?:import|from)\s+" + module.encode() + rb"\b", re.MULTILINE)
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".py")]
        return any(pattern.search(read_plain(os.path.join(folder, name))) for name in names)
    except (OSError, PatcherError):
        return True  # what cannot be read may be a kernel


def _spec(row: dict[str, Any]) -> CacheSpec:
    stale = {Edit(edit): Staleness(entry["v"], entry.get("why", ""))
             for edit, entry in row["stale_after"].items()}
    return CacheSpec(
        id=row["id"], name=row["name"], packages=tuple(row["packages"]),
        places=tuple(tuple(group) for group in row["places"]), method=Method(row["method"]),
        paths=tuple(row.get("paths", ())), modules=row.get("modules", ""),
        module_lock=row.get("module_lock", ""),
        lazy_until=row.get("lazy_build_file", {}).get("until", ""),
        epoch=tuple(row.get("epoch", {}).items()),
        kernels=row.get("kernels", ""),
        stale_after=stale, advice=row["advice"],
        package_folder=row.get("package_folder", ""),
    )


@cache
def registry() -> tuple[CacheSpec, ...]:
    """Every cache of the atlas, in its order."""
    path = Path(__file__).parents[1] / "data" / "caches.json"
    return tuple(_spec(row) for row in json.loads(path.read_text("utf-8"))["caches"])


def spec(identifier: str) -> CacheSpec:
    """The record with this id; KeyError when the atlas has none."""
    return {entry.id: entry for entry in registry()}[identifier]


@cache
def variables() -> frozenset[str]:
    """The environment variables that decide where a cache is: all that may ever be read."""
    templates = (t for entry in registry() for group in entry.places for t in group)
    named = {name for template in templates for name in _VARIABLE.findall(template)}
    return frozenset(named | {"HOME"} | {v for entry in registry() for v, _ in entry.epoch})
