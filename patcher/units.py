"""Which translation units a changed file can concern, found without walking them all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from patcher.cuda.model import TranslationUnit
from patcher.errors import InputError, UnsafePath
from patcher.tree import Tree, walk

SOURCES = (".cu", ".cuh", ".h", ".hpp", ".hh", ".c", ".cc", ".cpp", ".cxx", ".inl", ".inc", ".ipp")


def is_source(path: str) -> bool:
    """True for a file that a C++ or CUDA compiler reads."""
    return path.endswith(SOURCES)


def affected(tree: Tree, folder: str, units: Sequence[TranslationUnit],
             paths: Iterable[str]) -> list[TranslationUnit]:
    """The units that may include one of ``paths``; a superset of those that do.

    Followed backwards by file name alone, below ``folder``: no search path, no
    condition. What is included through a macro's value is not followed.
    """
    contents = _contents(tree, folder, units)
    names = {path.rpartition("/")[2].encode() for path in paths}
    reached, queue = set(paths), names
    while queue:
        pattern = re.compile(rb"include[^\n]*[/\"<](?:" + b"|".join(map(re.escape, sorted(queue)))
                             + rb")[\">]")
        new = {path for path, data in contents.items()
               if path not in reached and pattern.search(data)}
        reached |= new
        queue = {path.rpartition("/")[2].encode() for path in new} - names
        names |= queue
    return [unit for unit in units if unit.path in reached]


def _contents(tree: Tree, folder: str, units: Sequence[TranslationUnit]) -> dict[str, bytes]:
    found = {unit.path: unit.content for unit in units if unit.content is not None}
    for path in walk(tree, folder, SOURCES):
        try:
            found[path] = tree.read(path)
        except (OSError, InputError, UnsafePath):
            continue  # a link out of the package; no unit of ours reads it either
    return found
