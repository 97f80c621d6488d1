"""Find the libraries a shared object needs, as the dynamic loader would.

Order, per ld.so(8): SONAMEs already loaded; DT_RPATH of the object and of its
loaders, unless the object has DT_RUNPATH; LD_LIBRARY_PATH; DT_RUNPATH of the
object; the loader's cache; the default folders. ``$ORIGIN`` is the folder where
the object was found; links are not resolved (glibc 2.36, measured with dlopen).
Libraries of another machine are passed over. Nothing is loaded.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patcher.binary.dynamic import Dynamic, read_dynamic
from patcher.errors import PatcherError

_DEFAULTS = ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
             "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib")
_CACHE_LINE = re.compile(r"^\s*(\S+) \(([^)]*)\) => (\S+)$", re.M)
_MAX_OBJECTS = 2000  # a closure larger than this is not a real process


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A needed library that the loader would not find; ``asker`` is who needs it."""

    name: str
    asker: Path


@dataclass(frozen=True, slots=True)
class Closure:
    """What would be loaded, by SONAME, and what would be missing."""

    loaded: Mapping[str, Dynamic]
    missing: tuple[Unresolved, ...]


def ld_cache() -> dict[str, Path]:
    """SONAME to file from the loader's cache; empty where there is no ldconfig."""
    for tool in ("/sbin/ldconfig", "/usr/sbin/ldconfig", "ldconfig"):
        try:
            run = subprocess.run([tool, "-p"], capture_output=True, text=True, check=False,
                                 timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            continue
        found: dict[str, Path] = {}
        for name, kind, path in _CACHE_LINE.findall(run.stdout):
            if "x86-64" in kind or "AArch64" in kind or "64bit" in kind:
                found.setdefault(name, Path(path))
        return found
    return {}


class Loader:
    """One process image: objects are added in load order and stay loaded.

    ``cache`` is the loader's (``ld_cache`` by default); ``read`` reads one object,
    for callers that keep what they have read.
    """

    def __init__(
        self,
        library_path: Sequence[str] = (),
        cache: Mapping[str, Path] | None = None,
        preloaded: Iterable[Path] = (),
        read: Callable[[Path], Dynamic] = read_dynamic,
    ) -> None:
        self._read = read
        self._library_path = tuple(p for p in library_path if p)
        self._cache = ld_cache() if cache is None else cache
        self._loaded: dict[str, Dynamic] = {}
        for path in preloaded:
            self.load(path)

    def fork(self) -> Loader:
        """A process that has loaded the same so far."""
        copy = Loader(self._library_path, self._cache, read=self._read)
        copy._loaded = dict(self._loaded)
        return copy

    def load(self, path: Path) -> Closure:
        """Load an object and everything it needs; ``missing`` is what this load did not find.

        Raises InputError when it is no ELF file.
        """
        root = self._read(Path(os.path.abspath(path)))
        missing: list[Unresolved] = []
        self._loaded.setdefault(root.soname or path.name, root)
        queue: list[tuple[Dynamic, tuple[Dynamic, ...]]] = [(root, ())]
        while queue and len(self._loaded) < _MAX_OBJECTS:
            asker, chain = queue.pop(0)
            for name in asker.needed:
                if name in self._loaded:
                    continue
                found = self._find(name, asker, chain)
                if found is None:
                    missing.append(Unresolved(name, asker.path))
                    continue
                self._loaded[name] = found
                queue.append((found, (asker, *chain)))
        return Closure(dict(self._loaded), tuple(missing))

    def _find(self, name: str, asker: Dynamic, chain: tuple[Dynamic, ...]) -> Dynamic | None:
        places = [Path(name)] if "/" in name else self._places(name, asker, chain)
        return next((found for place in places if (found := self._open(place, asker.machine))),
                    None)

    def _places(self, name: str, asker: Dynamic, chain: tuple[Dynamic, ...]) -> Iterator[Path]:
        for folder in self._folders(asker, chain):
            yield Path(folder, name)
        if name in self._cache:
            yield self._cache[name]
        for folder in _DEFAULTS:
            yield Path(folder, name)

    def _folders(self, asker: Dynamic, chain: tuple[Dynamic, ...]) -> Iterable[str]:
        if not asker.runpath:
            for owner in (asker, *chain):
                if not owner.runpath:
                    yield from (_expand(p, owner.path) for p in owner.rpath)
        yield from self._library_path
        yield from (_expand(p, asker.path) for p in asker.runpath)

    def _open(self, path: Path, machine: int) -> Dynamic | None:
        if not os.path.isfile(path):
            return None
        try:
            found = self._read(path)
        except PatcherError:
            return None  # the loader passes over what is no library of this kind
        return found if found.machine == machine else None


def _expand(folder: str, owner: Path) -> str:
    origin = str(owner.parent)
    return os.path.normpath(folder.replace("$ORIGIN", origin).replace("${ORIGIN}", origin))
