"""Verdicts of a verification as text and JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from patcher.binary.demangle import demangle
from patcher.verify.judge import Verdict
from patcher.verify.result import Elsewhere, Side, UnitResult

_COUNTED = ("griddepcontrol.wait", "griddepcontrol.launch_dependents", "mma", "wgmma", "tcgen05",
            "cp.async.bulk", "barrier.cluster")
_MANGLED = re.compile(r"_Z\w+")
_REASONS = 6


def to_text(results: Sequence[UnitResult], effort: str, toolkit: str) -> Iterator[str]:
    """The answer first, then each unit and target with its reasons."""
    counts = Counter(r.verdict for r in results)
    bad = counts[Verdict.HOLLOW] + counts[Verdict.FAILED]
    if not results:
        yield "Nothing to compile: no unit is concerned."
        return
    shown = ", ".join(f"{counts[v]} {v.value}" for v in Verdict if counts[v])
    word = "NOT proven" if bad else "Proven"
    yield f"{word} by {toolkit} ({effort} effort): {shown} of {len(results)} (unit, target) pairs"
    for result in results:
        timing = "cached" if result.cached else f"{result.seconds:.0f} s"
        yield f"  {result.verdict.value:9} {result.arch:9} {result.unit}"
        yield f"            {_change(result)} [{timing}]"
        for reason in result.reasons[:_REASONS]:
            yield f"            {_fit(_MANGLED.sub(lambda m: demangle(m[0]), str(reason)))}"
        if len(result.reasons) > _REASONS:
            yield f"            and {len(result.reasons) - _REASONS} more reasons"
    yield from _elsewhere(results)
    if counts[Verdict.HOLLOW]:
        yield "A hollow kernel launches and does nothing: do not use what it belongs to."


def _change(result: UnitResult) -> str:
    """Kernels and the instructions that came or went."""
    after, before = result.after, result.before
    if after is None and result.verdict is Verdict.UNCHANGED:
        return "the same text"
    if after is None or not after.code.kernels:
        return "not compiled"
    parts = [f"{len(after.code.kernels)} kernels"]
    old = _hollow(before) if before and before.code.kernels else None
    parts.append(_moved("hollow", old, _hollow(after), always=True))
    for mnemonic in _COUNTED:
        old = before.code.having(mnemonic) if before and before.code.kernels else None
        parts.append(_moved(mnemonic, old, after.code.having(mnemonic)))
    if after.resources:
        parts.append(f"at most {after.resources.registers} registers")
        if after.resources.spilling:
            parts.append(f"{after.resources.spilling} spill")
    return ", ".join(part for part in parts if part)


def _moved(name: str, old: int | None, new: int, *, always: bool = False) -> str:
    if old is None or old == new:
        return f"{new} {name}" if always else ""
    return f"{old} -> {new} {name}" if always else f"{name} in {old} -> {new}"


def _hollow(side: Side) -> int:
    return sum(k.verdict is Verdict.HOLLOW for k in side.kernels)


def _elsewhere(results: Sequence[UnitResult]) -> Iterator[str]:
    """One line per unit on the targets that must not change."""
    seen: dict[str, Elsewhere] = {r.unit: r.elsewhere for r in results}
    for unit, where in seen.items():
        if where.identical and not where.different:
            yield (f"  unchanged for {len(where.identical)} other passes of {unit}: "
                   f"{' '.join(where.identical)}")


def _fit(text: str, width: int = 300) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def to_json(results: Sequence[UnitResult]) -> str:
    """The contract's document; kernels by their mangled names."""
    rows = [_row(result) for result in results]
    return json.dumps({"version": 1, "units": rows}, indent=2, sort_keys=True) + "\n"


def _row(result: UnitResult) -> dict[str, Any]:
    return {
        "unit": result.unit, "arch": result.arch, "verdict": result.verdict.value,
        "reasons": [str(reason) for reason in result.reasons],
        "seconds": round(result.seconds, 3), "cached": result.cached,
        "before": _side(result.before), "after": _side(result.after),
        "unchanged": list(result.elsewhere.identical),
        "changed": list(result.elsewhere.different),
    }


def _side(side: Side | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "error": side.error,
        "kernels": len(side.code.kernels),
        "hollow": [{"name": k.name, "reason": k.reason, "where": k.where}
                   for k in sorted(side.kernels, key=lambda k: k.name)
                   if k.verdict is Verdict.HOLLOW],
        "kernels_with": {m: n for m in _COUNTED if (n := side.code.having(m))},
        "resources": asdict(side.resources) if side.resources else None,
    }
