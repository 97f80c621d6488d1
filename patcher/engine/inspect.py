"""One journaled file against the disk: is our change there, and did someone else change it?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from patcher.composition import foreign_edits, meets, placed
from patcher.edits import EditClash, apply_edits
from patcher.engine.target import Recorded, matches_record, observe, sha256
from patcher.errors import Refused
from patcher.journal import FileEntry, Kind, Owner, Shape


class Standing(str, Enum):
    """What became of our change to one file."""

    IN_PLACE = "in-place"
    FOREIGN = "foreign"  # ours is intact, someone edited elsewhere in the file
    DRIFTED = "drifted"  # someone edited inside our spans, or replaced what we put there
    POISONED = "poisoned"  # drifted, and other names share the bytes: a write through a hard link
    LOST = "lost"  # the file is as installed, ours is gone
    SUPERSEDED = "superseded"  # the installed package itself holds what ours made of the file

    @property
    def ours(self) -> bool:
        """True when the file on disk carries our change."""
        return self in (Standing.IN_PLACE, Standing.FOREIGN)


@dataclass(frozen=True, slots=True)
class Inspection:
    """``hit`` are the owners whose change is damaged; ``expected`` is what we had left there."""

    standing: Standing
    shape: Shape
    data: bytes | None
    expected: bytes | None
    hit: frozenset[Owner] = frozenset()


Originals = Callable[[str], bytes]


def composed(entry: FileEntry, originals: Originals) -> bytes | None:
    """The bytes that the journal says stand at the path; None when it is not a file."""
    if entry.edits:
        try:
            return apply_edits(originals(entry.base.sha256), entry.all_edits)
        except (EditClash, ValueError) as error:
            raise Refused(f"the journal does not fit its original: {error}",
                          next_step="reinstall the package; its patches then count as lost"
                          ) from error
    shape = wanted(entry)
    return originals(shape.sha256) if shape.kind is Kind.FILE else None


def wanted(entry: FileEntry) -> Shape:
    """What the owners of a whole path want there; the base without any."""
    return next(iter(entry.wants.values()), entry.base)


def inspect(entry: FileEntry, path: Path, recorded: str, record: Mapping[str, Recorded],
            originals: Originals) -> Inspection:
    """Compare a file with its composition. ``recorded`` is its path in RECORD.

    Raises Refused when an original is damaged, InputError when it cannot be read.
    """
    shape, data = observe(path)
    expected = composed(entry, originals)

    def found(standing: Standing, hit: frozenset[Owner] = frozenset()) -> Inspection:
        return Inspection(standing, shape, data, expected, hit)

    if not entry.edits:
        return found(*_inspect_whole(entry, path, shape, recorded, record, data))
    if shape.kind is Kind.ABSENT or shape.same(entry.base):
        return found(Standing.LOST)
    if shape.kind is Kind.LINK:  # an installer that links (uv) put another link there
        same = matches_record(record, recorded, _through(path))
        return found(Standing.LOST) if same else found(Standing.DRIFTED, entry.owners)
    if data is None or expected is None:
        return found(Standing.DRIFTED, entry.owners)
    installed = matches_record(record, recorded, data)
    if data == expected:
        return found(Standing.SUPERSEDED if installed else Standing.IN_PLACE)
    if installed or sha256(data) == entry.base.sha256:
        return found(Standing.LOST)
    hit = _hit(entry, originals(entry.base.sha256), expected, data)
    if not hit:
        return found(Standing.FOREIGN)
    shared = os.lstat(path).st_nlink > 1
    return found(Standing.POISONED if shared else Standing.DRIFTED, hit)


def _inspect_whole(entry: FileEntry, path: Path, shape: Shape, recorded: str,
                   record: Mapping[str, Recorded], data: bytes | None
                   ) -> tuple[Standing, frozenset[Owner]]:
    want = wanted(entry)
    if want.kind is Kind.MOVED:
        aside = os.path.lexists(path.parent / want.target)
        there = shape.kind is Kind.ABSENT and aside
        return (Standing.IN_PLACE if there else Standing.LOST), frozenset()
    installed = data is not None and bool(matches_record(record, recorded, data))
    if shape.same(want):
        return (Standing.SUPERSEDED if installed else Standing.IN_PLACE), frozenset()
    if shape.kind is Kind.ABSENT or shape.same(entry.base) or installed:
        return Standing.LOST, frozenset()
    return Standing.DRIFTED, entry.owners


def _hit(entry: FileEntry, base: bytes, expected: bytes, disk: bytes) -> frozenset[Owner]:
    foreign = foreign_edits(expected, disk)
    spans = placed(base, entry.all_edits)
    damaged = {edit for edit, span in spans.items()
               if any(meets(expected, span, other.span) for other in foreign)}
    return frozenset(owner for owner, edits in entry.edits.items() if damaged & set(edits))


def _through(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
