"""Prebuilt libraries of a package and libraries in its JIT caches, as rows of the report."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patcher.arch import DEVICE, ArchSet, Target
from patcher.errors import InputError, UnsafePath
from patcher.gates import Cause, Effect, Evidence, Gate, Layer, Location, Severity, Worlds
from patcher.package.model import Package
from patcher.profiles.base import Profile
from patcher.scan.model import LibraryRow

if TYPE_CHECKING:
    from patcher.binary.fatbin import FatBinary

_MAX_BUILT = 400  # libraries in JIT caches that are looked into
PREBUILT, BUILT = "prebuilt", "jit"


@dataclass(frozen=True, slots=True)
class Library:
    """A library with GPU code: where it is, what it is, and its containers."""

    path: str
    kind: str
    module: str
    parts: tuple[FatBinary, ...]

    @property
    def codes(self) -> tuple[str, ...]:
        """The kinds of code it holds, machine code before PTX, by number."""
        codes = {entry.code for part in self.parts for entry in part}
        return tuple(str(c) for c in sorted(codes, key=lambda c: (c.ptx, c.number, c.suffix)))

    @property
    def contents(self) -> str:
        """What its row is made of, as one text."""
        return "|".join(" ".join(str(entry.code) for entry in part) for part in self.parts)


def libraries(profile: Profile, package: Package) -> list[Library]:
    """All of them, prebuilt ones first. Nothing is loaded; what cannot be read is left out."""
    if package.read_only:
        return []
    found = [library for path in profile.libraries(package)
             for library in _read(_place(package, path), path, PREBUILT, _stem(path))]
    for path, module in _built(profile, package):
        found += _read(path, str(path), BUILT, module)
    return found


def row_of(library: Library, targets: Sequence[Target]) -> LibraryRow:
    """How much of a library each target could run."""
    from patcher.binary.fatbin import loaded

    usable: dict[str, int] = {}
    from_ptx: dict[str, int] = {}
    for target in targets:
        chosen = [entry for part in library.parts if (entry := loaded(part, target)) is not None]
        usable[target.name] = len(chosen)
        from_ptx[target.name] = sum(entry.code.ptx for entry in chosen)
    return LibraryRow(library.path, library.kind, library.module, library.codes,
                      sum(1 for part in library.parts if part), usable, from_ptx)


def gates_of(rows: Sequence[LibraryRow], targets: Sequence[Target],
             references: Sequence[Target]) -> list[Gate]:
    """Prebuilt libraries in which a target finds nothing and a reference does."""
    gates = []
    for row in rows:
        closed = [t for t in targets if not row.usable[t.name]]
        if row.kind != PREBUILT or not closed or not any(row.usable[r.name] for r in references):
            continue
        passed = ArchSet.of(*(c for c in row.codes if c.startswith("sm_")))
        text = f"holds {' '.join(row.codes)}, nothing for {', '.join(t.name for t in closed)}"
        gates.append(Gate(
            Layer.BINARY, "prebuilt-library", Location(row.path, 0, 0),
            f"code for {' '.join(row.codes)}", Worlds(open=passed, closed=DEVICE - passed),
            excludes_target=True, effect=Effect.FEATURE, cause=Cause.BINARY,
            severity=Severity.WARNING, evidence=(Evidence(row.path, 0, text),)))
    return gates


def _place(package: Package, path: str) -> Path:
    return Path(path) if path.startswith("/") else package.locate(path)


def _stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]


def _read(place: Path, path: str, kind: str, module: str) -> Iterator[Library]:
    from patcher.binary.fatbin import fat_binaries

    try:
        parts = fat_binaries(place)
    except (InputError, UnsafePath, OSError):
        return
    if any(parts):
        yield Library(path, kind, module, parts)


def _built(profile: Profile, package: Package) -> Iterator[tuple[Path, str]]:
    """Libraries in the JIT caches of this user that hold what the profile's package builds."""
    from patcher.caches.invalidate import places
    from patcher.caches.jit import module_folders

    count = 0
    seen: set[Path] = set()
    for place, specs in sorted(places(package.name, os.environ).items()):
        for spec in specs:
            if spec.id not in profile.cache_ids():
                continue
            for folder in sorted(f.path for f in module_folders(spec, place) if not f.link):
                for library in sorted(folder.glob("*.so")):
                    count += 1
                    if count <= _MAX_BUILT and library not in seen:
                        seen.add(library)
                        yield library, folder.name
