"""Operations that add to a package and never replace: create, symlink, overlay."""

from __future__ import annotations

import posixpath

from patcher.changes import Change, Create, Link
from patcher.errors import PatcherError, UnsafePath
from patcher.operations.base import Finding, Outcome
from patcher.patchset.schema import CreateFile, Overlay, Symlink
from patcher.tree import Tree

MAX_FILES = 20_000  # an overlay is a set of headers, not a disk


def create(operation: CreateFile, source: Tree) -> Finding:
    """A new file; the same bytes already there are not needed, others a conflict."""
    new = operation.content.encode()
    files = (operation.file,)
    old = _content(source, operation.file)
    if old is None and not _taken(source, operation.file):
        mode = 0o755 if operation.executable else 0o644
        return Finding(Outcome.APPLICABLE, "", changes=(Create(operation.file, new, mode),),
                       files=files)
    if old == new:
        return Finding(Outcome.NOT_NEEDED, f"{operation.file} is there with the same content",
                       files=files)
    return Finding(Outcome.CONFLICT, f"{operation.file} exists with other content; not replaced",
                   files=files)


def symlink(operation: Symlink, source: Tree) -> Finding:
    """A link to a file or folder beside it that exists; whatever has its name is kept."""
    folder = posixpath.dirname(operation.link)
    target = posixpath.join(folder, operation.target)
    files = (operation.link,)
    if not _taken(source, target):
        return Finding(Outcome.MISSING, f"{target} is not there, nothing to link to", files=files)
    if not _taken(source, operation.link):
        return Finding(Outcome.APPLICABLE, "", changes=(Link(operation.link, operation.target),),
                       files=files)
    return Finding(Outcome.NOT_NEEDED, f"{operation.link} is there already", files=files)


def overlay(operation: Overlay, source: Tree) -> Finding:
    """Add the files of one folder to another.

    A partial set of headers does not compile, so all or nothing: a file that
    both have with different bytes means two releases, and is a conflict.
    """
    new: list[Change] = []
    common = 0
    for path in _below(source, operation.from_):
        data, inner = source.read(path), path[len(operation.from_):]
        for folder in operation.beside:
            if _content(source, folder + inner) not in (None, data):
                return _two_releases(folder + inner, path)
        goal = operation.to + inner
        there = _content(source, goal)
        if there is None and not _taken(source, goal):
            new.append(Create(goal, data))
        elif there == data:
            common += 1
        else:
            return _two_releases(goal, path)
    if new:
        return Finding(Outcome.APPLICABLE, "", changes=tuple(new),
                       files=tuple(change.path for change in new))
    if common:
        return Finding(Outcome.NOT_NEEDED, f"all {common} files are there", files=(operation.to,))
    _content(source, f"{operation.from_}/_")  # refused where the folder leads out of the root
    return Finding(Outcome.MISSING, f"{operation.from_} holds no files", files=(operation.from_,))


def _two_releases(there: str, path: str) -> Finding:
    return Finding(Outcome.CONFLICT, f"{there} exists with other content than {path}: two "
                   "releases do not mix; put the folder earlier in the include path "
                   "instead", files=(there,))


def _below(source: Tree, folder: str) -> list[str]:
    found, stack = [], [folder]
    while stack:
        here = stack.pop()
        found += [f"{here}/{name}" for name in source.names(here)]
        stack += [f"{here}/{name}" for name in source.folders(here)]
        if len(found) > MAX_FILES:
            raise PatcherError(f"more than {MAX_FILES} files to overlay", where=folder)
    return sorted(found)


def _content(source: Tree, path: str) -> bytes | None:
    folder, _, name = path.rpartition("/")
    if name in source.folders(folder):
        return None
    try:
        return source.read(path)
    except FileNotFoundError:
        return None


def _taken(source: Tree, path: str) -> bool:
    """True for any entry of this name; a link to a folder stands in no listing."""
    folder, _, name = path.rpartition("/")
    if name in source.names(folder) or name in source.folders(folder):
        return True
    try:
        source.read(path)
    except FileNotFoundError:
        return False
    except (IsADirectoryError, UnsafePath):
        return True
    return True
