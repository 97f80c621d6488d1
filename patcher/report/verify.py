"""Verdicts of a verification as text and JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from patcher.verify.judge import KernelVerdict, Verdict
from patcher.verify.run import Side, UnitResult

_COUNTED = ("griddepcontrol.wait", "griddepcontrol.launch_dependents", "mma", "wgmma", "tcgen05",
            "cp.async.bulk", "barrier.cluster")


def to_text(results: Sequence[UnitResult], effort: str, toolkit: str) -> Iterator[str]:
    """The answer first, then one line per unit and target with its reasons."""
    counts = Counter(r.verdict for r in results)
    bad = counts[Verdict.HOLLOW] + counts[Verdict.FAILED]
    if not results:
        yield "Nothing to compile: no unit is concerned."
        return
    shown = ", ".join(f"{counts[v]} {v.value}" for v in Verdict if counts[v])
    word = "NOT proven" if bad else "Proven"
    yield f"{word} by {toolkit} ({effort} effort): {shown} of {len(results)} (unit, target) pairs"
    for result in results:
        before = _kernels(result.before, result.before_kernels)
        after = _kernels(result.after, result.kernels)
        change = f"{before} -> {after}" if before and before != after else after
        timing = "cached" if result.cached else f"{result.seconds:.0f} s"
        yield f"  {result.verdict.value:9} {result.arch:9} {result.unit}"
        yield f"            {change or 'not compiled'} [{timing}]"
        for reason in result.reasons[:4]:
            yield f"            {_fit(reason)}"
    if bad:
        yield "A hollow kernel launches and does nothing: do not use what it belongs to."


def _fit(text: str, width: int = 300) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _kernels(side: Side | None, kernels: Sequence[KernelVerdict]) -> str:
    if side is None or side.error:
        return "failed" if side else ""
    hollow = sum(k.verdict is Verdict.HOLLOW for k in kernels)
    return f"{len(side.ptx.entries)} kernels, {hollow} hollow"


def to_json(results: Sequence[UnitResult]) -> str:
    """The contract's document."""
    rows = [_row(result) for result in results]
    return json.dumps({"version": 1, "units": rows}, indent=2, sort_keys=True) + "\n"


def _row(result: UnitResult) -> dict[str, Any]:
    return {
        "unit": result.unit, "arch": result.arch, "verdict": result.verdict.value,
        "reasons": list(result.reasons), "seconds": round(result.seconds, 3),
        "cached": result.cached,
        "before": _side(result.before, result.before_kernels),
        "after": _side(result.after, result.kernels),
    }


def _side(side: Side | None, kernels: Sequence[KernelVerdict]) -> dict[str, Any] | None:
    if side is None:
        return None
    reached = [side.ptx.reach(entry.name) for entry in side.ptx.entries]
    return {
        "error": side.error,
        "kernels": len(reached),
        "hollow": sorted(k.name for k in kernels if k.verdict is Verdict.HOLLOW),
        "kernels_with": {m: n for m in _COUNTED if (n := sum(bool(r.count(m)) for r in reached))},
    }
