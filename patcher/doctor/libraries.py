"""The shared objects of an environment's packages: which there are, each read at most once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from patcher.binary.abi import Exports
from patcher.binary.dynamic import Dynamic, read_dynamic
from patcher.errors import InputError, PatcherError

# Their libraries are providers, or have nothing to do with GPUs and are many.
_PROVIDERS = ("torch", "nvidia", "triton", "numpy", "scipy", "pandas", "pyarrow", "sklearn")
_ROW = re.compile(r'^"?([^,"\n]+\.so)"?,', re.M)
_MAX_RECORD = 64 << 20
_MAX_LIBRARIES = 5000


class Libraries:
    """Extension libraries by package, and what each says to the loader.

    ``wanted`` are import names; none means every package that is installed.
    """

    def __init__(self, sites: Sequence[Path], wanted: Sequence[str] = ()) -> None:
        self._sites = sites
        self._wanted = frozenset(wanted)
        self._read: dict[Path, Dynamic | InputError] = {}

    @cached_property
    def extensions(self) -> Mapping[str, tuple[Path, ...]]:
        """Libraries by package name, from RECORD; from the folder where there is none."""
        found: dict[str, set[Path]] = {}
        recorded: set[str] = set()
        for site in self._sites:
            for info in sorted(site.glob("*.dist-info")):
                name = info.name.partition("-")[0]
                if (record := info / "RECORD").exists():
                    rows = [row for row in _rows(record) if _top(row) not in _PROVIDERS]
                else:  # an installer was interrupted, or an image was stripped
                    rows = [p.relative_to(site).as_posix() for p in (site / name).rglob("*.so")]
                    rows = [] if name in _PROVIDERS else rows
                tops = {_top(row) for row in rows}
                recorded |= tops
                if not self._wanted or tops & self._wanted:
                    found.setdefault(name, set()).update(site / row for row in rows)
        for name in self._wanted - recorded - set(_PROVIDERS):
            found.setdefault(name, set()).update(self._below(name))
        return {name: tuple(sorted(p for p in paths if p.is_file()))[:_MAX_LIBRARIES]
                for name, paths in sorted(found.items()) if paths}

    def _below(self, name: str) -> Iterator[Path]:
        for site in self._sites:
            yield from (site / name).rglob("*.so")

    def dynamic(self, path: Path) -> Dynamic:
        """``read_dynamic``, remembered; raises InputError each time for what cannot be read."""
        if path not in self._read:
            try:
                self._read[path] = read_dynamic(path)
            except PatcherError as error:
                self._read[path] = InputError(error.what, where=error.where)
        found = self._read[path]
        if isinstance(found, InputError):
            raise found
        return found

    @cached_property
    def torch(self) -> Path | None:
        """The folder ``torch/lib`` of the torch that would be imported."""
        places = (site / "torch" / "lib" for site in self._sites)
        return next((place for place in places if place.is_dir()), None)

    @cached_property
    def providers(self) -> tuple[Dynamic, ...]:
        """The libraries of that torch that can be read."""
        return tuple(self._providers())

    def _providers(self) -> Iterator[Dynamic]:
        for path in sorted(self.torch.glob("*.so")) if self.torch else ():
            try:
                yield self.dynamic(path)
            except InputError:
                continue  # the check of torch itself reports it

    @cached_property
    def exports(self) -> Exports | None:
        """What that torch exports; None without one."""
        return Exports.of(self.providers) if self.providers else None

    def needs_torch(self, path: Path) -> bool:
        """True for a library that names one of torch's among those it needs."""
        try:
            needed = self.dynamic(path).needed
        except InputError:
            return True  # so that what cannot be read is reported, and not passed over
        return any(name.startswith(("libtorch", "libc10")) for name in needed)


def recorded_libraries(info: Path) -> list[str]:
    """The libraries that a metadata folder's RECORD lists, below site-packages."""
    return _rows(info / "RECORD")


def _rows(record: Path) -> list[str]:
    try:
        if record.stat().st_size > _MAX_RECORD:
            return []
        text = record.read_text("utf-8", "replace")
    except OSError:
        return []
    return [row for row in _ROW.findall(text) if not row.startswith(("/", "..")) and
            "/../" not in row]


def _top(row: str) -> str:
    """The import name a row belongs to: its first folder, or an extension module's name."""
    return row.split("/")[0].split(".")[0]
