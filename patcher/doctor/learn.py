"""``abi learn``: keep the exports of a torch release that the shipped table does not have."""

from __future__ import annotations

import re
from pathlib import Path

from patcher.atomic import write_atomic
from patcher.binary.symbols import exports, pack_learned
from patcher.doctor.fit import learned_folder
from patcher.errors import InputError, UsageError

_RELEASE = re.compile(r"\d+(\.\d+)+[\w.+]*")


def learn(folder: Path, release: str) -> tuple[Path, int]:
    """Read a torch/lib folder as ``release``; returns the file kept and the number of names.

    Raises UsageError for a release that is no version, InputError when the folder
    holds no torch or the result cannot be kept.
    """
    if not _RELEASE.fullmatch(release):
        raise UsageError(f"not a version: {release!r}", next_step="write it as 2.12.0")
    names = exports(folder)
    place = learned_folder() / f"{release}.json.xz"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(place, pack_learned(release, names))
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror}", where=str(place)) from error
    return place, len(names)
