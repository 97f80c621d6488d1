"""What outlives a process: JSON by key, in the user's cache folder.

An entry carries the hash of its own bytes, so that a torn or edited one is
ignored. Several processes may read and write at once: entries appear whole,
and whoever prunes first wins.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any

MAX_BYTES = 512 << 20
MAX_ENTRY = 64 << 20  # of text; a larger one was not written by us
_PRUNE_EVERY = 400  # writes


@cache
def code_digest() -> str:
    """Names the code and the data that results depend on."""
    here = Path(__file__).parent
    state = hashlib.blake2b(digest_size=16)
    data = here.parent / "data"
    for path in [*sorted(here.glob("*.py")), data / "arch.json", data / "nvcc.json",
                 data / "compilers_own.json", *sorted(data.glob("host_*.json"))]:
        state.update(path.name.encode() + b"\0" + path.read_bytes())
    return state.hexdigest()


def key_of(*parts: object) -> str:
    """A key that changes with any of the parts or with our own code."""
    text = repr((code_digest(), *parts))
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=20).hexdigest()


class Store:
    """Entries below one folder; nothing is raised when the folder cannot be used."""

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._writes = 0

    @classmethod
    def default(cls) -> Store:
        """The store in the user's cache folder."""
        from platformdirs import user_cache_path

        return cls(user_cache_path("sm-patch") / "cuda")

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / key[2:]

    def get(self, key: str) -> Any:
        """The entry, or None when there is none that can be trusted to be what was put."""
        try:
            entry = self._path(key).read_bytes()
            packed = entry[20:]
            if _sum(packed) != entry[:20]:
                return None
            unpacker = zlib.decompressobj()
            text = unpacker.decompress(packed, MAX_ENTRY)
            return None if unpacker.unconsumed_tail else json.loads(text)
        except (OSError, zlib.error, ValueError):
            return None

    def put(self, key: str, entry: object) -> None:
        """Keep an entry; it appears whole or not at all."""
        packed = zlib.compress(json.dumps(entry, separators=(",", ":")).encode(), 1)
        path = self._path(key)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".", dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_sum(packed) + packed)
                os.replace(name, path)
            except OSError:
                os.unlink(name)
        self._writes += 1
        if self._writes % _PRUNE_EVERY == 1:
            self.prune()

    def prune(self) -> None:
        """Remove the oldest entries until two thirds of the limit are left, if it is passed."""
        entries = []
        with contextlib.suppress(OSError):
            for path in self._folder.glob("*/*"):
                info = path.stat()
                entries.append((info.st_mtime, info.st_size, path))
        total = sum(size for _, size, _ in entries)
        if total <= self._max_bytes:
            return
        for _, size, path in sorted(entries):
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size
            if total <= self._max_bytes * 2 // 3:
                break


def _sum(packed: bytes) -> bytes:
    return hashlib.blake2b(packed, digest_size=20).digest()
