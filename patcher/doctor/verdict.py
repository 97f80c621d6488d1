"""What ``abi`` says of one file or package: which torch it fits, what it misses, ways out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patcher.binary.dynamic import Dynamic
from patcher.doctor.checks.abi import ways_out
from patcher.doctor.fit import LibraryFit, common_releases, judge, table
from patcher.doctor.gather import gather
from patcher.doctor.libraries import Libraries
from patcher.doctor.model import Surroundings
from patcher.errors import InputError, PackageNotFound, PatcherError


@dataclass(frozen=True, slots=True)
class Verdict:
    """``torch`` is the installed version, None without one; ``built_for`` the known releases
    that suit every library; ``unreadable`` those that could not be judged, with the reason."""

    name: str
    version: str | None
    torch: str | None
    libraries: tuple[LibraryFit, ...]
    unreadable: tuple[str, ...]
    built_for: tuple[str, ...]
    known: tuple[str, ...]
    ways: tuple[str, ...]

    @property
    def missing(self) -> tuple[LibraryFit, ...]:
        """The libraries that the installed torch does not satisfy."""
        return tuple(fit for fit in self.libraries if fit.missing)

    @property
    def fits(self) -> bool:
        """Everything could be read, and torch (the installed one, else a known one) has it all."""
        if self.unreadable:
            return False
        return not self.missing if self.torch else bool(self.built_for or not self.libraries)


def verdict(subject: str, python: str | None, root: str | None) -> Verdict:
    """Judge a library file, or the libraries of a package.

    Raises InputError for a file that is no shared object, PackageNotFound for a
    name that nothing has.
    """
    if subject.endswith(".so") or ".so." in subject or os.path.isfile(Path(subject)):
        surroundings, _ = gather((), python=python, root=root)
        path = Path(subject).absolute()
        libraries = surroundings.libraries
        return _verdict(path.name, None, [libraries.dynamic(path)], (), surroundings)
    surroundings, problems = gather((subject,), python=python, root=root)
    if problems:
        raise PackageNotFound(problems[0].summary)
    libraries = surroundings.libraries
    found, unreadable = _readable(libraries)
    if not found and not unreadable and not libraries.extensions:
        raise InputError("no shared object here", where=subject,
                         next_step="name the package that has the extension, or the file")
    name = next(iter(libraries.extensions), subject)
    return _verdict(name, surroundings.version_of(name), found, unreadable, surroundings)


def _readable(libraries: Libraries) -> tuple[list[Dynamic], tuple[str, ...]]:
    found, unreadable = [], []
    for paths in libraries.extensions.values():
        for path in paths:
            try:
                library = libraries.dynamic(path)
            except PatcherError as error:
                unreadable.append(str(error))
                continue
            if libraries.needs_torch(path):
                found.append(library)
    return found, tuple(unreadable)


def _verdict(name: str, version: str | None, found: Sequence[Dynamic],
             unreadable: tuple[str, ...], surroundings: Surroundings) -> Verdict:
    exports = surroundings.libraries.exports
    if problem := surroundings.libraries.torch_problem:
        unreadable = (*unreadable, problem)
    torch = (surroundings.version_of("torch") or "of unknown version") if exports else None
    fits = tuple(judge(library, exports) for library in found)
    built_for = common_releases(fits)
    broken = any(fit.missing for fit in fits)
    ways = ways_out(name, built_for, torch or "") if broken else ()
    return Verdict(name.replace("_", "-") if version else name, version, torch, fits, unreadable,
                   built_for, table().known, ways)
