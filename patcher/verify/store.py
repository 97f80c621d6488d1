"""Results by content: the same text, flags and compilers never compile twice.

Entries are JSON (a cache is not code), compressed, written atomically; a damaged
entry is a miss. PTX is not kept, only the facts that are judged.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from patcher.atomic import write_atomic
from patcher.verify.compile import Compiled
from patcher.verify.kernels import Code, Kernel
from patcher.verify.resources import Resources

MAX_BYTES = 512 << 20


class Store:
    """A folder of results; ``folder`` None means the user's cache.

    ``launched`` keeps apart what came by way of a launcher: no proof is made of that.
    """

    def __init__(self, folder: Path | None = None, *, launched: bool = False) -> None:
        if folder is None:
            from platformdirs import user_cache_path

            folder = user_cache_path("sm-patch") / ("verify-4-launched" if launched else "verify-4")
        self._folder = folder

    def get(self, key: str) -> Any | None:
        """The stored value, or None."""
        try:
            return json.loads(zlib.decompress((self._folder / key).read_bytes()))
        except (OSError, zlib.error, ValueError):
            return None

    def put(self, key: str, value: Any) -> None:
        """Store a JSON value; a full or read-only disk only costs the caching."""
        data = zlib.compress(json.dumps(value, sort_keys=True).encode(), 3)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomic(self._folder / key, data, durable=False)
            self._trim()
        except OSError:
            return

    def compiled(self, key: str) -> Compiled | None:
        """A stored compilation, or None; a value of another shape is a miss."""
        data = self.get(key)
        try:
            return decode(key, data) if data else None
        except (KeyError, TypeError, AttributeError, IndexError):
            return None

    def _trim(self) -> None:
        entries = sorted((p.stat().st_mtime, p.stat().st_size, p) for p in self._folder.iterdir())
        total = sum(size for _, size, _ in entries)
        for _, size, old in entries:
            if total <= MAX_BYTES:
                break
            old.unlink(missing_ok=True)
            total -= size


def encode(compiled: Compiled) -> dict[str, object]:
    """A compilation as JSON; hashes of functions are listed once and named by their place."""
    kernels = compiled.code.kernels.values()
    hashes = sorted({h for k in kernels for h in (*k.empty, *k.active)})
    number = {digest: place for place, digest in enumerate(hashes)}
    return {
        "error": compiled.error,
        "resources": asdict(compiled.resources),
        "seconds": compiled.seconds,
        "hashes": hashes,
        "names": dict(compiled.code.names),
        "places": dict(compiled.code.places),
        "kernels": [
            {"name": k.name, "where": k.where, "effects": k.effects, "dies": k.dies,
             "shared": k.shared,
             "opcodes": dict(k.opcodes), "texts": dict(k.texts), "externs": dict(k.externs),
             "empty": sorted(number[h] for h in k.empty),
             "active": sorted(number[h] for h in k.active)}
            for k in kernels
        ],
    }


def decode(key: str, data: Mapping[str, Any]) -> Compiled:
    """The compilation that was encoded; raises KeyError or TypeError for anything else."""
    hashes = data["hashes"]
    kernels = {
        row["name"]: Kernel(
            row["name"], row["where"], row["effects"], row["opcodes"], row["texts"],
            row["externs"], frozenset(hashes[n] for n in row["empty"]),
            frozenset(hashes[n] for n in row["active"]), row["dies"],
            row["shared"])
        for row in data["kernels"]
    }
    return Compiled(key, Code(kernels, data["names"], data["places"]), data["error"], True,
                    Resources(**data["resources"]), data["seconds"])
