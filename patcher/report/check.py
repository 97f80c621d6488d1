"""Outcomes of patchsets over releases, as a table and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patcher.errors import Exit
from patcher.operations.base import Outcome
from patcher.patchset.schema import Group, Patchset
from patcher.releases import Release

_BAD = (Outcome.CONFLICT, Outcome.UNREACHED)  # the patchset does not fit, and should


@dataclass(frozen=True, slots=True)
class Cell:
    """What one group would do."""

    group: Group
    default: bool
    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class Row:
    """One patchset on one set of releases."""

    patchset: Patchset
    releases: tuple[Release, ...]
    cells: tuple[Cell, ...]
    archives: tuple[str, ...] = ()  # those that were opened

    @property
    def title(self) -> str:
        own = [r for r in self.releases if r.name == self.patchset.package]
        if len(self.releases) == 1 and own:
            return own[0].version
        return " + ".join(map(str, self.releases))


def verdict(rows: Sequence[Row]) -> Exit:
    """CHECK_FAILED when some group conflicts."""
    bad = any(cell.outcome in _BAD for row in rows for cell in row.cells)
    return Exit.CHECK_FAILED if bad else Exit.DONE


def to_json(rows: Sequence[Row]) -> str:
    """The table with every reason."""
    return json.dumps({"version": 1, "summary": _counts(rows), "rows": [
        {"patchset": row.patchset.name, "digest": row.patchset.digest,
         "releases": [{"name": r.name, "version": r.version} for r in row.releases],
         "groups": [{"id": cell.group.id, "default": cell.default,
                     "outcome": cell.outcome.value, "reason": cell.reason}
                    for cell in row.cells]} for row in rows]}, indent=2, sort_keys=True)


def _counts(rows: Sequence[Row]) -> dict[str, int]:
    return dict(Counter(cell.outcome.value for row in rows for cell in row.cells))


def to_text(rows: Sequence[Row]) -> Iterator[str]:
    """The counts, one table per patchset, the reasons of what cannot go through, what next."""
    yield _headline(rows)
    names = list(dict.fromkeys(row.patchset.name for row in rows))
    for name in names:
        yield ""
        yield from _table([row for row in rows if row.patchset.name == name])
    reasons = list(_reasons(rows))
    if reasons:
        yield ""
        yield from reasons
    yield _next(rows, names)


def _headline(rows: Sequence[Row]) -> str:
    if not rows:
        return "nothing to check: no release of a package that these patchsets are for"
    counts = _counts(rows)
    counted = [f"{counts[o.value]} {o.value}" for o in Outcome if o.value in counts]
    noun = "release" if len(rows) == 1 else "releases"
    none = "" if any(o.value in counts for o in _BAD) else "; no conflict"
    return f"{len(rows)} {noun}: {', '.join(counted)}{none}"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    patchset = rows[0].patchset
    head = [patchset.package, *(cell.group.id for cell in rows[0].cells)]
    lines = [head, *([row.title, *(cell.outcome.value for cell in row.cells)] for row in rows)]
    widths = [max(len(line[n]) for line in lines) for n in range(len(head))]
    yield f"{patchset.name}"
    for line in lines:
        yield "  " + "  ".join(text.ljust(width) for text, width
                               in zip(line, widths, strict=True)).rstrip()


def _reasons(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        for cell in row.cells:
            if cell.outcome.refused:
                yield f"{row.title} {row.patchset.name}/{cell.group.id}: {cell.reason}"


def _next(rows: Sequence[Row], names: Sequence[str]) -> str:
    if not rows:
        return "next: sm-patch patchsets"
    if verdict(rows) is Exit.DONE:
        return f"next: sm-patch diff {' '.join(names)}"
    row = next(r for r in rows if verdict([r]) is not Exit.DONE)
    return f"next: sm-patch scan {' '.join(row.archives)}"
