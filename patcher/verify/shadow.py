"""A full shadow of a tree on disk, for compilers: links to originals, real files for changes.

An overlay include folder cannot shadow a header: quote-includes look beside the
including file first. So every folder is real, unchanged files are symlinks and
changed files are written. What no compiler reads is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from patcher.scratch import no_room
from patcher.tree import ChangedTree, FolderTree, Tree, walk

HISTORY = ".git/"  # of a source tree; nothing is compiled from it
_NOT_SOURCE = (".py", ".pyc", ".pyi", ".so", ".cubin", ".json", ".md", ".txt")


def build_shadow(tree: Tree, folders: Iterable[str], destination: Path) -> None:
    """Lay out ``folders`` of the tree below ``destination``; raises ToolFailed without room."""
    try:
        _build(tree, folders, destination)
    except OSError as error:
        raise no_room(error) from error


def _build(tree: Tree, folders: Iterable[str], destination: Path) -> None:
    destination.mkdir(parents=True, exist_ok=True)
    origin, changed = _origin(tree)
    made: set[Path] = set()
    for folder in folders:
        for path in walk(tree, folder):
            if path.endswith(_NOT_SOURCE) or path.startswith(HISTORY):
                continue
            place = destination / path
            if place.parent not in made:
                place.parent.mkdir(parents=True, exist_ok=True)
                made.add(place.parent)
            if origin is None or path in changed:
                place.write_bytes(tree.read(path))
            else:
                place.symlink_to(origin / path)


def _origin(tree: Tree) -> tuple[Path | None, frozenset[str]]:
    """The folder that unchanged files can be linked to (None for wheels), and what changed."""
    changed: frozenset[str] = frozenset()
    while isinstance(tree, ChangedTree):
        changed |= tree.changed_paths
        tree = tree.base
    return (tree.root.resolve() if isinstance(tree, FolderTree) else None), changed
