"""What several machines agree on: patchsets and package digests, as one small file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patcher.atomic import canonical_json, write_atomic
from patcher.errors import InputError
from patcher.journal import AppliedPatchset
from patcher.patchset.shipped import shipped
from patcher.tree import read_plain

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Locked:
    """One package as it was locked. ``digest`` is the package digest (see ``engine.digest``)."""

    name: str
    version: str | None
    digest: str


@dataclass(frozen=True, slots=True)
class LockedPatchset:
    """A patchset as it was locked. ``source`` finds it: a shipped name, or a path beside the
    lock file."""

    name: str
    digest: str
    groups: tuple[str, ...]
    source: str

    @classmethod
    def of(cls, applied: AppliedPatchset, lock: Path, source: str) -> LockedPatchset:
        """From the journal; ``source`` is the document's path, "" for one that is not at hand."""
        beside = os.path.relpath(source, lock.parent) if source else applied.name
        if applied.name in shipped():
            beside = applied.name
        return cls(applied.name, applied.digest, tuple(sorted(applied.groups)), beside)


def read_patchsets(path: Path) -> list[LockedPatchset]:
    """The patchsets of a lock file, their paths ready to be opened; raises InputError."""
    rows = []
    try:
        for row in _document(path)["patchsets"]:
            source = str(row["source"])
            if source not in shipped():
                source = str(path.parent / source)
            rows.append(LockedPatchset(str(row["name"]), str(row["digest"]),
                                       tuple(map(str, row["groups"])), source))
    except (KeyError, TypeError) as error:
        raise _unreadable(path) from error
    return rows


def read_lock(path: Path) -> dict[str, Locked]:
    """The packages of a lock file by name; raises InputError when it cannot be understood."""
    try:
        rows = [Locked(str(row["name"]), row["version"], str(row["digest"]))
                for row in _document(path)["packages"]]
    except (KeyError, TypeError) as error:
        raise _unreadable(path) from error
    return {row.name: row for row in rows}


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_plain(str(path)))
        version = document["version"]
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=str(path)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(path) from error
    if version != _VERSION:
        raise InputError("a lock file of another format", where=str(path),
                         next_step="write it again with --write-lock")
    found: dict[str, Any] = document
    return found


def _unreadable(path: Path) -> InputError:
    return InputError("not a lock file", where=str(path),
                      next_step="write it again with --write-lock")


def write_lock(path: Path, packages: Iterable[Locked],
               patchsets: Iterable[LockedPatchset] = ()) -> None:
    """Write a lock file; raises InputError when that is not possible."""
    document = {
        "version": _VERSION,
        "packages": [{"name": p.name, "version": p.version, "digest": p.digest}
                     for p in sorted(packages, key=lambda p: p.name)],
        "patchsets": [{"name": p.name, "digest": p.digest, "groups": list(p.groups),
                       "source": p.source} for p in sorted(patchsets, key=lambda p: p.name)],
    }
    try:
        write_atomic(path, canonical_json(document))
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror}", where=str(path)) from error


def differences(locked: Mapping[str, Locked], found: Mapping[str, Locked]) -> list[str]:
    """One line for each package that is not as locked; empty when all are."""
    lines = []
    for name in sorted({*locked, *found}):
        wanted, here = locked.get(name), found.get(name)
        if wanted is None:
            lines.append(f"{name}: patched here, and not in the lock file")
        elif here is None:
            lines.append(f"{name}: not patched here")
        elif wanted.version != here.version:
            lines.append(f"{name}: version {here.version}, locked {wanted.version}")
        elif wanted.digest != here.digest:
            lines.append(f"{name}: digest {here.digest[:12]}, locked {wanted.digest[:12]}")
    return lines
