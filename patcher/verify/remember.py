"""A whole verification by content, so that asking again costs only reading and hashing.

The key holds all that is known before any work: the package's files, the
patchsets, the compilers, the options. Files outside of the package (headers of
the toolkit and of neighbours) are known only afterwards: an answer names those
it came from, and holds while they are unchanged.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from patcher.errors import InputError, UnsafePath
from patcher.package.model import Package
from patcher.tree import read_plain, walk
from patcher.verify.shadow import HISTORY
from patcher.verify.store import Store

# what changes the work of nvcc and of its host compiler from outside
_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "NVCC_APPEND_FLAGS",
              "NVCC_PREPEND_FLAGS", "NVCC_CCBIN")
_MEANINGLESS = (".pyc", ".pyo")
_OWN = Path(__file__).parents[1]


def package_digest(package: Package) -> str:
    """SHA-256 over the package's name, version, and all of its files."""
    digest = hashlib.sha256(f"{package.name} {package.version}".encode())
    for path in walk(package.tree, package.top):
        if path.endswith(_MEANINGLESS) or path.startswith(HISTORY):
            continue
        try:
            data = package.tree.read(path)
        except (OSError, InputError, UnsafePath):
            data = b"unreadable"
        digest.update(f"\0{path}\0{len(data)}\0".encode("utf-8", "surrogateescape") + data)
    return digest.hexdigest()


def key(question: Mapping[str, Any]) -> str:
    """The place of an answer. ``question`` is JSON and decides all of it."""
    surroundings = {name: os.environ.get(name, "") for name in _VARIABLES}
    document = [_own_digest(), question, surroundings]
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _own_digest() -> str:
    """SHA-256 over our own code and data: another judge may judge otherwise."""
    digest = hashlib.sha256()
    for path in sorted(p for p in _OWN.rglob("*") if p.suffix in (".py", ".json")):
        digest.update(path.relative_to(_OWN).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def recall(store: Store, where: str) -> list[dict[str, Any]] | None:
    """The rows of an earlier answer, None when there is none that still holds."""
    known = store.get(where)
    if not isinstance(known, dict) or known.get("outside") is None:
        return None
    if any(_sha256(path) != digest for path, digest in known["outside"].items()):
        return None
    return [{**row, "cached": True} for row in known["rows"]]


def keep(store: Store, where: str, rows: Sequence[Mapping[str, Any]],
         outside: Iterable[str]) -> None:
    """Remember an answer and the files outside of the package that it came from."""
    store.put(where, {"rows": list(rows), "outside": {p: _sha256(p) for p in sorted(outside)}})


def _sha256(path: str) -> str:
    try:
        return hashlib.sha256(read_plain(path)).hexdigest()
    except (OSError, InputError, UnsafePath):
        return "unreadable"
