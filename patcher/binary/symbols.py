"""Which torch releases export a symbol: shipped as data, extended by ``abi learn``.

The shipped table holds the names that some releases lack and, of those that all
have, only 3-byte hashes: enough to tell a name of a release we do not know (one
unknown name in 400 is taken for a known one).
"""

from __future__ import annotations

import base64
import hashlib
import json
import lzma
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patcher.binary.abi import TORCH_SYMBOL
from patcher.binary.dynamic import read_dynamic
from patcher.errors import InputError, PatcherError
from patcher.tree import matching

SHIPPED = Path(__file__).parents[1] / "data" / "torch_symbols.json.xz"
_HASH_BYTES = 3
_MAX_BYTES = 64 << 20  # of a table, unpacked; the shipped one has 3 MB


@dataclass(frozen=True, slots=True)
class Fit:
    """How a set of needed names fits the known releases.

    ``fitting`` are the releases that have all of them, ``lacking`` what each
    other release lacks, ``unknown`` the names that no known release has.
    """

    fitting: tuple[str, ...]
    lacking: Mapping[str, tuple[str, ...]]
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class SymbolTable:
    """Releases in order; ``masks`` has bit i set where release i exports the name."""

    releases: tuple[str, ...]
    masks: Mapping[str, int] = field(repr=False)
    common: frozenset[bytes] = field(repr=False)
    learned: Mapping[str, frozenset[str]] = field(default_factory=dict, repr=False)

    @property
    def known(self) -> tuple[str, ...]:
        """Shipped and learned releases, ascending."""
        return tuple(sorted({*self.releases, *self.learned}, key=_by_number))

    def exporting(self, symbol: str) -> frozenset[str]:
        """The releases that export a name."""
        found = {release for release, names in self.learned.items() if symbol in names}
        if symbol in self.masks:
            found |= {r for i, r in enumerate(self.releases)
                      if self.masks[symbol] >> i & 1 and r not in self.learned}
        elif _hash(symbol) in self.common:
            found |= set(self.releases) - self.learned.keys()
        return frozenset(found)

    def fit(self, needed: Iterable[str]) -> Fit:
        """Judge the torch names among ``needed``; the others are not torch's to provide."""
        names = sorted(name for name in needed if TORCH_SYMBOL.match(name))
        having = {name: self.exporting(name) for name in names}
        unknown = tuple(name for name in names if not having[name])
        lacking = {release: tuple(n for n in names if release not in having[n])
                   for release in self.known}
        fitting = tuple(release for release in self.known if not lacking[release])
        return Fit(fitting, {r: n for r, n in lacking.items() if n}, unknown)

    @property
    def names(self) -> frozenset[str]:
        """The names that differ between releases, as candidates for near misses."""
        return frozenset(self.masks).union(*self.learned.values())


def load(learned: Path | None = None) -> SymbolTable:
    """The shipped table with what was learned on this machine.

    Raises InputError when a table is damaged.
    """
    document = _read(SHIPPED)
    masks = {name: int(mask) for mask, names in document["names"].items() for name in names}
    blob = base64.b64decode(document["common"])
    common = frozenset(blob[i:i + _HASH_BYTES] for i in range(0, len(blob), _HASH_BYTES))
    more = {}
    for file in matching(learned, "*.json.xz") if learned else ():
        own = _read(file)
        more[str(own["release"])] = frozenset(map(str, own["names"]))
    return SymbolTable(tuple(document["releases"]), masks, common, more)


def exports(folder: Path) -> frozenset[str]:
    """The torch names that the libraries of a ``torch/lib`` folder export.

    Raises InputError when there is none.
    """
    names: set[str] = set()
    for path in sorted(folder.glob("*.so")):
        try:
            names |= read_dynamic(path).defined
        except PatcherError:
            continue
    found = frozenset(name for name in names if TORCH_SYMBOL.match(name))
    if not found:
        raise InputError("no library here exports a name of torch", where=str(folder),
                         next_step="name the folder torch/lib")
    return found


def pack(releases: Mapping[str, frozenset[str]]) -> bytes:
    """The bytes of a shipped table made of these releases' exports."""
    ordered = sorted(releases, key=_by_number)
    shared = frozenset.intersection(*releases.values())
    names: dict[str, list[str]] = {}
    for name in sorted(frozenset[str]().union(*releases.values()) - shared):
        mask = sum(1 << i for i, release in enumerate(ordered) if name in releases[release])
        names.setdefault(str(mask), []).append(name)
    hashes = b"".join(sorted({_hash(name) for name in shared}))
    return _packed({"version": 1, "releases": ordered, "names": names,
                    "common": base64.b64encode(hashes).decode()})


def pack_learned(release: str, names: frozenset[str]) -> bytes:
    """The bytes of one learned release, for ``RELEASE.json.xz`` in the learned folder."""
    return _packed({"version": 1, "release": release, "names": sorted(names)})


def _packed(document: Mapping[str, Any]) -> bytes:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)


def _read(path: Path) -> dict[str, Any]:
    try:
        packed = path.read_bytes()
        text = lzma.LZMADecompressor().decompress(packed, _MAX_BYTES)
        document = json.loads(text)
    except (OSError, lzma.LZMAError, ValueError) as error:
        raise InputError(f"not a table of symbols: {error}", where=str(path)) from error
    if not isinstance(document, dict) or document.get("version") != 1:
        raise InputError("not a table of symbols", where=str(path))
    return document


def _hash(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=_HASH_BYTES).digest()


def _by_number(release: str) -> list[int]:
    return [int(part) for part in release.split("+")[0].split(".") if part.isdigit()]
