"""The text of ``scan`` and ``why``: the answer first, 80 columns, grouped by feature."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from patcher.gates import Cause, Gate, Layer, Severity
from patcher.scan.model import ModuleReport, Opening, OpensAlone, Report

WIDTH = 80
_ORDER = [Severity.CRITICAL, Severity.WARNING, Severity.INFO]
_SHARED = "(no module)"


@dataclass(frozen=True, slots=True)
class Style:
    """How much is shown: ``all`` the information rows too, ``expand`` each gate of a row."""

    all: bool = False
    expand: bool = False


def render_text(report: Report, style: Style | None = None) -> str:
    """The whole report as text that ends with a newline."""
    style = style or Style()
    lines = [*_wrap(headline(report)), *_context(report), ""]
    for module in report.modules:
        lines += _module(report, module, style)
    lines += _rest(report, style)
    lines += [line for note in report.notes for line in _wrap(note, "note: ")]
    lines += _missing(report)
    lines += [line for text in report.warnings for line in _wrap(text, "warning: ")]
    return "\n".join(lines).rstrip("\n") + "\n"


def headline(report: Report) -> str:
    """The answer in one sentence, with what had to be assumed."""
    closed = [module for module in report.modules if module.closed]
    targets = ", ".join(target.name for target in report.targets)
    openable = openable_modules(report)
    noun = "module" if len(closed) == 1 else "modules"
    text = f"{len(closed)} {noun} closed on {targets}"
    if openable:
        text += f"; {len(openable)} can be opened: {', '.join(openable)}"
    else:
        text += "; nothing to patch here"
        reasons = _reasons(report)
        text += f": what stays closed is {reasons}" if reasons else ""
    if report.assumed:
        text += f" (assumed: {'; '.join(report.assumed)})"
    return text


def openable_modules(report: Report) -> list[str]:
    """Modules with a finding that a shipped group opens."""
    by_id = {gate.id: gate for gate in report.findings}
    return [
        module.name
        for module in report.modules
        if any(by_id[i].opened_by for i in module.gates if i in by_id)
    ]


def _reasons(report: Report) -> str:
    counts: dict[Cause, int] = {}
    for gate in report.findings:
        if gate.layer is Layer.PYTHON:
            counts[gate.cause] = counts.get(gate.cause, 0) + 1
    return ", ".join(f"{counts[cause]} {cause.value}" for cause in Cause if cause in counts)


def _context(report: Report) -> Iterator[str]:
    toolchain = report.toolchain
    cuda = f"CUDA {toolchain.version}" + (" (assumed)" if toolchain.assumed else "")
    for package in report.packages:
        yield f"{package.name} {package.version or 'of unknown version'} in {package.root}"
    references = " ".join(target.name for target in report.references)
    counts = f"{report.unit_count} units, {report.file_count} files"
    yield from _wrap(f"{counts}; {cuda}; compared with {references}")


def _module(report: Report, module: ModuleReport, style: Style) -> Iterator[str]:
    wanted = set(module.gates)
    gates = [gate for gate in report.findings if gate.id in wanted]
    shown = [gate for gate in gates if style.all or gate.severity is not Severity.INFO]
    if not gates or (not shown and not module.closed):
        return
    worst = min((gate.severity for gate in gates), key=_ORDER.index)
    opened = sorted({gate.opened_by for gate in gates if gate.opened_by})
    yield f"{module.name or _SHARED}  [{worst.value}]" + "".join(f"  {name}" for name in opened)
    for state in module.layers:
        yield from _wrap(state.summary, f"  {state.layer.value:<13} ")
    for gate in sorted(shown or gates, key=lambda g: _ORDER.index(g.severity)):
        yield from _gate(report, gate, style)
    for row in module.opens_alone:
        yield from _alone(report, row)
    yield ""


def _gate(report: Report, gate: Gate, style: Style) -> Iterator[str]:
    verdict = "too open" if gate.over_open else "closed"
    count = f"{gate.count} x " if gate.count > 1 else ""
    head = f"{count}{gate.effect.value}, {verdict}, cause {gate.cause.value}"
    yield from _wrap(head, f"    {gate.severity.value}: ")
    yield f"      {place(gate)}"
    if len(gate.lines) > 1:
        yield from _wrap("lines " + ", ".join(map(str, gate.lines[:24])), "      ")
    if names(gate):
        yield from _wrap(names(gate), "      in ")
    yield from _wrap(gate.condition, "      ")
    for item in gate.evidence[: len(gate.evidence) if style.expand else 1]:
        where = f"{item.path}:{item.line} " if item.line else f"{item.path} "
        yield from _wrap(f"{where}{item.text}", "      | ")
    if gate.opened_by:
        yield from _wrap(gate.opened_by, "      opened by ")
    if style.expand:
        for inner in report.details.get(gate.id, ()):
            yield f"      - line {inner.location.line} {inner.within}"


def place(gate: Gate) -> str:
    """Path and lines of the first of a row's gates."""
    if gate.count == 1 and gate.location.end_line > gate.location.line:
        return f"{gate.location.path}:{gate.location.line}-{gate.location.end_line}"
    if not gate.location.line:
        return gate.location.path
    return f"{gate.location.path}:{gate.location.line}"


