"""What several machines agree on: the digest of each patched package, as one small file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from patcher.atomic import canonical_json, write_atomic
from patcher.errors import InputError, PatcherError
from patcher.tree import read_plain

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Locked:
    """One package as it was locked. ``digest`` is the package digest (see ``engine.digest``)."""

    name: str
    version: str | None
    digest: str


def read_lock(path: Path) -> dict[str, Locked]:
    """The packages of a lock file by name; raises InputError when it cannot be understood."""
    try:
        document = json.loads(read_plain(str(path)))
        if document["version"] != _VERSION:
            raise InputError("a lock file of another format", where=str(path),
                             next_step="write it again with --write-lock")
        rows = [Locked(str(row["name"]), row["version"], str(row["digest"]))
                for row in document["packages"]]
    except PatcherError:
        raise
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=str(path)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError("not a lock file", where=str(path),
                         next_step="write it again with --write-lock") from error
    return {row.name: row for row in rows}


def write_lock(path: Path, packages: Iterable[Locked]) -> None:
    """Write a lock file; raises InputError when that is not possible."""
    rows = [{"name": p.name, "version": p.version, "digest": p.digest}
            for p in sorted(packages, key=lambda p: p.name)]
    try:
        write_atomic(path, canonical_json({"version": _VERSION, "packages": rows}))
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
