"""The shared objects of an environment's packages: which there are, each read at most once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from patcher.binary.abi import Exports
from patcher.binary.dynamic import Dynamic, read_dynamic
from patcher.errors import InputError, PatcherError
from patcher.tree import matching, plain_text

# Their libraries are providers, or have nothing to do with GPUs and are many.
_PROVIDERS = ("torch", "nvidia", "triton", "numpy", "scipy", "pandas", "pyarrow", "sklearn")
_ROW = re.compile(r'^"?([^,"\n]+\.so)"?,', re.M)
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
            for info in matching(site, "*.dist-info"):
                name = info.name.partition("-")[0]
                if os.path.exists(record := info / "RECORD"):
                    rows = [row for row in _rows(record) if _top(row) not in _PROVIDERS]
                else:  # an installer was interrupted, or an image was stripped
                    rows = [path.relative_to(site).as_posix()
                            for path in matching(site / name, "**/*.so")]
                    rows = [] if name in _PROVIDERS else rows
                tops = {_top(row) for row in rows}
                recorded |= tops
                if not self._wanted or tops & self._wanted:
                    found.setdefault(name, set()).update(site / row for row in rows)
        for name in self._wanted - recorded - set(_PROVIDERS):
            found.setdefault(name, set()).update(self._below(name))
        return {name: tuple(sorted(p for p in paths if os.path.isfile(p)))[:_MAX_LIBRARIES]
                for name, paths in sorted(found.items()) if paths}

    def _below(self, name: str) -> Iterator[Path]:
        for site in self._sites:
            yield from matching(site / name, "**/*.so")

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
        return next((place for place in places if os.path.isdir(place)), None)

    @cached_property
    def exports(self) -> Exports | None:
        """What that torch exports; None without one, or when it is not whole."""
        if self.torch is None or self.torch_problem:
            return None
        return Exports.of(self.dynamic(path) for path in self._parts(self.torch)) or None

    @cached_property
    def torch_problem(self) -> str:
        """Why the installed torch cannot be compared with; "" when it can, or when there is none.

        A part that is missing would make every user of it look wrong.
        """
        if self.torch is None:
            return ""
        site = self.torch.parents[1]
        infos = matching(site, "torch-*.dist-info")
        if not infos:
            return "torch has no metadata: it is still being installed, or half removed"
        for row in recorded_libraries(infos[0]):
            if row.startswith("torch/lib/") and not os.path.isfile(site / row):
                return f"torch is not whole: {row} is missing or closed"
        for path in self._parts(self.torch):
            try:
                self.dynamic(path)
            except InputError as error:
                return f"torch is not whole: {path.name}: {error.what}"
        return ""

    @staticmethod
    def _parts(folder: Path) -> list[Path]:
        return matching(folder, "*.so")

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
    return [row for row in _ROW.findall(plain_text(record)) if not row.startswith(("/", "..")) and
            "/../" not in row]


def _top(row: str) -> str:
    """The import name a row belongs to: its first folder, or an extension module's name."""
    return row.split("/")[0].split(".")[0]
