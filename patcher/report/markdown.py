"""GitHub-flavoured Markdown: a summary for a pull request or a job page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patcher.gates import Gate, Severity
from patcher.plan import Plan
from patcher.report.headline import headline, openable_modules, place
from patcher.report.plan import PackageRow
from patcher.report.text_scan import next_command
from patcher.scan.combine import Since
from patcher.scan.model import SHUTTING_RULES, ModuleReport, Report

ROWS = 60  # of a table
LENGTH = 60_000  # characters; a comment on GitHub takes 65,536
_ENTITIES = {ord(sign): f"&#{ord(sign)};" for sign in "&<\\`*_[]|~#@"}
_SIGNS = {Severity.CRITICAL: "🔴", Severity.WARNING: "🟡", Severity.INFO: "⚪"}


def scan_markdown(report: Report, changes: Since | None = None) -> str:
    """The answer, the modules that are closed, the gravest gates, the next command."""
    names = ", ".join(f"{p.name} {p.version or ''}".strip() for p in report.packages)
    lines = [f"## sm-patch: {plain(names)}", "", f"**{plain(headline(report))}**", ""]
    if changes is not None:
        count = f"{len(changes.new)} rows are new since the baseline"
        lines += [f"{count}, {len(changes.gone)} are gone.", ""]
    gates = list(changes.new if changes is not None else report.findings)
    lines += [*_modules(report), *_gates(gates), f"Next: {code(next_command(report))}"]
    return _fitting(lines)


def _modules(report: Report) -> Iterator[str]:
    by_id = {gate.id: gate for gate in report.findings}
    wanted = set(openable_modules(report))
    closed = [m for m in report.modules if m.closed or m.name in wanted]
    if not closed:
        return
    yield "| Module | First closed by | Cause | Opened by |"
    yield "|---|---|---|---|"
    for module in closed[:ROWS]:
        gates = [by_id[name] for name in module.gates if name in by_id]
        yield _row(module, min(gates, key=lambda g: (g.rule not in SHUTTING_RULES,
                                                     not g.opened_by, g.location.path)), gates)
    if len(closed) > ROWS:
        yield f"| and {len(closed) - ROWS} more | | | |"
    yield ""


def _row(module: ModuleReport, gate: Gate, gates: Sequence[Gate]) -> str:
    openers = sorted({one.opened_by for one in gates if one.opened_by})
    by = ", ".join(map(code, openers)) or "-"
    return (f"| {code(module.name)} | {gate.layer.value}: {code(place(gate))} "
            f"{code(gate.condition)} | {gate.cause.value} | {by} |")


def _gates(gates: Sequence[Gate]) -> Iterator[str]:
    grave = [gate for gate in gates if gate.severity is not Severity.INFO]
    yield "<details><summary>" + f"{len(grave)} rows of critical and warning gates" + "</summary>"
    yield ""
    yield "| | Place | Condition | Behind it | Cause |"
    yield "|---|---|---|---|---|"
    for gate in grave[:ROWS]:
        count = f"{gate.count} × " if gate.count > 1 else ""
        yield (f"| {_SIGNS[gate.severity]} | {code(place(gate))} | {code(gate.condition)} | "
               f"{count}{gate.effect.value}{', too open' if gate.over_open else ''} | "
               f"{gate.cause.value} |")
    if len(grave) > ROWS:
        yield f"| | and {len(grave) - ROWS} more | | | |"
    yield ""
    yield "</details>"
    yield ""


def change_markdown(plan: Plan, rows: Sequence[PackageRow], diff: str) -> str:
    """What diff prints: outcomes as a table, the diff folded."""
    names = ", ".join(item.patchset.name for item in plan.patchsets)
    where = ", ".join(f"{row.name} {row.version or ''}".strip() for row in rows)
    lines = [f"## sm-patch: {plain(names)} on {plain(where)}", "",
             "| Group | Outcome | Reason |", "|---|---|---|"]
    for item in plan.patchsets:
        for group in item.groups:
            if group.selected:
                lines.append(f"| {code(f'{item.patchset.name}/{group.id}')} | "
                             f"{group.outcome.value} | {plain(group.reason)} |")
    table, fence = list(lines), _fence(diff)
    if diff:
        lines += ["", "<details><summary>The change</summary>", "", f"{fence}diff",
                  diff.rstrip("\n"), fence, "", "</details>"]
    text = "\n".join(lines) + "\n"
    if len(text) <= LENGTH:
        return text
    return _fitting([*table, "", "The change is too long to be shown here."])


def code(text: str) -> str:
    """A code span in a table's cell: nothing in it is markup, and it ends where it should."""
    flat = " ".join(text.split()).replace("|", "\\|")
    shown = flat if len(flat) <= 200 else flat[:199] + "…"
    ticks = "`" * (_longest(shown) + 1)
    pad = " " if shown[:1] == "`" or shown[-1:] == "`" else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}" if shown else ""


def plain(text: str) -> str:
    """Words of a package or patchset as words: no markup, no link, nobody is mentioned."""
    return " ".join(text.split()).translate(_ENTITIES)


def _fence(text: str) -> str:
    return "`" * max(3, _longest(text) + 1)


def _longest(text: str) -> int:
    """Length of the longest run of backticks."""
    best = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        best = max(best, run)
    return best


def _fitting(lines: Sequence[str]) -> str:
    text = "\n".join(lines) + "\n"
    if len(text) <= LENGTH:
        return text
    kept, size = [], 0
    for line in lines:
        size += len(line) + 1
        if size > LENGTH - 200:
            break
        kept.append(line)
    return "\n".join([*kept, "", "The rest is too long to be shown here."]) + "\n"
