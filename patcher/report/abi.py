"""ABI verdicts as text and as the rows of contract ``abi``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from patcher.binary.abi import MissingSymbol
from patcher.doctor.fit import LibraryFit, lacking_in
from patcher.doctor.verdict import Verdict
from patcher.report.wrapping import wrap

_SHOWN = 6


def headline(verdict: Verdict) -> str:
    """The answer in one sentence."""
    name = f"{verdict.name} {verdict.version}" if verdict.version else verdict.name
    suits = " or ".join(verdict.built_for)
    if not verdict.libraries:
        return f"{name} " + ("cannot be read" if verdict.unreadable else "asks nothing of torch")
    if verdict.torch is None:
        known = ", ".join(verdict.known)
        return (f"{name} fits torch {suits} (of {known}); no torch is installed here" if suits else
                f"{name} fits none of the known torch releases ({known})")
    if verdict.missing:
        built = f"; it was built for torch {suits}" if suits else ""
        return f"{name} does not fit the installed torch {verdict.torch}{built}"
    return f"{name} fits the installed torch {verdict.torch}"


def to_text(verdict: Verdict) -> Iterator[str]:
    """The answer, each library with what it misses and how that differs, the ways out."""
    yield from wrap(headline(verdict))
    for problem in verdict.unreadable:
        yield from wrap(f"cannot be read: {problem}", "  ", "    ")
    for fit in verdict.libraries:
        releases = ", ".join(fit.fit.fitting) or "no known release"
        name = "/".join(fit.path.parts[-2:])
        yield from wrap(f"{name}: asks {fit.asked} names of torch; fits {releases}",
                        "  ", "    ")
        if fit.fit.unknown:
            yield from wrap(f"{len(fit.fit.unknown)} of them no known release has: built for a "
                            "newer one, or for a changed one", "    ")
        yield from _missing(verdict, fit)
    if verdict.ways:
        yield "Ways out, the least effort first:"
        yield from (f"  {number}. {way}" for number, way in enumerate(verdict.ways, 1))
    yield "Next: " + (verdict.ways[0] if verdict.ways else "sm-patch doctor")


def _missing(verdict: Verdict, fit: LibraryFit) -> Iterator[str]:
    if fit.missing is not None:
        yield from _symbols(fit.missing, f"torch {verdict.torch}")
        return
    other = next((r for r in reversed(verdict.known) if r in fit.fit.lacking), None)
    if other:
        yield from _symbols(lacking_in(fit.fit, other), f"torch {other}")


def _symbols(missing: Sequence[MissingSymbol], where: str) -> Iterator[str]:
    for symbol in missing[:_SHOWN]:
        yield from wrap(f"{where} has no {symbol.readable}", "    ", "      ")
        if symbol.difference:
            yield from wrap(symbol.difference, "      ")
    if len(missing) > _SHOWN:
        yield f"    and {len(missing) - _SHOWN} more"


def to_checks(verdict: Verdict) -> list[dict[str, Any]]:
    """One row per library, with the fields that only ``abi`` has under ``abi``."""
    rows = [{"id": f"abi-{verdict.name}", "status": "warning", "summary": problem,
             "evidence": [], "repair": {"patchset": None, "commands": [], "advice": []}}
            for problem in verdict.unreadable]
    return [*rows, *(_row(verdict, fit) for fit in verdict.libraries)]


def _row(verdict: Verdict, fit: LibraryFit) -> dict[str, Any]:
    missing = fit.missing or ()
    wrong = bool(missing) if verdict.torch else not fit.fit.fitting
    return {
        "id": f"abi-{verdict.name}", "status": "error" if wrong else "ok",
        "summary": headline(verdict), "evidence": [str(fit.path)],
        "repair": {"patchset": None, "commands": list(verdict.ways), "advice": []},
        "abi": {
            "library": str(fit.path), "torch": verdict.torch, "fits": list(fit.fit.fitting),
            "lacking": {release: list(names) for release, names in fit.fit.lacking.items()},
            "unknown": list(fit.fit.unknown),
            "missing": [{"symbol": m.symbol, "readable": m.readable, "nearest": list(m.nearest),
                         "difference": m.difference} for m in missing],
        },
    }
