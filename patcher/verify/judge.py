"""Say whether the kernels of a unit are real on a target, from their code alone.

nvcc's exit code proves nothing: a guarded body compiles to ``ret``, a matrix
wrapper without its instruction to assert and trap. A kernel is *hollow* when
it lost what it does, judged against the same kernel on reference targets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from patcher.verify.effects import TRAPS
from patcher.verify.kernels import Code, Kernel

# Texts that CUTLASS and CuTe print from stubs of instructions the target lacks.
STUB_TEXT = re.compile(
    r"without CUTE_ARCH|without CUTLASS|Arch conditional|Attempting to use \S+ without"
    r"|without targeting appropriate compute capability|Trying to use \S+ without"
)
# functions that the toolkit's headers call, and never define, where an instruction is missing
UNSUPPORTED = re.compile(r"_is_not_supported|_is_only_supported")
_STUBS = 3  # named in a reason
_MATRIX = ("wgmma", "tcgen05", "mma", "wmma")
_REPLACEMENTS = ("fma", "mad", "dp4a", "dp2a")
_CLUSTER = ("mapa", "ld.shared::cluster", "st.shared::cluster", "atom.shared::cluster")


class Verdict(str, Enum):
    """What became of a unit, a kernel, or a patch."""

    OK = "ok"
    HOLLOW = "hollow"
    FAILED = "failed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class KernelVerdict:
    """One kernel (its mangled name) and, when hollow, why; ``where`` is ``path:line``.

    ``stub`` tells the one reason that optimised code can refute: a stub behind a
    condition that the optimiser knows to be false.
    """

    name: str
    verdict: Verdict
    reason: str = ""
    where: str = ""
    stub: bool = False


@dataclass(frozen=True, slots=True)
class Built:
    """Optimised code: of the target, and of a reference where there is a doubt."""

    target: Code
    reference: Code | None = None

    def vanished(self, kernel: Kernel) -> bool:
        """True when the optimiser leaves nothing of a kernel that does something before it."""
        mine = self.target.kernels.get(kernel.name)
        return mine is not None and bool(kernel.effects) and not mine.effects


def judge_kernels(target: Code, references: Mapping[str, Code],
                  built: Built | None = None, earlier: Code | None = None) -> list[KernelVerdict]:
    """Judge each kernel of ``target`` against the same kernel of the references.

    All but ``built`` is unoptimised code; ``built`` has the last word on what is
    left of a kernel. ``references`` maps names of targets to the same sources
    compiled for them, ``earlier`` is the target's code before a change, which must
    not have done more. A kernel that does nothing anywhere is intentionally empty
    and ok; one that exists on a reference only is hollow: a launch would fail.
    """
    models = {f"present on {name}": code for name, code in references.items()}
    if earlier is not None:
        models["present before the change"] = earlier
    verdicts = [_judge(kernel, target, models, built) for kernel in target.kernels.values()]
    present = set(target.kernels)
    for name, reference in references.items():
        for kernel in reference.kernels.values():
            if kernel.name not in present:
                present.add(kernel.name)
                verdicts.append(KernelVerdict(kernel.name, Verdict.HOLLOW,
                                              f"exists on {name}, not here", kernel.where))
    return verdicts


def _judge(kernel: Kernel, target: Code, models: Mapping[str, Code],
           built: Built | None) -> KernelVerdict:
    final = built.target.kernels.get(kernel.name) if built else None
    if built and built.vanished(kernel) and built.reference:
        theirs = built.reference.kernels.get(kernel.name)
        if theirs is not None and theirs.effects:
            return KernelVerdict(kernel.name, Verdict.HOLLOW,
                                 "nothing is left of it in optimised code", kernel.where)
    stub = _stub(final or kernel)
    if stub:
        text, where = stub
        return KernelVerdict(kernel.name, Verdict.HOLLOW, f"calls a stub: {text}",
                             where or kernel.where, stub=True)
    for name in (final or kernel).externs:
        if UNSUPPORTED.search(name):
            return KernelVerdict(kernel.name, Verdict.HOLLOW, f"calls {name}, which nothing "
                                 "defines", kernel.where)
    for presence, model in models.items():
        theirs = model.kernels.get(kernel.name)
        if theirs is None or _stub(theirs):
            continue  # no use as a reference
        for reason in _lost(kernel, theirs, target):
            return KernelVerdict(kernel.name, Verdict.HOLLOW, f"{reason} ({presence})",
                                 kernel.where)
    if kernel.dies:
        return KernelVerdict(kernel.name, Verdict.HOLLOW,
                             "it always ends in a trap, here and on every reference", kernel.where)
    return KernelVerdict(kernel.name, Verdict.OK, where=kernel.where)


def _stub(kernel: Kernel) -> tuple[str, str] | None:
    """What the stubs that it calls say, and the first one's source line."""
    found = sorted((text.strip()[:160], where) for text, where in kernel.texts.items()
                   if STUB_TEXT.search(text))
    more = f" and {len(found) - _STUBS} more" if len(found) > _STUBS else ""
    return ("; ".join(text for text, _ in found[:_STUBS]) + more, found[0][1]) if found else None


def has_matrix_code(kernel: Kernel) -> bool:
    """True when it keeps real matrix instructions beside whatever else it calls."""
    return bool(_sum(kernel, _MATRIX))


def _lost(mine: Kernel, theirs: Kernel, target: Code) -> Iterator[str]:
    """What the target lost against a reference on which the kernel is real."""
    if not mine.effects and theirs.effects:
        yield "only a trap is left of its body" if _traps(mine) > _traps(theirs) \
            else "its body is empty"
    if mine.dies and not theirs.dies:
        yield "it always ends in a trap"
    if _sum(theirs, _MATRIX) and not _sum(mine, _MATRIX):
        if _traps(mine) > _traps(theirs):
            yield "its matrix instructions became a trap"
        if _sum(mine, _REPLACEMENTS) <= _sum(theirs, _REPLACEMENTS) \
                and mine.statements < theirs.statements:
            yield "its matrix instructions are gone, and nothing replaces them"
    if theirs.count("griddepcontrol.wait") and not mine.count("griddepcontrol.wait"):
        yield "griddepcontrol.wait is gone"
    if theirs.count("barrier.cluster") and not mine.count("barrier.cluster") \
            and _sum(mine, _CLUSTER):
        yield "barrier.cluster is gone, though it still uses its cluster"
    gone = theirs.effects - mine.effects
    if gone > 0 and all(count <= theirs.opcodes.get(op, 0) for op, count in mine.opcodes.items()):
        yield f"{gone} of its {theirs.effects} visible effects are gone, and nothing replaces them"
    for digest in sorted(mine.empty & theirs.active):
        yield f"device function {target.names[digest]} is empty"


def _sum(kernel: Kernel, mnemonics: Sequence[str]) -> int:
    return sum(kernel.count(m) for m in mnemonics)


def _traps(kernel: Kernel) -> int:
    return _sum(kernel, TRAPS) + kernel.externs.get("__assertfail", 0)


def unit_verdict(kernels: Sequence[KernelVerdict]) -> Verdict:
    """Hollow as soon as one kernel is."""
    hollow = any(k.verdict is Verdict.HOLLOW for k in kernels)
    return Verdict.HOLLOW if hollow else Verdict.OK
