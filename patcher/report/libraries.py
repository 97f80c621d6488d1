"""Prebuilt and JIT-built libraries in the text of a scan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patcher.report.wrapping import wrap
from patcher.scan.model import LibraryRow, Report

_SHOWN = 6


def library_lines(report: Report, *, everything: bool) -> Iterator[str]:
    """What each library holds for the targets; those that hold least come first."""
    targets = [target.name for target in report.targets]
    if not report.libraries or not targets:
        return
    rows = sorted(report.libraries, key=lambda row: (row.kind, _least(row, targets), row.path))
    shown = rows if everything else [row for row in rows if _least(row, targets) < 1][:_SHOWN]
    if shown:
        yield "Libraries with GPU code"
    for row in shown:
        counts = "; ".join(_usable(row, name) for name in targets)
        yield from wrap(f"{row.path} [{row.kind}]: {counts}; holds {' '.join(row.codes)}", "  ")
    rest = len(rows) - len(shown)
    if rest:
        more = "other libraries are" if shown else "libraries are all"
        yield from wrap(f"{rest} {more} usable on {', '.join(targets)}" if not everything and
                        all(_least(row, targets) == 1 for row in rows if row not in shown)
                        else f"and {rest} more (--all)", "  ")
    yield ""


def _least(row: LibraryRow, targets: Sequence[str]) -> float:
    return min(row.usable[name] for name in targets) / max(1, row.parts)


def _usable(row: LibraryRow, target: str) -> str:
    usable, ptx = row.usable[target], row.from_ptx[target]
    said = f"{usable} of {row.parts} parts run on {target}" if usable else f"nothing for {target}"
    return said + (f" ({ptx} from PTX)" if ptx else "")
