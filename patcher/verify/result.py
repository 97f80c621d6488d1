"""What a verification found, unit by unit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from patcher.cuda.model import TranslationUnit
from patcher.verify.judge import KernelVerdict, Verdict
from patcher.verify.kernels import Code
from patcher.verify.resources import Resources

# instructions whose coming and going is shown
COUNTED = ("griddepcontrol.wait", "griddepcontrol.launch_dependents", "mma", "wgmma", "tcgen05",
           "cp.async.bulk", "barrier.cluster")
_LENGTH = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Pair:
    """A unit as it is built before and after; a flag's patch changes only its configuration.

    ``opened``: it could not be built for the target before, whatever its text was.
    """

    before: TranslationUnit
    after: TranslationUnit
    opened: bool = False

    @property
    def path(self) -> str:
        return self.after.path


@dataclass(frozen=True, slots=True)
class Side:
    """One unit on one target in one tree: its code, or why there is none.

    ``resources`` are those of the optimised code, None when it was not built.
    """

    code: Code = field(default_factory=Code)
    error: str = ""
    kernels: tuple[KernelVerdict, ...] = ()
    resources: Resources | None = None
    lasting: bool = True


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Targets (and ``host``) that must not change: those whose preprocessed text was compared."""

    identical: tuple[str, ...] = ()
    different: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reason:
    """One cause for a verdict; for hollow kernels of one template those that it concerns.

    ``family`` is the template's name, ``count`` of its ``total`` instances are
    concerned; all empty when the reason concerns the unit as a whole.
    """

    text: str
    where: str = ""
    family: str = ""
    count: int = 0
    total: int = 0

    def __str__(self) -> str:
        place = f", {self.where}" if self.where and self.where not in self.text else ""
        if not self.family:
            return f"{self.text}{place}"
        return f"{self.count} of {self.total} {self.family}: {self.text}{place}"


@dataclass(frozen=True, slots=True)
class UnitResult:
    """The verdict for a unit and target with its reasons; ``seconds`` of compiling, wall clock."""

    unit: str
    arch: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    before: Side | None
    after: Side | None
    elsewhere: Elsewhere = Elsewhere()
    seconds: float = 0.0
    cached: bool = False
    files: tuple[str, ...] = ()  # of the package, that the unit reads after the change
    lasting: bool = True  # False when another machine, or this one later, may answer otherwise


def reasons_of(kernels: Sequence[KernelVerdict]) -> tuple[Reason, ...]:
    """Hollow kernels by cause and template, the largest group first."""
    totals: dict[str, int] = {}
    groups: dict[tuple[str, str], list[KernelVerdict]] = {}
    for kernel in kernels:
        name = family(kernel.name)
        totals[name] = totals.get(name, 0) + 1
        if kernel.verdict is Verdict.HOLLOW:
            groups.setdefault((name, kernel.reason), []).append(kernel)
    found = [Reason(reason, group[0].where, name, len(group), totals[name])
             for (name, reason), group in groups.items()]
    return tuple(sorted(found, key=lambda r: (-r.count, r.family, r.text)))


def family(name: str) -> str:
    """The bare name of a kernel's template, out of its mangled name: no namespace, no arguments.

    Names of template instances run to kilobytes, and some are too much for a demangler.
    """
    position = len("_ZN") if name.startswith("_ZN") else len("_Z")
    found = name
    while name.startswith("_Z") and (number := _LENGTH.match(name, position)):
        start = number.end()
        position = start + int(number[0])
        found = name[start:position]
    return found


def as_row(result: UnitResult) -> dict[str, Any]:
    """The contract's row; kernels by their mangled names."""
    return {
        "unit": result.unit, "arch": result.arch, "verdict": result.verdict.value,
        "reasons": [str(reason) for reason in result.reasons],
        "seconds": round(result.seconds, 3), "cached": result.cached,
        "before": _side(result.before), "after": _side(result.after),
        "unchanged": list(result.elsewhere.identical),
        "changed": list(result.elsewhere.different), "files": list(result.files),
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
        "kernels_with": {m: n for m in COUNTED if (n := side.code.having(m))},
        "resources": asdict(side.resources) if side.resources else None,
    }
