"""Open or close a gate in Python code, by its structure."""

from __future__ import annotations

from patcher.operations.base import Evidence, Finding, Outcome
from patcher.patchset.schema import PythonGate
from patcher.tree import Tree


def find(operation: PythonGate, source: Tree) -> Finding:
    """The edits that give the gate the asked worlds, or why there are none."""
    from patcher.python.index import Index
    from patcher.python.model import GateSpec, Status
    from patcher.python.rewrite import rewrite

    asked, files = operation.open or operation.close, (operation.file,)
    try:
        data = source.read(operation.file)
    except FileNotFoundError:
        return Finding(Outcome.MISSING, f"{operation.file} is not in this package",
                       asked=asked, files=files)
    spec = GateSpec(operation.gate, operation.within, operation.open, operation.close,
                    operation.count, operation.value)
    result = rewrite(data, operation.file, spec, Index(source, operation.file))
    place = f"{operation.file} {operation.within}".strip()
    reason = f"{place}: {result.reason or operation.gate}"
    if result.status is Status.REWRITTEN:
        for before, after in zip(result.before, result.after, strict=True):
            if not (before ^ after) <= result.effective:
                return Finding(Outcome.CONFLICT, f"{reason} would change {before ^ after}, more "
                               f"than {result.effective}; not applied", asked=asked, files=files)
        return Finding(Outcome.APPLICABLE, "", {operation.file: result.edits}, asked=asked,
                       effective=result.effective, files=files)
    if result.status is Status.ALREADY:
        return Finding(Outcome.NOT_NEEDED, f"{place}: {operation.gate} has the asked worlds",
                       asked=asked, files=files)
    absent = result.status is Status.NO_MATCH
    return Finding(Outcome.CONFLICT, f"{reason}; not applied", asked=asked, files=files,
                   evidence=Evidence.ABSENCE if absent else Evidence.GATES)
