"""The text of ``why``: a feature's layers in order, and what one gate alone would do."""

from __future__ import annotations

from collections.abc import Iterator

from patcher.gates import Gate, Layer
from patcher.report.text_scan import names, place, reason
from patcher.report.wrapping import wrap
from patcher.scan.model import ModuleReport, Report

_ORDER = (Layer.PYTHON, Layer.BUILD, Layer.PREPROCESSOR, Layer.HOST, Layer.BINARY)


def render_why(report: Report) -> str:
    """Every module of the report; the last line is the next command."""
    lines: list[str] = []
    for module in report.modules:
        lines += _module(report, module)
    lines += [f"Next: {next_command(report)}"]
    return "\n".join(lines) + "\n"


def next_command(report: Report) -> str:
    """What to type next: the diff that opens the first feature, or the whole scan."""
    opened = [gate.opened_by for gate in report.gates if gate.opened_by]
    if opened:
        patchset, _, group = opened[0].partition("/")
        return f"sm-patch diff {patchset} --group {group}"
    package = report.packages[0].name
    return f"sm-patch scan {package} --all"


def _module(report: Report, module: ModuleReport) -> Iterator[str]:
    package = report.packages[0]
    targets = ", ".join(target.name for target in report.targets)
    state = "closed" if module.closed else "open"
    yield f"{module.name} in {package.name} {package.version or ''} on {targets}: {state}"
    functions = ", ".join(module.functions) or "none found"
    yield from wrap(functions, "  public functions: ")
    by_id = {gate.id: gate for gate in report.findings}
    for number, layer in enumerate(_ORDER, 1):
        state_row = next(s for s in module.layers if s.layer is layer)
        yield from wrap(state_row.summary, f"  {number} {layer.value:<13} ")
        for identifier in module.gates:
            gate = by_id.get(identifier)
            if gate is not None and gate.layer is layer:
                yield from _gate(gate)
    yield from _alone(report, module)
    yield ""


def _gate(gate: Gate) -> Iterator[str]:
    count = f"{gate.count} x " if gate.count > 1 else ""
    where = f" in {names(gate)}" if names(gate) else ""
    verdict = "too open" if gate.over_open else "closed"
    yield from wrap(f"{verdict}: {count}{gate.effect.value} {place(gate)}{where}", "      ")
    yield from wrap(reason(gate), "        ")
    if len(gate.via) > 1:
        yield from wrap(" -> ".join(part.rpartition("/")[2] for part in gate.via), "        via ")
    if gate.opened_by:
        yield f"        opened by {gate.opened_by}"


def _alone(report: Report, module: ModuleReport) -> Iterator[str]:
    if not module.opens_alone:
        return
    yield "  When one gate alone opens:"
    for row in module.opens_alone:
        gate = report.gate(row.gate)
        functions = ", ".join(row.functions) or "the module"
        yield from wrap(f"{place(gate)}: {functions}: {row.result.value} ({row.why})", "    ")
