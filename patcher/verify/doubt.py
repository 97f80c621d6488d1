"""What no comparison of code can see: a function that is emptied on every target looked at.

Then only its source tells: statements that stand under a condition inside its body. A
kernel like that does nothing where it should; a device function is a doubt, as it may be
off on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from patcher.verify.judge import KernelVerdict, Verdict
from patcher.verify.kernels import Code
from patcher.verify.result import Reason, family

Source = Callable[[str], Sequence[str]]  # the lines of a file, none when it cannot be read

_EMPTY = ("its body is empty: what it does stands under a condition that holds for no target "
          "looked at")
_LONGEST = 400  # lines of a body
_SHOWN = 3
_NOISE = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\]|\\.)*\"|\b(?:static_assert|assert|printf)\b.*")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/")
_SYNC = re.compile(
    r"cudaGridDependencySynchronize|cudaTriggerProgrammatic"
    r"|\basm\b.{0,400}?\"[^\"]*?\b(?:griddepcontrol|barrier|bar|mbarrier|fence|membar|atom|red)\.",
    re.S)
_STATEMENT = re.compile(r"[\w)\]]\s*;")


def empty_everywhere(verdicts: Sequence[KernelVerdict], target: Code,
                     references: Mapping[str, Code], source: Source) -> list[KernelVerdict]:
    """The verdicts, hollow for kernels that do nothing anywhere though their source does."""
    def judge(verdict: KernelVerdict) -> KernelVerdict:
        kernel = target.kernels.get(verdict.name)
        if verdict.verdict is not Verdict.OK or kernel is None or kernel.effects:
            return verdict
        others = (code.kernels.get(verdict.name) for code in references.values())
        if any(other.effects for other in others if other):
            return verdict
        places = [(kernel.name, kernel.where)]
        places += [(target.names[d], target.places.get(d, "")) for d in sorted(kernel.empty)]
        for name, place in places:
            if any(_STATEMENT.search(_NOISE.sub("", line))
                   for line in conditional_lines(name, place, source)):
                return replace(verdict, verdict=Verdict.HOLLOW, where=place, reason=_EMPTY)
        return verdict

    return [judge(verdict) for verdict in verdicts]


def doubts(target: Code, references: Mapping[str, Code], source: Source) -> tuple[Reason, ...]:
    """At most one reason: device functions that synchronise in their source and nowhere else."""
    active = {digest for code in references.values() for kernel in code.kernels.values()
              for digest in kernel.active}
    idle = {digest for kernel in target.kernels.values() for digest in kernel.empty} - active
    places = sorted({target.places[digest] for digest in idle if target.places.get(digest)})
    found = [(place, target.names[digest]) for place in places
             for digest in sorted(idle) if target.places.get(digest) == place]
    hidden = {place: name for place, name in found
              if _SYNC.search("\n".join(conditional_lines(name, place, source)))}
    if not hidden:
        return ()
    shown = ", ".join(f"{name} ({place})" for place, name in list(hidden.items())[:_SHOWN])
    more = f" and {len(hidden) - _SHOWN} more" if len(hidden) > _SHOWN else ""
    return (Reason(f"not known whether on purpose: empty here and on every reference, though the "
                   f"source synchronises under a condition: {shown}{more}"),)


def conditional_lines(name: str, place: str, source: Source) -> Iterator[str]:
    """The lines of a function's body that stand between an ``#if`` and its ``#endif``, without
    comments.

    ``name`` is mangled, ``place`` the ``path:line`` of its head, as the compiler gives it.
    Nothing for a head that does not hold the name: a macro made that function.
    """
    path, _, number = place.rpartition(":")
    lines = source(path)[int(number) - 1:][:_LONGEST] if number.isdigit() and number != "0" else ()
    depth, outer, head = 0, list[int](), ""
    for line in map(str.strip, lines):
        if line.startswith("#"):
            _enter_or_leave(line[1:].lstrip(), depth, outer)
            depth = outer[-1] if outer and line[1:].lstrip().startswith("el") else depth
            continue
        plain = _NOISE.sub("", line)
        if not depth:
            head += plain.partition("{")[0]
            if ";" in head or ("{" in plain and family(name) not in head):
                return
        depth += plain.count("{")
        if depth and outer:
            yield _COMMENT.sub("", line)
        depth -= plain.count("}")
        if depth <= 0 and "}" in plain:
            return


def _enter_or_leave(directive: str, depth: int, outer: list[int]) -> None:
    """Keep, per open condition, how deep the braces were before it."""
    if directive.startswith("if"):
        outer.append(depth)
    elif directive.startswith("endif") and outer:
        outer.pop()
