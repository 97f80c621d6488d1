"""Bytes by path, whatever holds them: a folder, a wheel, or a tree plus changes.

Paths are relative to the tree's root with forward slashes; an absolute path
names a file outside the root (toolkit headers) and is read from the disk.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from errno import EACCES, ELOOP, EPERM
from functools import cached_property
from pathlib import Path
from typing import Protocol
from zipfile import BadZipFile, ZipFile

from patcher.changes import Change, Create, Delete, Link, Modify, Move, Unlink
from patcher.errors import InputError, PatcherError, UnsafePath

MAX_FILE_BYTES = 256 << 20  # nothing we read as text is larger; protects memory on hostile trees


class Tree(Protocol):
    """What scan, plan, law, check and verify read from."""

    @property
    def root(self) -> Path:
        """The folder or wheel behind the tree, for messages."""

    def read(self, path: str) -> bytes:
        """The file's bytes; FileNotFoundError if absent, UnsafePath or InputError if refused."""

    def names(self, folder: str) -> frozenset[str]:
        """Names of the non-folder entries in a folder; empty when there is no such folder."""

    def folders(self, folder: str) -> frozenset[str]:
        """Names of the sub-folders of a folder; empty when there is no such folder."""


def walk(tree: Tree, folder: str, suffixes: tuple[str, ...] = ()) -> Iterator[str]:
    """Every file below ``folder`` in sorted order, optionally only these suffixes."""
    stack = [folder.rstrip("/")]
    while stack:
        here = stack.pop()
        prefix = f"{here}/" if here else ""
        for name in sorted(tree.names(here)):
            if not suffixes or name.endswith(suffixes):
                yield prefix + name
        stack += [prefix + name for name in sorted(tree.folders(here), reverse=True)]


def exists(tree: Tree, path: str) -> bool:
    """True when the path names a file (or a link to one) of the tree."""
    folder, _, name = path.rpartition("/")
    return name in tree.names(folder or ("/" if path.startswith("/") else ""))


def matching(folder: Path, pattern: str) -> list[Path]:
    """What matches below a folder, sorted; nothing where that is absent or closed to us."""
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []


def read_plain(path: str) -> bytes:
    """A regular file's bytes; refuses devices, fifos and giants before reading them.

    Raises FileNotFoundError where there is none (a link that leads nowhere too),
    UnsafePath for what is no plain file, InputError for what cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode):
                raise UnsafePath("not a plain file", where=path)
            if info.st_size > MAX_FILE_BYTES:
                raise InputError(f"larger than {MAX_FILE_BYTES >> 20} MiB", where=path)
            return _content(handle, info.st_size, path)
        finally:
            os.close(handle)
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:  # a file stands where a folder of the path should
        raise FileNotFoundError(error.errno, error.strerror, path) from None
    except OSError as error:
        if stat.S_ISSOCK(_mode(path)) or stat.S_ISDIR(_mode(path)):
            raise UnsafePath("not a plain file", where=path) from None
        raise InputError(f"cannot read: {error.strerror}", where=path,
                         next_step=_READ_ADVICE.get(error.errno or 0)) from error


def _content(handle: int, size: int, path: str) -> bytes:
    """All that a file holds; in most cases it is as large as it says (those of /proc are not)."""
    parts = [os.read(handle, size + 1)]
    total = len(parts[0])
    while total != size and parts[-1] and total <= MAX_FILE_BYTES:
        parts.append(os.read(handle, 1 << 20))
        total += len(parts[-1])
    if total > MAX_FILE_BYTES:
        raise InputError(f"larger than {MAX_FILE_BYTES >> 20} MiB", where=path)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def plain_text(path: Path) -> str:
    """A plain file's text; "" for what is absent, closed, no file, or too large."""
    try:
        return read_plain(str(path)).decode("utf-8", "replace")
    except (OSError, PatcherError):
        return ""


