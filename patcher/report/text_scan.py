"""The text of ``scan`` and ``why``: the answer first, 80 columns, grouped by feature."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass

from patcher.arch import relatives
from patcher.gates import Gate, Layer, Severity
from patcher.report.counted import LONG, by_cause, by_folder, few
from patcher.report.headline import ORDER, headline, names, place, reason, shutting
from patcher.report.libraries import library_lines
from patcher.report.wrapping import wrap
from patcher.scan.combine import Since
from patcher.scan.model import (
    ModuleReport,
    Opening,
    OpensAlone,
    Report,
    is_library,
)
from patcher.scan.together import together
from patcher.scan.used import is_used


@dataclass(frozen=True, slots=True)
class Style:
    """How much is shown: ``all`` the information rows too, ``expand`` each gate of a row.

    Without either, a part of more than ``LONG`` rows is counted.
    """

    all: bool = False
    expand: bool = False

    def counts(self, rows: Sized) -> bool:
        return len(rows) > LONG and not self.all and not self.expand


def render_text(report: Report, style: Style | None = None) -> str:
    """The whole report as text that ends with a newline."""
    style = style or Style()
    view = _View(report, style)
    lines = [*wrap(headline(report)), *_context(report), *_used(report), ""]
    full = [module for module in report.modules if view.matters(module)]
    for module in full:
        lines += _module(view, module)
    lines += _closed(view, [m for m in report.modules if m.closed and m not in full])
    lines += _together(report)
    lines += _shared(view)
    lines += _loose(view)
    lines += library_lines(report, everything=style.all)
    lines += [line for note in report.notes for line in wrap(note, "note: ")]
    lines += _missing(report)
    lines += few(report.warnings, everything=style.all or style.expand)
    return "\n".join([*lines, f"Next: {next_command(report)}"]) + "\n"


def next_command(report: Report) -> str:
    """The diff that opens the first feature; else why the first one stays closed."""
    group_of = {gate.id: gate.opened_by for gate in report.findings if gate.opened_by}
    named = [group_of[i] for module in report.modules for i in module.gates if i in group_of]
    if opened := [*named, *group_of.values()]:
        patchset, _, group = opened[0].partition("/")
        return f"sm-patch diff {patchset} --group {group}"
    package = report.packages[0].name
    closed = [module.name for module in report.modules if module.closed]
    if closed:
        return f"sm-patch why {shlex.quote(f'{package}:{closed[0]}')}"
    if report.applied:
        return "sm-patch status"
    return f"sm-patch doctor {package}"


def render_changes(report: Report, changes: Since, style: Style) -> str:
    """What is new since an older scan, and how much is gone."""
    count = sum(gate.count for gate in changes.new)
    targets = ", ".join(target.name for target in report.targets)
    lines = [f"{count} newly closed or over-open on {targets}; {len(changes.gone)} rows are gone"]
    for gate in changes.new:
        lines += _gate(report, gate, style)
    return "\n".join([*lines, f"Next: {next_command(report)}"]) + "\n"


class _View:
    """Which gates are shown where."""

    def __init__(self, report: Report, style: Style) -> None:
        self.report, self.style = report, style
        self.by_id = {gate.id: gate for gate in report.findings}

    def own(self, module: ModuleReport) -> list[Gate]:
        """A module's gates that are not shown once for many modules."""
        found = [self.by_id[i] for i in module.gates if i in self.by_id]
        return [gate for gate in found if not self.is_shared(gate) and self.is_shown(gate)]

    def matters(self, module: ModuleReport) -> bool:
        """True for a module that deserves a section of its own."""
        own = self.own(module)
        return any(g.opened_by or g.severity is Severity.CRITICAL for g in own) or (
            self.style.all and bool(own)
        )

    def is_shared(self, gate: Gate) -> bool:
        source = gate.layer in (Layer.PREPROCESSOR, Layer.HOST)
        return source and len(gate.modules) != 1

    def is_shown(self, gate: Gate) -> bool:
        return self.style.all or gate.severity is not Severity.INFO


def _context(report: Report) -> Iterator[str]:
    toolchain = report.toolchain
    cuda = f"CUDA {toolchain.version}" + (" (assumed)" if toolchain.assumed else "")
    for package in report.packages:
        yield f"{package.name} {package.version or 'of unknown version'} in {package.root}"
    compared = dict.fromkeys([*report.references, *relatives(report.targets)])
    references = " ".join(target.name for target in compared)
    counts = f"{report.unit_count} units, {report.file_count} files"
    yield from wrap(f"{counts}; {cuda}; compared with {references}")


def _used(report: Report) -> Iterator[str]:
    """Which modules of this user's cache the scan speaks of."""
    if report.used is None:
        return
    if not report.used:
        yield "in use: nothing, no module of this package is in this user's cache"
        return
    rows = [m for m in report.modules if is_used(m.name, report.used)]
    closed = ", ".join(m.name for m in rows if m.closed)
    gated = ", ".join(m.name for m in rows if not m.closed)
    one = len(report.used) == 1
    text = "1 module is" if one else f"{len(report.used)} modules are"
    text += " in this user's cache; "
    text += f"closed here: {closed}" if closed else f"{'it is not' if one else 'none is'} closed"
    text += f"; with other gates: {gated}" if gated else ""
    yield from wrap(text, "in use: ")


def _module(view: _View, module: ModuleReport) -> Iterator[str]:
    gates = view.own(module)
    worst = min((gate.severity for gate in gates), key=ORDER.index)
    opened = sorted({gate.opened_by for gate in gates if gate.opened_by})
    yield f"{module.name}  [{worst.value}]" + "".join(f"  {name}" for name in opened)
    for state in module.layers:
        yield from wrap(state.summary, f"  {state.layer.value:<13} ")
    for gate in sorted(gates, key=lambda g: ORDER.index(g.severity)):
        yield from _gate(view.report, gate, view.style)
    for row in module.opens_alone:
        if row.gate in {gate.id for gate in gates}:
            yield from _alone(view.report, row)
    if module.guessed:
        yield from wrap(module.guessed, "  not exact: ")
    yield ""


