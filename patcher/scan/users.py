"""Who uses a wrapper whose body a gate takes away: ``enable_sm120_only<Kernel>``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from patcher.gates import Effect, Evidence, Gate, Layer
from patcher.scan.files import Files
from patcher.scan.model import is_library

_MOST = 24  # users that are named


def with_users(gates: Sequence[Gate], paths: Iterable[str], files: Files) -> list[Gate]:
    """The gates; one in a class template's call operator says who wraps a kernel in it.

    The wrapper names no kernel: what stands or falls with the gate are its users.
    """
    wrappers = {name: gate for gate in gates if (name := _wrapper(gate))}
    if not wrappers:
        return list(gates)
    spelled = [name.encode() for name in sorted(wrappers)]
    names = b"|".join(map(re.escape, spelled))
    use = re.compile(rb"(?<!struct )(?<!class )\b(" + names + rb")\s*<")
    users: dict[str, list[Evidence]] = {}
    for path in sorted(p for p in paths if not is_library(p)):
        data = files.get(path).data
        if not any(name in data for name in spelled) or not use.search(data):
            continue
        for number, line in enumerate(files.get(path).code_lines, 1):
            if match := use.search(line):
                name = match[1].decode()
                users.setdefault(name, []).append(Evidence(path, number, f"wrapped in {name}"))
    return [_with(gate, users.get(_wrapper(gate), ())) for gate in gates]


def _wrapper(gate: Gate) -> str:
    """The class of a call operator that a gate empties or lets trap."""
    lost = gate.effect in (Effect.TRAP, Effect.FUNCTION_BODY, Effect.ERROR)
    if gate.layer is not Layer.PREPROCESSOR or not gate.excludes_target or not lost:
        return ""
    name, _, operator = gate.within.rpartition("::")
    return name.rpartition("::")[2] if operator == "operator()" else ""


def _with(gate: Gate, users: Sequence[Evidence]) -> Gate:
    if not users:
        return gate
    return replace(gate, evidence=(*gate.evidence, *users[:_MOST]))
