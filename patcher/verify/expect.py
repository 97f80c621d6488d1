"""Hold the ``verify:`` blocks of a patchset against what was compiled."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from patcher.patchset.schema import Expectation, VerifyUnit
from patcher.verify.judge import Verdict
from patcher.verify.result import Reason, UnitResult

_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne, ">": operator.gt,
    ">=": operator.ge, "<": operator.lt, "<=": operator.le,
}


def check_expectations(
    results: Sequence[UnitResult], blocks: Iterable[VerifyUnit]
) -> list[UnitResult]:
    """The results, failed where a block of their unit asks for something else."""
    wanted: dict[str, list[VerifyUnit]] = {}
    for block in blocks:
        wanted.setdefault(str(block.unit), []).append(block)
    return [_check(result, wanted.get(result.unit, ())) for result in results]


def _check(result: UnitResult, blocks: Sequence[VerifyUnit]) -> UnitResult:
    if result.after is None or result.verdict is Verdict.FAILED:
        return result
    broken = [
        Reason(f"{e.name} is {found}, the patchset says {e.operator} {e.value}")
        for block in blocks
        if not block.archs or result.arch in block.archs
        for e in block.expect
        if not _COMPARE[e.operator](found := _count(result, e), e.value)
    ]
    if not broken:
        return result
    worse = Verdict.HOLLOW if result.verdict is Verdict.HOLLOW else Verdict.FAILED
    return replace(result, verdict=worse, reasons=(*result.reasons, *broken))


def _count(result: UnitResult, expectation: Expectation) -> int:
    """Hollow kernels, or kernels that can reach an instruction of this mnemonic."""
    assert result.after is not None
    if expectation.name == Verdict.HOLLOW.value:
        return sum(k.verdict is Verdict.HOLLOW for k in result.after.kernels)
    return result.after.code.having(expectation.name)
