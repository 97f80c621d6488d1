"""What the engine needs to know of a package, and how it looks at a disk; it only reads here."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from patcher.errors import UnsafePath
from patcher.journal import ABSENT, Kind, Shape
from patcher.tree import Tree, read_plain


class Recorded(Protocol):
    """A line of RECORD."""

    @property
    def algorithm(self) -> str: ...

    @property
    def digest(self) -> str: ...


class Target(Protocol):
    """The side of a package that a transaction works on."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str | None: ...

    @property
    def root(self) -> Path: ...

    @property
    def tree(self) -> Tree: ...

    @property
    def record(self) -> Mapping[str, Recorded]: ...

    def locate(self, path: str) -> Path: ...


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def matches_record(record: Mapping[str, Recorded], path: str, data: bytes) -> bool | None:
    """Whether these bytes are what the installer wrote; None when RECORD does not say."""
    entry = record.get(path)
    if entry is None or not entry.digest or entry.algorithm not in hashlib.algorithms_guaranteed:
        return None
    return hashlib.new(entry.algorithm, data).hexdigest() == entry.digest


def check_relative(path: str) -> None:
    """Raises UnsafePath for anything but plain names joined by single slashes."""
    parts = path.split("/")
    if "\0" in path or not all(parts) or {".", ".."} & set(parts):
        raise UnsafePath("not a path inside the package's root", where=path)


def real_place(root: Path, place: str) -> str:
    """The one real path of a place: folders above it resolved, a link at its end not."""
    full = root / place
    return os.path.join(os.path.realpath(full.parent), full.name)


def writable_place(root: Path, place: str) -> Path:
    """The absolute path of ``place``, if writing there cannot leave ``root``.

    The last part may be a link (it gets replaced); the folder above it must
    lie inside. Raises UnsafePath.
    """
    check_relative(place)
    real, home = real_place(root, place), os.path.realpath(root)
    if not real.startswith(home.rstrip("/") + "/"):
        raise UnsafePath(f"leads out of {root} (to {real})", where=place)
    return root / place


def observe(path: Path) -> tuple[Shape, bytes | None]:
    """What stands at a path, links not followed; the bytes too when it is a file."""
    try:
        info = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT, None
    mode = stat.S_IMODE(info.st_mode)
    if stat.S_ISLNK(info.st_mode):
        return Shape(Kind.LINK, target=os.readlink(path)), None
    if stat.S_ISDIR(info.st_mode):
        return Shape(Kind.FOLDER, mode=mode), None
    if not stat.S_ISREG(info.st_mode):
        return Shape(Kind.OTHER, mode=mode), None
    data = read_plain(str(path))
    return Shape(Kind.FILE, sha256(data), mode), data


def is_now(path: Path, shape: Shape) -> bool:
    """True when ``shape`` is what stands at the path; for a move, seen from its old path."""
    if shape.kind is Kind.MOVED:
        return not os.path.lexists(path) and os.path.lexists(path.parent / shape.target)
    return observe(path)[0].same(shape)