def names(gate: Gate) -> str:
    """The functions a gate is in."""
    found = [name for name in gate.names if name]
    if len(found) <= 2:
        return " ".join(found)
    return f"{found[0]} and {len(found) - 1} more"


def _alone(report: Report, row: OpensAlone) -> Iterator[str]:
    if row.result is Opening.OK and row.why.startswith("nothing changes"):
        return
    gate = report.gate(row.gate)
    functions = ", ".join(row.functions) or "the module"
    yield from _wrap(
        f"opening {gate.location.path}:{gate.location.line} alone: {functions}: "
        f"{row.result.value} ({row.why})", "    ! " if row.result is not Opening.OK else "    = ")


def _rest(report: Report, style: Style) -> Iterator[str]:
    """Findings of no module, by family; and how many rows of information there are."""
    grouped = {identifier for module in report.modules for identifier in module.gates}
    loose = [gate for gate in report.findings if gate.id not in grouped]
    shown = [gate for gate in loose if style.all or gate.severity is not Severity.INFO]
    if shown:
        yield "Outside any module"
        for family in families(shown):
            yield from _family(report, family, style)
        yield ""
    quiet = sum(gate.count for gate in report.findings if gate.severity is Severity.INFO)
    if quiet and not style.all:
        yield from _wrap(f"{quiet} gates are closed by hardware, on purpose, or have an "
                         "alternative; --all shows them")


def families(gates: Iterable[Gate]) -> list[list[Gate]]:
    """Gates of one folder with the same condition, effect and cause."""
    grouped: dict[tuple[object, ...], list[Gate]] = {}
    for gate in gates:
        folder = gate.location.path.rpartition("/")[0]
        key = (folder, gate.condition, gate.effect, gate.cause, gate.over_open)
        grouped.setdefault(key, []).append(gate)
    return list(grouped.values())


def _family(report: Report, family: Sequence[Gate], style: Style) -> Iterator[str]:
    if len(family) == 1 or style.expand:
        for gate in family:
            yield from _gate(report, gate, style)
        return
    first = family[0]
    total = sum(gate.count for gate in family)
    folder = first.location.path.rpartition("/")[0]
    yield from _wrap(f"{total} x {first.effect.value} in {len(family)} files of {folder}, "
                     f"cause {first.cause.value}: {first.condition}",
                     f"    {first.severity.value}: ")


def _missing(report: Report) -> Iterator[str]:
    if report.missing:
        names = sorted({row.include for row in report.missing})
        shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
        yield from _wrap(f"{len(names)} headers were not found ({shown}); what depends on them "
                         "is unknown", "note: ")


def _wrap(text: str, lead: str = "") -> list[str]:
    body = " ".join(text.split())
    return textwrap.wrap(body, WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead),
                         break_long_words=False, break_on_hyphens=False) or [lead.rstrip()]
