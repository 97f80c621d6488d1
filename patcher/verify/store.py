"""Results by content: the same text, flags and compilers never compile twice.

Entries are JSON (a cache is not code), compressed, written atomically; a damaged
entry is a miss. PTX is not kept, only what the judge made of it.
"""

from __future__ import annotations

import json
import os
import tempfile
import zlib
from pathlib import Path
from typing import Any

MAX_ENTRIES = 4096


class Store:
    """A folder of results; ``folder`` None means the user's cache."""

    def __init__(self, folder: Path | None = None) -> None:
        if folder is None:
            from platformdirs import user_cache_path

            folder = user_cache_path("sm-patch") / "verify-1"
        self._folder = folder

    def get(self, key: str) -> Any | None:
        """The stored value, or None."""
        try:
            return json.loads(zlib.decompress((self._folder / key).read_bytes()))
        except (OSError, zlib.error, ValueError):
            return None

    def put(self, key: str, value: Any) -> None:
        """Store a JSON value; a full or read-only disk only costs the caching."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._folder, prefix=".new-")
            with os.fdopen(handle, "wb") as file:
                file.write(zlib.compress(json.dumps(value, sort_keys=True).encode(), 6))
            os.replace(name, self._folder / key)
            self._trim()
        except OSError:
            return

    def _trim(self) -> None:
        entries = sorted(self._folder.iterdir(), key=lambda p: p.stat().st_mtime)
        for old in entries[: max(0, len(entries) - MAX_ENTRIES)]:
            old.unlink(missing_ok=True)
