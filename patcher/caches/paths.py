"""Finding and dropping what lies in a cache, without ever following a link out of it.

A cache may be written by another user than the one who runs us: every step
below its root is opened without following links.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patcher.errors import UnsafePath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class Found:
    """A path that a glob named; ``link`` when it, or a folder before it, is a symbolic link."""

    path: Path
    link: bool


def expand(root: Path, pattern: str) -> Iterator[Found]:
    """What a glob of folder names matches below root, in order; links end the search."""
    head, _, rest = pattern.partition("/")
    for name in _names(root):
        if not fnmatch.fnmatchcase(name, head):
            continue
        path = root / name
        mode = _mode(path)
        if stat.S_ISLNK(mode):
            yield Found(path, link=True)
        elif not rest:
            yield Found(path, link=False)
        elif stat.S_ISDIR(mode):
            yield from expand(path, rest)


def size_of(path: Path) -> tuple[int, int]:
    """Bytes and number of files below a path, links not followed."""
    total = count = 0
    stack = [path]
    while stack:
        here = stack.pop()
        for name in _names(here):
            mode = _mode(here / name)
            if stat.S_ISDIR(mode):
                stack.append(here / name)
            elif stat.S_ISREG(mode):
                with contextlib.suppress(OSError):
                    total += os.lstat(here / name).st_size
                    count += 1
    return total, count


def remove(root: Path, path: Path) -> bool:
    """Delete a file, a link or a folder with its content below root; False when it was gone.

    Raises UnsafePath when the path is not below root or a folder on the way is
    a link, OSError when it cannot be deleted.
    """
    parts = _below(root, path)
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)  # the root itself may be a link
    try:
        for part in parts[:-1]:
            descriptor = _into(descriptor, part, path)
        return _remove_entry(descriptor, parts[-1])
    except FileNotFoundError:
        return False
    finally:
        os.close(descriptor)


def _below(root: Path, path: Path) -> tuple[str, ...]:
    try:
        parts = path.relative_to(root).parts
    except ValueError:
        parts = ()
    if not parts or ".." in parts:
        raise UnsafePath(f"does not lie in the cache {root}", where=str(path))
    return parts


def _into(descriptor: int, name: str, path: Path) -> int:
    """Open a sub-folder in place of its parent."""
    try:
        inner = os.open(name, _FOLDER, dir_fd=descriptor)
    except NotADirectoryError:  # O_DIRECTORY with O_NOFOLLOW says this for a link as well
        raise UnsafePath("a link or a file stands where a folder should be",
                         where=str(path)) from None
    os.close(descriptor)
    return inner


def _remove_entry(folder: int, name: str) -> bool:
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if not stat.S_ISDIR(mode):
        os.unlink(name, dir_fd=folder)
        return True
    inner = os.open(name, _FOLDER, dir_fd=folder)
    try:
        for child in os.listdir(inner):
            with contextlib.suppress(FileNotFoundError):
                _remove_entry(inner, child)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=folder)
    return True


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _mode(path: Path) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0
