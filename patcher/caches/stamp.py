"""What each cache was last brought in line with, kept in the cache itself.

A cache outlives the environment that filled it (a volume under a rebuilt image,
one home for several environments), so only a note that stays with the cache can
say whether its entries were built from the files that are installed now.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patcher.atomic import canonical_json, write_atomic
from patcher.errors import PatcherError
from patcher.tree import read_plain

NAME = ".sm-patch.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class PackageState:
    """A package as installed: its digest, and of each path a patch touches what stands there.

    ``files`` maps package paths to a SHA-256, ``absent`` or ``link:TARGET``.
    """

    name: str
    version: str | None
    digest: str
    files: Mapping[str, str]

    @property
    def key(self) -> str:
        """Versions of a package have entries of their own in a cache, and so here."""
        return f"{self.name} {self.version or 'unknown'}"


@dataclass(frozen=True, slots=True)
class Stamp:
    """One package's entry in a cache's note."""

    digest: str
    files: Mapping[str, str]


def read_stamps(place: Path) -> dict[str, Stamp]:
    """The note's entries by package; empty when there is none or it is damaged."""
    try:
        document = json.loads(read_plain(str(place / NAME)))
        if document["version"] != _VERSION:
            return {}
        return {key: _stamp(entry) for key, entry in document["packages"].items()}
    except (OSError, PatcherError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _stamp(entry: dict[str, Any]) -> Stamp:
    files = {str(path): str(state) for path, state in entry["files"].items()}
    return Stamp(str(entry["digest"]), files)


def write_stamp(place: Path, state: PackageState) -> None:
    """Note that the cache is in line with this state of the package; makes the folder if needed.

    The note belongs to the cache's owner, also when root writes it. Raises OSError.
    """
    make_owned(place)
    stamps = read_stamps(place)
    stamps[state.key] = Stamp(state.digest, state.files)
    document = {"version": _VERSION, "packages": {
        key: {"digest": stamp.digest, "files": dict(stamp.files)}
        for key, stamp in stamps.items()}}
    write_atomic(place / NAME, canonical_json(document), durable=False)
    adopt(place / NAME)


def changed_since(stamp: Stamp | None, state: PackageState) -> frozenset[str]:
    """Paths whose content is not the one that the cache was last brought in line with.

    Without a note all touched paths count: what the cache was built from is unknown.
    """
    if stamp is None:
        return frozenset(state.files)
    if stamp.digest == state.digest:
        return frozenset()
    names = {*stamp.files, *state.files}
    return frozenset(n for n in names if stamp.files.get(n) != state.files.get(n))


def make_owned(folder: Path) -> None:
    """Make a folder and its parents, owned like the folder they are made in."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in reversed(missing):
        adopt(path)


def adopt(path: Path) -> None:
    """Give what root made to the owner of its folder, who must be able to replace it."""
    if os.geteuid() == 0:
        owner = os.stat(path.parent)
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)

