"""What the doctor found, as text and as JSON: the answer first, the next command last."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator, Sequence

from patcher.doctor.model import Result, Status, Surroundings
from patcher.report.wrapping import wrap


def to_json(results: Sequence[Result], again: Callable[[str], str]) -> str:
    """The document of contract ``doctor``, without a final line feed; ``again`` completes the
    commands of the repairs."""
    rows = [result.public() for result in results]
    for row in rows:
        row["repair"]["commands"] = [again(line) for line in row["repair"]["commands"]]
    return json.dumps({"version": 1, "checks": rows}, indent=2, sort_keys=True)


def to_text(results: Sequence[Result], surroundings: Surroundings) -> str:
    """Findings with evidence and repair, then what is well in one paragraph."""
    bad = [r for r in results if r.status in (Status.ERROR, Status.WARNING)]
    lines = [*wrap(headline(bad, surroundings)), *wrap(_context(surroundings)), ""]
    for result in bad:
        lines += [*_finding(result), ""]
    wrong = {r.id for r in bad}
    well = {r.id: None for r in results if r.status is Status.OK and r.id not in wrong}
    lines += wrap(", ".join(well), "ok: ") if well else []
    skipped = [r.summary for r in results if r.status is Status.SKIPPED]
    lines += [line for text in skipped for line in wrap(text, "skipped: ")]
    lines += ["", *_next(bad, surroundings)]
    return "\n".join(lines)


def headline(bad: Sequence[Result], surroundings: Surroundings) -> str:
    """The answer in one sentence: how many problems for which target, and the worst of them."""
    where = ", ".join(target.name for target in surroundings.targets)
    where += " (assumed: no GPU here)" if surroundings.assumed else ""
    if not bad:
        return f"Nothing wrong was found for {where}"
    counts = {status: sum(r.status is status for r in bad) for status in Status}
    parts = [f"{counts[s]} {s.value}{'s' if counts[s] > 1 else ''}"
             for s in (Status.ERROR, Status.WARNING) if counts[s]]
    return f"{', '.join(parts)} for {where}: {bad[0].summary}"


def _context(surroundings: Surroundings) -> str:
    environment = surroundings.environment
    cuda = [f"CUDA {t.version} in {t.path}" for t in surroundings.toolkits if t.path]
    gpus = ", ".join(surroundings.gpus) or "no GPU here"
    place = environment.root or environment.prefix
    return "; ".join([f"{place} ({environment.reason})", *(cuda or ["no CUDA toolkit"]), gpus])


def _finding(result: Result) -> Iterator[str]:
    yield from wrap(result.summary, f"{result.status.value.upper()} {result.id}: ", "  ")
    for line in result.evidence:
        yield from wrap(line, "    ", "      ")
    for number, line in enumerate(map(_typed, result.repair.lines)):
        yield f"  or:     {line}" if number else f"  repair: {line}"
    for line in result.repair.advice:
        yield from wrap(line, "  advice: ", "    ")


def _next(bad: Sequence[Result], surroundings: Surroundings) -> Iterator[str]:
    for result in bad:
        if result.repair.lines:
            yield f"Next: {_typed(result.repair.lines[0])}"
            return
    yield f"Next: sm-patch scan {surroundings.packages[0] if surroundings.packages else 'PACKAGE'}"


def _typed(command: str) -> str:
    """A command to type; never one that a file's name could end, and begin another."""
    if any(unicodedata.category(c) == "Cc" for c in command):
        return "(no command can be shown: a name in it has control characters)"
    return command
