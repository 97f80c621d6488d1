"""Which torch a package's libraries were built for, and what the installed one lacks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs

from patcher.binary.abi import TORCH_SYMBOL, Exports, MissingSymbol, explain, missing_symbols
from patcher.binary.dynamic import Dynamic
from patcher.binary.symbols import Fit, SymbolTable, load

_USERS = Path(__file__).parents[1] / "data" / "torch_users.json"


@dataclass(frozen=True, slots=True)
class LibraryFit:
    """One library: how many names it asks of torch, the known releases that have them all,
    and what the installed torch lacks (None where there is none)."""

    path: Path
    asked: int
    fit: Fit
    missing: tuple[MissingSymbol, ...] | None


def learned_folder() -> Path:
    """Where ``abi learn`` keeps what it read."""
    return Path(platformdirs.user_data_dir("sm-patch")) / "torch-symbols"


@cache
def table() -> SymbolTable:
    """The shipped table with what was learned here; raises InputError when one is damaged."""
    return load(learned_folder())


def judge(library: Dynamic, exports: Exports | None) -> LibraryFit:
    """Compare one library with what the installed torch exports and with the known releases."""
    known = table()
    fit = known.fit(library.undefined)
    missing = tuple(missing_symbols(library, exports)) if exports else None
    asked = sum(1 for name in library.undefined if TORCH_SYMBOL.match(name))
    return LibraryFit(library.path, asked, fit, missing)


def common_releases(fits: Iterable[LibraryFit]) -> tuple[str, ...]:
    """The known releases that suit every library, ascending."""
    known = table().known
    chosen = set(known)
    for each in fits:
        chosen &= set(each.fit.fitting)
    return tuple(release for release in known if release in chosen)


def lacking_in(fit: Fit, release: str) -> list[MissingSymbol]:
    """What a known release lacks, with the look-alikes it does have."""
    known = table()
    offered = Exports(name for name in known.names if release in known.exporting(name))
    return [explain(symbol, offered) for symbol in fit.lacking.get(release, ())]


def minor(release: str) -> str:
    """``2.9`` of ``2.9.1+cu128``: releases of one minor version keep their ABI."""
    return ".".join(release.split("+")[0].split(".")[:2])


def releases_for(distribution: str, torch: str) -> tuple[str, ...]:
    """Requirements (``sgl-kernel==0.3.21``) of a package known to fit a torch, newest first."""
    document = _users()
    family = document["families"].get(distribution, distribution)
    return tuple(requirement for requirement, fitting in document["packages"].get(family, ())
                 if minor(torch) in fitting)


@cache
def _users() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(_USERS.read_text("utf-8"))
    return document
