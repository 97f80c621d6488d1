"""Where a text may hold a gate, before it is parsed: rather too often than not."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Sieve:
    """Words, and forms in which a name that stands for an architecture is tested."""

    words: tuple[bytes, ...]
    forms: tuple[re.Pattern[bytes], ...]

    def holds(self, source: bytes) -> bool:
        """True when a word or a form is somewhere in a text."""
        return any(word in source for word in self.words) or any(
            form.search(source) for form in self.forms)

    def places(self, source: bytes, names: Iterable[bytes] = ()) -> Places:
        """Where they are; ``names`` are further words."""
        found = [match.start() for form in self.forms for match in form.finditer(source)]
        for word in (*self.words, *names):
            place = source.find(word)
            while place >= 0:
                found.append(place)
                place = source.find(word, place + 1)
        return Places(sorted(found))


@dataclass(frozen=True)
class Places:
    """Offsets, ascending."""

    offsets: list[int]

    def between(self, start: int, end: int) -> bool:
        """True when one is in this part of the text."""
        position = bisect_left(self.offsets, start)
        return position < len(self.offsets) and self.offsets[position] < end
