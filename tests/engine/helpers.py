"""A small package in a plain folder, and patchsets written as edits of unique texts."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from patcher.changes import Change
from patcher.edits import Edit, Span
from patcher.engine.request import (
    GroupChange,
    PatchChange,
    PatchsetChange,
    Request,
    Staged,
)
from patcher.engine.stage import groups_named
from patcher.session import looking, writing
from patcher.state import StateHome, find_home
from patcher.status import PatchsetStatus, State, status
from patcher.transaction import Caches, NoCaches
from patcher.tree import FolderTree


@dataclass(frozen=True)
class Line:
    """A line of RECORD."""

    algorithm: str
    digest: str


@dataclass(frozen=True)
class Package:
    """The least that the engine needs to know of a package."""

    root: Path
    name: str = "demo"
    version: str | None = "1.0"
    record: Mapping[str, Line] = field(default_factory=dict)

    @property
    def tree(self) -> FolderTree:
        return FolderTree(self.root)

    def locate(self, path: str) -> Path:
        return self.root / path


def installed(root: Path, files: Mapping[str, str], version: str = "1.0") -> Package:
    """Write the files and record them, as an installer does."""
    record = {}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode())
        record[path] = Line("sha256", hashlib.sha256(text.encode()).hexdigest())
    return Package(root, version=version, record=record)


def home_of(package: Package) -> StateHome:
    return find_home(prefix=None, root=package.root, state=None)


def replacing(base: str, find: str, new: str) -> Edit:
    """The edit of the one place where ``find`` stands in the base."""
    assert base.count(find) == 1, find
    start = len(base[:base.index(find)].encode())
    return Edit(Span(start, start + len(find.encode())), new.encode())


def patchset(package: Package, name: str, edits: Mapping[str, Iterable[Edit]],
             changes: Iterable[Change] = (), group: str = "main",
             digest: str = "d1") -> PatchsetChange:
    patch = PatchChange("patch", package, {p: tuple(e) for p, e in edits.items()}, tuple(changes))
    return PatchsetChange(name, digest, (GroupChange(group, (patch,)),), frozenset({group}))


def apply(package: Package, *adds: PatchsetChange, caches: Caches | None = None,
          others: Iterable[Package] = ()) -> Staged:
    """Stage and commit in one go; refusals come back in the result, with nothing written.

    ``others`` are further packages of the same environment.
    """
    with writing(home_of(package), caches or NoCaches()) as session:
        targets = {one.name: one for one in (package, *others)}
        staged = session.stage(Request(tuple(adds)), targets)
        if not staged.refusals:
            session.commit(staged, caches or NoCaches())
        return staged


def revert(package: Package, *names: str, caches: Caches | None = None,
           others: Iterable[Package] = ()) -> Staged:
    with writing(home_of(package), caches or NoCaches()) as session:
        drops = frozenset[tuple[str, str]]().union(
            *(groups_named(session.journal, name) for name in names))
        targets = {one.name: one for one in (package, *others)}
        staged = session.stage(Request(drops=drops), targets)
        if not staged.refusals:
            session.commit(staged, caches or NoCaches())
        return staged


def states(package: Package) -> dict[str, State]:
    return {one.name: one.state for one in full_status(package)}


def full_status(package: Package) -> tuple[PatchsetStatus, ...]:
    # whatever package a patch names stands below the same root
    with looking(home_of(package)) as session:
        return status(session, lambda name: replace(package, name=name))


def snapshot(root: Path) -> dict[str, tuple[str, int, bytes]]:
    """Everything below a folder: kind, permissions, content; times and inodes left out."""
    found: dict[str, tuple[str, int, bytes]] = {}
    for folder, folders, names in os.walk(root):
        for name in [*folders, *names]:
            path = Path(folder, name)
            info = path.lstat()
            if path.is_symlink():
                what = ("link", 0, os.readlink(path).encode())
            elif path.is_dir():
                what = ("folder", stat.S_IMODE(info.st_mode), b"")
            else:
                what = ("file", stat.S_IMODE(info.st_mode), path.read_bytes())
            found[str(path.relative_to(root))] = what
    return found


def record_hash(data: bytes) -> str:
    """As RECORD spells a hash."""
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
