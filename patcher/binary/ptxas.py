"""Which targets a ptxas knows and which release it is, from the text in the file; never run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from patcher.binary.mapped import mapped
from patcher.errors import InputError

_TARGET = re.compile(rb"\bsm_(?:9\d|1\d\d)[af]?\b")  # older names stand there and are not accepted
_RELEASE = re.compile(rb"\bV(\d+\.\d+\.\d+)\b")


@dataclass(frozen=True, slots=True)
class Ptxas:
    """``targets`` are the names, from sm_90 on, that ``ptxas --help`` lists for --gpu-name."""

    path: Path
    version: str
    targets: frozenset[str]


def read_ptxas(path: Path) -> Ptxas:
    """Read a ptxas; raises InputError when the file is not there or does not look like one."""
    try:
        with mapped(path) as data:
            found = _RELEASE.search(data)
            release = found[1].decode() if found else ""
            targets = frozenset(name.decode() for name in _TARGET.findall(data))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read: {error}", where=str(path)) from error
    if not release or not targets:
        raise InputError("not a ptxas", where=str(path))
    return Ptxas(path, release, targets)
