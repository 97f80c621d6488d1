"""A package's files as they were, where an installer still keeps them: uv's and pip's caches.

Only bytes with RECORD's hash are taken, so nothing in a cache has to be
trusted, and a cache that was edited through a hard link gives nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

from patcher.engine.target import matches_record
from patcher.errors import InputError, UnsafePath
from patcher.package.model import Package
from patcher.tree import FolderTree, Tree, WheelTree, exists, matching

_MAX_BODIES = 2000  # of pip's downloads, newest first; each is opened to see what it holds


@dataclass(frozen=True)
class Kept:
    """What the caches of this user hold of one package; looked for when first asked."""

    package: Package
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def read(self, path: str) -> bytes | None:
        """The bytes that RECORD lists for a path; None when no cache has them."""
        for tree in self._trees:
            try:
                data = tree.read(path)
            except (OSError, InputError, UnsafePath):
                continue
            if matches_record(self.package.record, path, data):
                return data
        return None

    @cached_property
    def _trees(self) -> tuple[Tree, ...]:
        return tuple(self._found()) if self.package.dist_info else ()

    def _found(self) -> Iterator[Tree]:
        for info in matching(self._folder("UV_CACHE_DIR", "uv"),
                             f"archive-v*/*/{self.package.dist_info}"):
            yield FolderTree(info.parent)
        pip = self._folder("PIP_CACHE_DIR", "pip")
        bodies = sorted(matching(pip / "http-v2", "**/*.body"), key=_age)
        for place in (*matching(pip / "wheels", "**/*.whl"), *islice(bodies, _MAX_BODIES)):
            try:
                wheel = WheelTree(place)
            except (InputError, UnsafePath):
                continue  # an index page, or damaged
            if exists(wheel, f"{self.package.dist_info}/RECORD"):
                yield wheel

    def _folder(self, variable: str, name: str) -> Path:
        home = self.environ.get("HOME") or "/nonexistent"
        caches = self.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
        return Path(self.environ.get(variable) or os.path.join(caches, name))


def _age(place: Path) -> float:
    try:
        return -place.stat().st_mtime
    except OSError:
        return 0.0