def _closed(view: _View, modules: Sequence[ModuleReport]) -> Iterator[str]:
    """Modules that stay closed, one line each with the reason."""
    if not modules:
        return
    yield "Closed, and no shipped group opens them"
    rows = [(module, shutting(view.by_id, module)) for module in modules]
    shown = rows
    if view.style.counts(rows):
        shown = [row for row in rows if is_used(row[0].name, view.report.used or ())]
    for module, gate in shown:
        yield from wrap(f"{module.name}: {reason(gate)}; {place(gate)} {gate.condition}", "  ")
    if len(shown) < len(rows):
        report, closed = view.report, {module.name for module in modules}
        built = {row.module for row in report.configurations} - closed
        yield from by_cause([(m.name, gate.cause) for m, gate in rows if (m, gate) not in shown],
                            built, sorted({t.capability.number for t in report.targets}))
        yield "  (--expand shows where and why)"
    yield ""


def _together(report: Report) -> Iterator[str]:
    """Decisions that are written in several places."""
    for row in together(report.gates):
        passes = ", ".join(map(str, row.passes))
        yield from wrap(f"One decision in {len(row.gates)} places ({row.name}): only {passes} pass")
        for gate in row.gates:
            yield from wrap(f"{place(gate)} {gate.condition}", "  ")
        yield ""


def _shared(view: _View) -> Iterator[str]:
    """C++ gates in code of several modules, or of none: one line per family."""
    found = [g for g in view.report.findings if view.is_shared(g) and view.is_shown(g)]
    own = [g for g in found if view.style.all or not is_library(g.location.path)]
    if own:
        yield "In code that several modules share, or none is known to use"
        grouped = families(own)
        counted: list[Gate] = []
        for family in grouped:
            grave = any(g.opened_by or g.severity is Severity.CRITICAL for g in family)
            if grave or not view.style.counts(grouped):
                yield from _family(view.report, family, view.style)
            else:
                counted += family
        yield from by_folder(counted)
        yield ""
    rest = len(found) - len(own)
    quiet = sum(g.count for g in view.report.findings if not view.is_shown(g))
    if rest or quiet:
        yield from wrap(
            f"not shown: {quiet} gates that hardware, intent or an alternative explains, and "
            f"{rest} rows in vendored libraries (--all)")
        yield ""


def _loose(view: _View) -> Iterator[str]:
    """Python gates of no module, by file."""
    found = [g for g in view.report.findings
             if not g.modules and g.layer in (Layer.PYTHON, Layer.BUILD) and view.is_shown(g)]
    if not found:
        return
    yield "Checks in Python outside the build of a module"
    by_file: dict[str, list[Gate]] = {}
    for gate in found:
        by_file.setdefault(gate.location.path, []).append(gate)
    if view.style.counts(by_file):
        yield from by_folder([gate for gate in found if not gate.opened_by])
        by_file = {path: kept for path, gates in by_file.items()
                   if (kept := [gate for gate in gates if gate.opened_by])}
    for path, gates in sorted(by_file.items()):
        if view.style.all or view.style.expand:
            for gate in gates:
                yield from _gate(view.report, gate, view.style)
        else:
            lines = ", ".join(str(g.location.line) for g in gates)
            opened = sorted({g.opened_by for g in gates if g.opened_by})
            yield from wrap(f"{path}: {lines}" + "".join(f"; opened by {o}" for o in opened), "  ")
    yield ""


def _gate(report: Report, gate: Gate, style: Style) -> Iterator[str]:
    verdict = "too open" if gate.over_open else "closed"
    count = f"{gate.count} x " if gate.count > 1 else ""
    head = f"{count}{gate.effect.value}, {verdict}, cause {gate.cause.value}"
    yield from wrap(head, f"    {gate.severity.value}: ")
    yield f"      {place(gate)}"
    if len(gate.lines) > 1:
        yield from wrap("lines " + ", ".join(map(str, gate.lines[:24])), "      ")
    if names(gate):
        yield from wrap(names(gate), "      in ")
    yield from wrap(gate.condition, "      ")
    shown = gate.evidence if style.expand else gate.evidence[:1]
    more = len(gate.evidence) - len(shown)
    for item in shown:
        rest = f" (and {more} more: --expand)" if more else ""
        yield from wrap(f"{item.where} {item.text}{rest}", "      | ")
    if gate.opened_by:
        yield from wrap(gate.opened_by, "      opened by ")
    if style.expand:
        for inner in report.details.get(gate.id, ()):
            yield f"      - line {inner.location.line} {inner.within}"


def _alone(report: Report, row: OpensAlone) -> Iterator[str]:
    if row.result is Opening.OK and row.why.startswith("nothing changes"):
        return
    gate = report.gate(row.gate)
    functions = ", ".join(row.functions) or "the module"
    yield from wrap(
        f"opening {gate.location.path}:{gate.location.line} alone: {functions}: "
        f"{row.result.value} ({row.why})", "    ! " if row.result is not Opening.OK else "    = ")


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
    yield from wrap(f"{total} x {first.effect.value} in {len(family)} files of {folder}, "
                     f"cause {first.cause.value}: {first.condition}",
                     f"    {first.severity.value}: ")


def _missing(report: Report) -> Iterator[str]:
    if report.missing:
        names = sorted({row.include for row in report.missing})
        shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
        yield from wrap(f"{len(names)} headers were not found ({shown}); what depends on them "
                         "is unknown", "note: ")
