"""Verdicts of a verification as text and JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from patcher.binary.demangle import demangle
from patcher.verify.judge import Verdict
from patcher.verify.result import COUNTED

_MANGLED = re.compile(r"_Z\w+")
_REASONS = 6
_TIMING = ("seconds", "cached")
Row = Mapping[str, Any]  # as ``verify.result.as_row`` makes it


def to_text(rows: Sequence[Row], effort: str, toolkit: str) -> Iterator[str]:
    """The answer first, then each unit and target with its reasons."""
    if not rows:
        yield "Nothing to compile: no unit is concerned."
        return
    counts = Counter(Verdict(row["verdict"]) for row in rows)
    bad = counts[Verdict.HOLLOW] + counts[Verdict.FAILED]
    shown = ", ".join(f"{counts[v]} {v.value}" for v in Verdict if counts[v])
    idle = counts[Verdict.UNCHANGED] == len(rows)
    word = "NOT proven" if bad else "Nothing changed" if idle else "Proven"
    yield f"{word} by {toolkit} ({effort} effort): {shown} of {len(rows)} (unit, target) pairs"
    for row in rows:
        timing = "cached" if row["cached"] else f"{row['seconds']:.0f} s"
        yield f"  {row['verdict']:9} {row['arch']:9} {row['unit']}"
        yield f"            {_change(row)} [{timing}]"
        for reason in row["reasons"][:_REASONS]:
            yield f"            {_fit(_MANGLED.sub(lambda m: demangle(m[0]), reason))}"
        if len(row["reasons"]) > _REASONS:
            yield f"            and {len(row['reasons']) - _REASONS} more reasons"
    yield from _elsewhere(rows)
    if counts[Verdict.HOLLOW]:
        yield "A hollow kernel launches and does nothing: do not use what it belongs to."


def _change(row: Row) -> str:
    """Kernels, and the instructions that came or went."""
    after, before = row["after"], row["before"]
    if after is None and row["verdict"] == Verdict.UNCHANGED:
        return "the same text"
    if after is None or not after["kernels"]:
        return "no kernels" if after and not after["error"] else "not compiled"
    known = before if before and before["kernels"] else after
    count = after["kernels"]
    parts = [f"{count} kernel{'s' * (count != 1)}", _hollow(known, after)]
    for mnemonic in COUNTED:
        old, new = (side["kernels_with"].get(mnemonic, 0) for side in (known, after))
        if old != new:
            parts.append(f"{mnemonic} in {old} -> {new}")
    if resources := after["resources"]:
        parts.append(f"at most {resources['registers']} registers")
        if resources["spilling"]:
            parts.append(f"{resources['spilling']} spill")
    return ", ".join(parts)


def _hollow(before: Row, after: Row) -> str:
    old, new = len(before["hollow"]), len(after["hollow"])
    return f"{new} hollow" if old == new else f"{old} -> {new} hollow"


def _elsewhere(rows: Sequence[Row]) -> Iterator[str]:
    """One line per unit on the passes that must not change.

    Compared is what the patches for the asked targets alone make of them; those
    marked as concerning every target are meant to change them.
    """
    for unit, row in {row["unit"]: row for row in rows}.items():
        if row["unchanged"] and not row["changed"]:
            yield (f"  unchanged for {' '.join(row['unchanged'])}, "
                   f"edits for every target aside: {unit}")


def _fit(text: str, width: int = 300) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def to_json(rows: Sequence[Row], *, timing: bool = True) -> str:
    """The contract's document; without timing the same for the same verdicts, wherever and
    whenever they were made."""
    kept = [{key: value for key, value in row.items() if timing or key not in _TIMING}
            for row in rows]
    return json.dumps({"version": 1, "units": kept}, indent=2, sort_keys=True) + "\n"
