"""Digests that two machines can compare: what the patched files of a package hold."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from patcher.engine.request import Step
from patcher.errors import InputError
from patcher.journal import FileKey, Journal, Kind, Shape
from patcher.state import StateHome


def package_digest(home: StateHome, journal: Journal, name: str, version: str | None,
                   steps: Iterable[Step] = ()) -> str:
    """SHA-256 over ``name version`` and each touched path with what stands there.

    Lines end in LF: the name and the version, then ``path NUL sha256``, ``path
    NUL absent`` or ``path NUL link:TARGET``, sorted by the path's bytes. With
    ``steps``, what it will be when these are done. No absolute path, no time.
    """
    root = journal.packages().get(name, ("", None))[0]
    lines: dict[bytes, str] = {}
    for path in journal.paths(name):
        lines.update(_lines(home, journal, FileKey(root, path), {s.key: s for s in steps}))
    digest = hashlib.sha256(f"{name} {version or ''}\n".encode())
    for name_bytes in sorted(lines):
        digest.update(name_bytes + b"\0" + os.fsencode(lines[name_bytes]) + b"\n")
    return digest.hexdigest()


def combined_digest(digests: Mapping[str, str]) -> str:
    """One line for a whole environment: a single package's digest, else SHA-256 over
    ``name digest`` lines sorted by name."""
    if len(digests) == 1:
        return next(iter(digests.values()))
    text = "".join(f"{name} {digests[name]}\n" for name in sorted(digests))
    return hashlib.sha256(text.encode()).hexdigest()


def _lines(home: StateHome, journal: Journal, key: FileKey,
           steps: Mapping[FileKey, Step]) -> dict[bytes, str]:
    entry = journal.files.get(key)
    place = home.root(key.root) / ((entry.place if entry else "") or key.path)
    step = steps.get(key)
    lines = {os.fsencode(key.path): _shape(step.after) if step else _there(place)}
    for want in entry.wants.values() if entry else ():
        if want.kind is Kind.MOVED:
            aside = os.path.normpath(os.path.join(os.path.dirname(key.path), want.target))
            moving = step is not None and step.after.kind is Kind.MOVED
            source = place if moving else place.parent / want.target
            lines.update(_below(source, aside))
    return lines


def _below(place: Path, path: str) -> dict[bytes, str]:
    """A file, or every file of a folder, named as if it stood at ``path``."""
    if not place.is_dir() or place.is_symlink():
        return {os.fsencode(path): _there(place)}
    found = {}
    for folder, _, names in os.walk(place):
        for name in names:
            below = os.path.relpath(os.path.join(folder, name), place)
            found[os.fsencode(f"{path}/{below}")] = _there(Path(folder, name))
    return found


def _there(place: Path) -> str:
    """What stands at a path; hashed piece by piece, as a prebuilt library may be large."""
    try:
        info = os.lstat(place)
    except (FileNotFoundError, NotADirectoryError):
        return "absent"
    if stat.S_ISLNK(info.st_mode):
        return f"link:{os.readlink(place)}"
    if not stat.S_ISREG(info.st_mode):
        return "absent"
    digest = hashlib.sha256()
    try:
        with place.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=str(place),
                         next_step="run as the user who owns it") from error
    return digest.hexdigest()


def _shape(shape: Shape) -> str:
    if shape.kind is Kind.FILE:
        return shape.sha256
    return f"link:{shape.target}" if shape.kind is Kind.LINK else "absent"
