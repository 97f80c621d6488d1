"""Say whether the kernels of a unit are real on a target, from PTX alone.

nvcc's exit code proves nothing: a guarded body compiles to ``ret``, a matrix
wrapper without its instruction to assert and trap. A kernel is *hollow* when
it lost what it does, judged against the same kernel on a reference target.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from patcher.verify.ptx import TRAPS, Ptx, Reach

# Texts that CUTLASS and CuTe print from stubs of instructions the target lacks.
STUB_TEXT = re.compile(
    r"without CUTE_ARCH|without CUTLASS|Arch conditional|Attempting to use \S+ without"
    r"|without targeting appropriate compute capability|Trying to use \S+ without"
)
# Losing one of these against the reference means the kernel lost its ordering, not a tuning.
_NOTHING = ("ret", "ld.param", "mov", "cvta", "st.param", "bra")
ORDERING = ("griddepcontrol.wait", "griddepcontrol.launch_dependents", "barrier.cluster")


class Verdict(str, Enum):
    """What became of a unit, a kernel, or a patch."""

    OK = "ok"
    HOLLOW = "hollow"
    FAILED = "failed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class KernelVerdict:
    """One kernel (its mangled name) and, when hollow, why."""

    name: str
    verdict: Verdict
    reason: str = ""


def judge_kernels(target: Ptx, references: Mapping[str, Ptx]) -> list[KernelVerdict]:
    """Judge each entry of ``target`` against the same entry of the references.

    ``references`` maps target names to the same sources compiled for them. An
    entry that does nothing anywhere is intentionally empty and ok; one that
    exists on a reference only is reported as hollow: a launch would fail.
    """
    verdicts = [_judge_entry(entry.name, target, references) for entry in target.entries]
    present = {entry.name for entry in target.entries}
    for name, reference in references.items():
        for entry in reference.entries:
            if entry.name not in present:
                present.add(entry.name)
                verdicts.append(
                    KernelVerdict(entry.name, Verdict.HOLLOW, f"exists on {name}, not here")
                )
    return verdicts


def _judge_entry(name: str, target: Ptx, references: Mapping[str, Ptx]) -> KernelVerdict:
    mine = target.reach(name)
    if stub := _stub_text(mine):
        return KernelVerdict(name, Verdict.HOLLOW, f"calls a stub: {stub}")
    for other, reference in references.items():
        if name not in reference.functions:
            continue
        if reason := _lost(mine, reference.reach(name), target, reference):
            return KernelVerdict(name, Verdict.HOLLOW, f"{reason} (present on {other})")
    return KernelVerdict(name, Verdict.OK)


def _stub_text(reach: Reach) -> str:
    return next((t.strip()[:160] for t in sorted(reach.texts) if STUB_TEXT.search(t)), "")


def _lost(mine: Reach, theirs: Reach, target: Ptx, reference: Ptx) -> str:
    """What the target lost against a reference on which the kernel is real, or ''."""
    if _stub_text(theirs):
        return ""  # no use as a reference
    if not mine.effects and theirs.effects:
        return "only a trap is left of its body" if _traps(mine) else "its body is empty"
    if _traps(mine) > _traps(theirs) and _matrix(theirs) and not _matrix(mine):
        return "its matrix instructions became a trap"
    for mnemonic in ORDERING:
        if theirs.count(mnemonic) and not mine.count(mnemonic):
            return f"{mnemonic} is gone"
    return _emptied(mine, theirs, target, reference)


def _traps(reach: Reach) -> int:
    return sum(reach.opcodes.get(t, 0) for t in TRAPS) + any("assert" in f for f in reach.functions)


def _matrix(reach: Reach) -> int:
    return sum(reach.count(m) for m in ("wgmma", "tcgen05", "mma", "wmma"))


def _emptied(mine: Reach, theirs: Reach, target: Ptx, reference: Ptx) -> str:
    """A device function both reach that keeps nothing but its return."""
    for name in sorted(mine.functions & theirs.functions):
        here = target.functions.get(name)
        if here is None or here.entry or not all(op.startswith(_NOTHING) for op in here.opcodes):
            continue
        if not target.reach(name).effects and reference.reach(name).effects:
            return f"device function {name} is empty"
    return ""


def unit_verdict(kernels: Sequence[KernelVerdict]) -> Verdict:
    """Hollow as soon as one kernel is."""
    hollow = any(k.verdict is Verdict.HOLLOW for k in kernels)
    return Verdict.HOLLOW if hollow else Verdict.OK
