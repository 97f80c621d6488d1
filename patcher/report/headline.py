"""What every text about a scan says alike: the answer in a sentence, a gate's place and reason."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from patcher.gates import Cause, Gate, Severity
from patcher.scan.model import SHUTTING_RULES, ModuleReport, Report

ORDER = [Severity.CRITICAL, Severity.WARNING, Severity.INFO]


def headline(report: Report) -> str:
    """The answer in one sentence, with what had to be assumed."""
    built = report.modules or report.applied or any(row.module for row in report.configurations)
    text = _modules_headline(report) if built else _gates_headline(report)
    return text + (f" (assumed: {'; '.join(report.assumed)})" if report.assumed else "")


def _gates_headline(report: Report) -> str:
    """For a package that builds no modules: how many gates exclude the target."""
    targets = ", ".join(target.name for target in report.targets)
    counts = {s: sum(g.count for g in report.findings if g.severity is s) for s in ORDER}
    graver, warned = counts[Severity.CRITICAL], counts[Severity.WARNING]
    said = [f"{graver} critical"] if graver else []
    said += [f"{warned} warning" + "s" * (warned > 1)] if warned else []
    if not said:
        explained = counts[Severity.INFO]
        return f"nothing to patch on {targets}" + (
            f": hardware, intent or an alternative explains all {explained} gates"
            if explained else ": no gate excludes it")
    groups = sorted({g.opened_by for g in report.findings if g.opened_by})
    opened = f"opened by {', '.join(groups)}" if groups else "no shipped group opens one"
    return f"gates that exclude {targets}: {', '.join(said)}; {opened}"


def _modules_headline(report: Report) -> str:
    closed = [module for module in report.modules if module.closed]
    targets = ", ".join(target.name for target in report.targets)
    openable = openable_modules(report)
    shut = {module.name for module in closed}
    opened = [name for name in openable if name in shut]
    repaired = [name for name in openable if name not in shut]
    noun = "module" if len(closed) == 1 else "modules"
    text = "".join(f"{said}; " for said in _applied(report, shut))
    text += f"{len(closed)} {noun} closed on {targets}"
    if opened:
        text += f"; {len(opened)} can be opened: {', '.join(opened)}"
    if repaired:
        text += f"; {len(repaired)} built for it can be repaired: {', '.join(repaired)}"
    groups = dict.fromkeys(g.opened_by for g in report.findings if g.opened_by)
    if groups and not openable:
        text += f"; gates that close no module can be opened by {', '.join(map(str, groups))}"
    elif not openable and (others := _critical_besides(report, closed)):
        text += f"; {others} critical gates in what is built for it"
    elif not openable:
        text += "; nothing to patch here"
        reasons = _reasons(report)
        text += f": what stays closed is {reasons}" if reasons else ""
    return text


def _applied(report: Report, shut: Collection[str]) -> list[str]:
    """The modules that are open with a group in place, by group."""
    by_groups: dict[tuple[str, ...], list[str]] = {}
    for module, groups in report.applied.items():
        if module and module not in shut:
            by_groups.setdefault(groups, []).append(module)
    return [f"{', '.join(modules)}: open ({', '.join(groups)} applied)"
            for groups, modules in by_groups.items()]


def _critical_besides(report: Report, closed: Sequence[ModuleReport]) -> int:
    """How many gates of compiled units exclude the target gravely where no module is closed."""
    inside = {gate for module in closed for gate in module.gates}
    return sum(gate.count for gate in report.findings
               if gate.severity is Severity.CRITICAL and gate.units and gate.id not in inside)


def openable_modules(report: Report) -> list[str]:
    """Modules with a finding that a shipped group opens; of closed ones, the one that shuts it."""
    by_id = {gate.id: gate for gate in report.findings}
    return [
        module.name
        for module in report.modules
        if any(by_id[i].opened_by for i in module.gates if i in by_id)
        and (not module.closed or shutting(by_id, module).opened_by)
    ]


def _reasons(report: Report) -> str:
    """The causes of closed modules, as their list further below has them."""
    by_id = {gate.id: gate for gate in report.findings}
    counts: dict[Cause, int] = {}
    for module in report.modules:
        if module.closed:
            cause = shutting(by_id, module).cause
            counts[cause] = counts.get(cause, 0) + 1
    return ", ".join(f"{counts[cause]} {cause.value}" for cause in Cause if cause in counts)


def shutting(by_id: Mapping[str, Gate], module: ModuleReport) -> Gate:
    """The gate that says why a module is closed."""
    gates = [by_id[i] for i in module.gates if i in by_id]
    return min(gates, key=lambda g: (g.rule not in SHUTTING_RULES, g.location.path))


def reason(gate: Gate) -> str:
    """Why a gate stays closed, with the first piece of evidence."""
    if not gate.evidence:
        return f"cause {gate.cause.value}"
    first = gate.evidence[0]
    text = first.text if len(first.text) < 160 else first.text[:157] + "..."
    return f"{gate.cause.value} ({first.where} {text})"


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
