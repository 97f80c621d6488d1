"""The template tags that a module's own sources take."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

from patcher.host import Tag, find_tags
from patcher.scan.files import Files
from patcher.scan.model import TagRow, is_library
from patcher.scan.stages import Table
from patcher.scan.walks import Facts

FOUND = tuple[Tag, ...]  # what is kept of a file


class Tags:
    """The sources of one scan; they are looked at when the first module asks."""

    def __init__(self, facts: Facts, files: Files, kept: Table[FOUND],
                 digest: Callable[[str], str]) -> None:
        self._facts = facts
        self._files = files
        self._kept = kept
        self._digest = digest

    @cached_property
    def _found(self) -> dict[str, tuple[Tag, ...]]:
        """By file. Vendored templates are written for many devices: they say nothing."""
        own = sorted(path for path in self._facts.reached if not is_library(path))
        found = {path: self._kept.of(path, self._digest(path), partial(self._read, path))
                 for path in own}
        return {path: tags for path, tags in found.items() if tags}

    def _read(self, path: str) -> FOUND:
        return find_tags(self._files.get(path).data)

    def rows(self, units: int) -> tuple[TagRow, ...]:
        """The tags in what these units (bits) reach, by their least capability."""
        places: dict[int, list[str]] = {}
        for path, tags in self._found.items():
            if self._facts.reached[path] & units:
                for tag in tags:
                    places.setdefault(tag.minimum, []).append(f"{path}:{tag.line}")
        return tuple(TagRow(f"Sm{minimum}", minimum, tuple(found))
                     for minimum, found in sorted(places.items()))
