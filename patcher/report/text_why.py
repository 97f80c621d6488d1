"""The text of ``why``: a feature's layers in order, and what one gate alone would do."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from patcher.gates import Gate, Layer
from patcher.report.counted import by_cause, in_line
from patcher.report.headline import headline, names, place, reason, shutting
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


def render_summary(report: Report) -> str:
    """One line for each module that can be opened, and the others counted."""
    by_id = {gate.id: gate for gate in report.findings}
    opened = {module.name: sorted({gate.opened_by for name in module.gates
                                   if (gate := by_id.get(name)) and gate.opened_by})
              for module in report.modules}
    lines = [*wrap(headline(report)), ""]
    for module in report.modules:
        if opened[module.name]:
            lines += _line(module, opened[module.name])
    closed = [m for m in report.modules if m.closed and not opened[m.name]]
    if closed:
        built = {row.module for row in report.configurations} - {m.name for m in closed}
        lines += ["closed, and no shipped group opens them:",
                  *by_cause([(m.name, shutting(by_id, m).cause) for m in closed], built,
                            sorted({t.capability.number for t in report.targets}))]
    rest = [m.name for m in report.modules if not m.closed and not opened[m.name]]
    if rest:
        lines += ["open, with gates in their code:", *in_line(rest)]
    lines += ["(--all shows each of them, layer by layer)", ""] if report.modules else []
    return "\n".join([*lines, f"Next: {_first(report, opened)}"]) + "\n"


def _line(module: ModuleReport, groups: Sequence[str]) -> Iterator[str]:
    """A module that can be opened: its state, its closed layers, and by what."""
    layers = ", ".join(f"{state.closed} {state.layer.value}" for state in module.layers
                       if state.closed)
    state = "closed; gates that close it" if module.closed else "open; closed gates in its code"
    yield from wrap(f"{state}: {layers or 'none that counts'}; "
                    f"opened by {', '.join(groups)}", f"{module.name}: ")


def _first(report: Report, opened: Mapping[str, Sequence[str]]) -> str:
    """The question after a summary: the first module that can be opened, or that is closed."""
    package = report.packages[0].name
    names = [module.name for module in report.modules if opened[module.name]]
    names += [module.name for module in report.modules if module.closed]
    return f"sm-patch why {shlex.quote(f'{package}:{names[0]}')}" if names else (
        f"sm-patch scan {package} --all")


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
        if layer is Layer.HOST:
            yield from _tags(report, module)
    yield from _alone(report, module)
    yield ""


def _tags(report: Report, module: ModuleReport) -> Iterator[str]:
    """What the sources say of themselves; it opens and closes nothing."""
    if not module.tags:
        return
    for row in module.tags:
        more = f" and {len(row.places) - 1} more" if len(row.places) > 1 else ""
        yield from wrap(f"tag arch::{row.name}: {row.places[0]}{more}", "      ")
    target = report.targets[0]
    number, family = target.capability.number, f"{target.capability.major}.x"
    own = [row.name for row in module.tags
           if row.minimum // 10 == number // 10 and row.minimum <= number]
    fit = f"{', '.join(own)}: of {family}" if own else f"none is of {family}"
    yield from wrap(f"{fit}; a tag picks the templates of a kernel and refuses no GPU: what is "
                    f"left of it on {target.name} is decided by the gates above", "        ")


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
