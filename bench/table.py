"""Measurements as a document: one table of what is promised, then one per section."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.cost import Cost


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    what: str
    cost: Cost
    note: str = ""


@dataclass(frozen=True)
class Section:
    """Rows that were measured one after the other, and the machine's load before."""

    title: str
    load: float
    rows: tuple[Row, ...]

    def row(self, what: str) -> Row | None:
        """The row whose text begins so."""
        return next((row for row in self.rows if row.what.startswith(what)), None)


@dataclass(frozen=True)
class Limit:
    """What is promised of a row of a section (both by how they begin): at most so many seconds
    of CPU, MB, or times the seconds of another row."""

    what: str
    section: str
    row: str
    most: float
    unit: str = "s of CPU"
    against: str = ""

    def measured(self, section: Section) -> float | None:
        """The figure, None when a row was not measured."""
        row = section.row(self.row)
        other = section.row(self.against) if self.against else None
        if row is None or (self.against and other is None):
            return None
        if other is not None:
            return row.cost.cpu / other.cost.cpu
        return row.cost.memory if self.unit == "MB" else row.cost.cpu


_WALK, _SMALL, _LARGE = "Walk of 152", "Scan of flashinfer-python 0.6.3", (
    "Scan of flashinfer-python 0.7.4")
_COLD, _AGAIN = "`scan`, empty", "`scan` again"
_TIMES = "times its CPU"
LIMITS = (
    Limit("152 units of 0.6.3, every known target and the host, against `clang-scan-deps` for one",
          _WALK, "our walk", 1.0, _TIMES, "`clang-scan-deps"),
    Limit("memory of that", _WALK, "our walk", 400, "MB"),
    Limit("0.6.3 again, with start-up", _SMALL, _AGAIN, 0.4),
    Limit("0.6.3 after an edit of one header", _SMALL, "`scan` after", 1.0),
    Limit("0.7.4, empty cache", _LARGE, _COLD, 60),
    Limit("memory of that", _LARGE, _COLD, 1300, "MB"),
    Limit("0.7.4 again", _LARGE, _AGAIN, 3),
    *(Limit(f"Python layer of {name}, against `ast.parse` of every file",
            f"Python layer of {name}", "Python gates", 0.5, _TIMES, "`ast.parse`")
      for name in ("flashinfer-python 0.7.4", "sglang", "vllm")),
    Limit("three packages together, empty cache", "Scan together", _COLD, 90),
    Limit("memory of that", "Scan together", _COLD, 2000, "MB"),
    Limit("three packages again", "Scan together", _AGAIN, 5),
)


def document(sections: Sequence[Section], machine: str) -> str:
    """The whole page."""
    return "\n".join([
        "# Benchmarks", "",
        "Written by `make bench` (`LARGE=1` for the 0.7.4 tables, `STACK=FOLDER` for several",
        "packages of a site-packages together): the cheapest of a few runs, CPU seconds of",
        "the whole process tree, memory of its largest process. Load makes CPU seconds longer,",
        f"too; each table says how loaded the machine was. {machine}.", "",
        *_promised(sections),
        *(line for section in sections for line in _table(section))])


def _promised(sections: Sequence[Section]) -> Iterator[str]:
    yield from ("## What is promised", "", "| what | at most | measured | |", "|---|---:|---:|---|")
    for limit in LIMITS:
        section = next((s for s in sections if s.title.startswith(limit.section)), None)
        found = limit.measured(section) if section else None
        digits = 0 if limit.unit == "MB" else 2
        shown = "not measured" if found is None else f"{found:.{digits}f}"
        holds = "" if found is None else "holds" if found <= limit.most else "**missed**"
        yield f"| {limit.what} | {limit.most:g} {limit.unit} | {shown} | {holds} |"
    yield ""


def _table(section: Section) -> Iterator[str]:
    yield from (f"## {section.title}", "", f"At a load of {section.load:.1f}.", "",
                "| what | CPU s | wall s | peak MB | note |", "|---|---:|---:|---:|---|")
    for row in section.rows:
        cost = row.cost
        yield (f"| {row.what} | {cost.cpu:.2f} | {cost.wall:.2f} | {cost.memory:.0f} "
               f"| {row.note} |")
    yield ""


def save(place: Path, sections: Iterable[Section]) -> None:
    """Keep what was measured, for a document with sections of several runs."""
    place.parent.mkdir(exist_ok=True)
    place.write_text(json.dumps([asdict(section) for section in sections], indent=1), "utf-8")


def load(place: Path) -> dict[str, Section]:
    """What was measured last, by title."""
    if not place.is_file():
        return {}
    found = [Section(one["title"], one["load"], tuple(
        Row(row["what"], Cost(**row["cost"]), row["note"]) for row in one["rows"]))
        for one in json.loads(place.read_text("utf-8"))]
    return {section.title: section for section in found}