def _mode(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except OSError:
        return 0


_LONG = 500  # of a path; a longer one is nobody's header
_READ_ADVICE = {EACCES: "run as the user who owns it", EPERM: "run as the user who owns it",
                ELOOP: "the link leads to itself: reinstall the package"}


class FolderTree:
    """A folder on disk. Links that leave the root are refused unless allowed.

    ``allowed`` are further folders that links may lead into (an editable
    project's own folder, CUDA_HOME). Folder links are not descended into.
    """

    def __init__(self, root: Path, allowed: Iterable[Path] = ()) -> None:
        self._root = Path(os.path.abspath(root))
        self._real = os.path.realpath(self._root)
        self._allowed = tuple(os.path.realpath(p) for p in allowed)
        self._listings: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
        self._base = os.path.join(self._root, "")
        self._folders: dict[str, str] = {}  # folder -> its real path

    @property
    def root(self) -> Path:
        return self._root

    def locate(self, path: str) -> str:
        """The absolute path on disk; raises UnsafePath when it would leave the root."""
        if path.startswith("/"):
            return path
        full = self._base + path
        real = self._followed(full)
        for home in (self._real, *self._allowed):
            if real == home or real.startswith(home.rstrip("/") + "/"):
                return full
        raise UnsafePath(f"leads out of {self._root} (to {real})", where=path)

    def _followed(self, full: str) -> str:
        """As realpath, which looks at every folder on the way each time."""
        folder, _, name = full.rpartition("/")
        if name in ("", ".", "..") or len(full) > _LONG or os.path.islink(full):
            return os.path.realpath(full)
        real = self._folders.get(folder)
        if real is None:
            real = self._folders[folder] = self._followed(folder) if folder else ""
        return f"{real}/{name}"

    def read(self, path: str) -> bytes:
        return read_plain(self.locate(path))

    def _listing(self, folder: str) -> tuple[frozenset[str], frozenset[str]]:
        found = self._listings.get(folder)
        if found is None:
            found = self._listings[folder] = self._scan(folder)
        return found

    def _scan(self, folder: str) -> tuple[frozenset[str], frozenset[str]]:
        files, folders = set(), set()
        try:
            place = self.locate(folder)
            outside = folder.startswith("/") or bool(self._allowed)
            with os.scandir(place) as entries:
                for entry in entries:
                    # a link to a folder counts only where links are trusted
                    if _leads_to_folder(entry, follow=outside):
                        folders.add(entry.name)
                    elif not _leads_to_folder(entry, follow=True):
                        files.add(entry.name)
        except PermissionError as error:
            if folder.startswith("/"):  # outside: a compiler would go on to the next one
                return frozenset(), frozenset()
            raise InputError("cannot list the folder: Permission denied", where=error.filename,
                             next_step="run as the user who owns it") from error
        except (OSError, UnsafePath):
            return frozenset(), frozenset()
        return frozenset(files), frozenset(folders)

    def names(self, folder: str) -> frozenset[str]:
        return self._listing(folder)[0]

    def folders(self, folder: str) -> frozenset[str]:
        return self._listing(folder)[1]


def _leads_to_folder(entry: os.DirEntry[str], *, follow: bool) -> bool:
    """False too for a link in a loop, which must not hide what lies beside it."""
    try:
        return entry.is_dir(follow_symlinks=follow)
    except OSError:
        return False


class WheelTree:
    """A wheel, read in place. Raises InputError when it is not a usable zip file."""

    def __init__(self, wheel: Path) -> None:
        self._wheel = wheel
        try:
            self._zip = ZipFile(wheel)
        except (OSError, BadZipFile) as error:
            raise InputError(f"not a readable wheel: {error}", where=str(wheel)) from error
        self._files: dict[str, set[str]] = {}
        self._folders: dict[str, set[str]] = {}
        for info in self._zip.infolist():
            if info.filename.startswith("/") or ".." in info.filename.split("/"):
                raise UnsafePath("the wheel holds a path that leaves it", where=info.filename)
            self._enter(info.filename)

    def _enter(self, name: str) -> None:
        parent, _, leaf = name.rpartition("/")
        if leaf:
            self._files.setdefault(parent, set()).add(leaf)
        while parent:
            above, _, leaf = parent.rpartition("/")
            known = self._folders.setdefault(above, set())
            if leaf in known:
                return
            known.add(leaf)
            parent = above

    @property
    def root(self) -> Path:
        return self._wheel

    def read(self, path: str) -> bytes:
        if path.startswith("/"):
            return read_plain(path)
        try:
            info = self._zip.getinfo(path)
        except KeyError:
            raise FileNotFoundError(path) from None
        if info.file_size > MAX_FILE_BYTES:
            raise InputError(f"larger than {MAX_FILE_BYTES >> 20} MiB", where=path)
        return self._zip.read(info)

    def names(self, folder: str) -> frozenset[str]:
        if folder.startswith("/"):
            return _OUTSIDE.names(folder)
        return frozenset(self._files.get(folder, ()))

    def folders(self, folder: str) -> frozenset[str]:
        if folder.startswith("/"):
            return _OUTSIDE.folders(folder)
        return frozenset(self._folders.get(folder, ()))


class ChangedTree:
    """A tree as it would be after some changes; nothing is written."""

    def __init__(self, base: Tree, changes: Iterable[Change]) -> None:
        self.base = base
        self._content: dict[str, bytes | None] = {}
        for change in changes:
            self.__dict__.pop("_by_folder", None)
            self._enter(change)

    def _enter(self, change: Change) -> None:
        if isinstance(change, Modify | Create):
            self._content[change.path] = change.new
        elif isinstance(change, Delete | Unlink):
            self._content[change.path] = None
        elif isinstance(change, Link):
            self._content[change.path] = self._linked(change)
        elif isinstance(change, Move):
            self._move(change)

    def _linked(self, link: Link) -> bytes:
        target = os.path.normpath(os.path.join(os.path.dirname(link.path), link.target))
        try:
            return self.read(target)
        except (OSError, InputError, UnsafePath):
            return b""

    def _move(self, move: Move) -> None:
        files = list(walk(self, move.path)) or [move.path]
        for path in files:
            self._content[move.new_path + path[len(move.path):]] = self.read(path)
            self._content[path] = None

    @property
    def root(self) -> Path:
        return self.base.root

    @property
    def changed_paths(self) -> frozenset[str]:
        return frozenset(self._content)

    def read(self, path: str) -> bytes:
        if path in self._content:
            data = self._content[path]
            if data is None:
                raise FileNotFoundError(path)
            return data
        return self.base.read(path)

    @cached_property
    def _by_folder(self) -> dict[str, tuple[dict[str, bool], set[str]]]:
        """Per folder the changed names, and whether there is such a file now; and the folders
        in it that hold one."""
        found: dict[str, tuple[dict[str, bool], set[str]]] = {}
        for path, data in self._content.items():
            parent, _, leaf = path.rpartition("/")
            found.setdefault(parent, ({}, set()))[0][leaf] = data is not None
            while parent and data is not None:
                above, slash, leaf = parent.rpartition("/")
                if slash and not above:
                    break  # the root of the disk is in no tree
                found.setdefault(above, ({}, set()))[1].add(leaf)
                parent = above
        return found

    def names(self, folder: str) -> frozenset[str]:
        names = self.base.names(folder)
        if folder not in self._by_folder:
            return names
        changed = self._by_folder[folder][0]
        return (names - changed.keys()) | {leaf for leaf, there in changed.items() if there}

    def folders(self, folder: str) -> frozenset[str]:
        folders = self.base.folders(folder)
        return folders | self._by_folder[folder][1] if folder in self._by_folder else folders


_OUTSIDE = FolderTree(Path("/"))
