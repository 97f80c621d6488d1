"""Recall: what nvcc keeps for a reference and drops for the target lies in a reported gate.

    python -m tests.cuda.recall_run corpus/unpacked/flashinfer_python-0.6.3 ... \
        --count 60 -o docs/recall.md

The marker behind a directive stands for the lines up to the next one. nvcc's own preprocessor
says which markers of a unit the references and the target compile. Each one that the target
loses, in the package's own files, must lie in a gate of the scan that excludes the target; or
in a ladder where the target takes another arm with a condition of its own, which excludes it
from nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from patcher.arch import target
from patcher.cuda.directives import SourceFile, parse
from patcher.cuda.model import TranslationUnit
from patcher.package.model import Package
from patcher.profiles import profile_for
from patcher.scan.model import Options, Report
from patcher.scan.run import scan
from patcher.toolchain.find import find_toolkit
from patcher.tree import Tree
from tests.cuda.oracle import Marks, Oracle, read_marks
from tests.cuda.oracle_run import Comparison, package_corpus, package_of

REFERENCES = ("sm_90a", "sm_100a")


@dataclass
class Recall:
    """Markers that the target loses: in how many places, and where no gate is reported."""

    gates: dict[str, list[tuple[int, int]]]
    lost: set[tuple[str, int]] = field(default_factory=set)
    alternative: set[tuple[str, int]] = field(default_factory=set)
    unseen: set[tuple[str, int]] = field(default_factory=set)

    def add(self, tree: Tree, references: Iterable[Marks], mine: Marks) -> None:
        """Enter one unit's markers."""
        for marks in references:
            for path, lines in marks.items():
                if not path.startswith(("/", "@")):
                    for line in lines - mine.get(path, set()):
                        self._enter(tree, path, line, mine)

    def _enter(self, tree: Tree, path: str, line: int, mine: Marks) -> None:
        if (path, line) in self.lost:
            return
        self.lost.add((path, line))
        if any(first <= line + 1 <= last for first, last in self.gates.get(path, ())):
            return
        served = _served(parse(tree.read(path)), line + 1, mine.get(path, set()))
        (self.alternative if served else self.unseen).add((path, line))


def _served(source: SourceFile, line: int, mine: set[int]) -> bool:
    """True when an enclosing ladder has another conditioned arm that the target compiles."""
    arm = source.enclosing(line)
    while arm is not None:
        ladder, _ = source.arms[arm.line]
        if any(other.condition and other.body_line - 1 in mine for other in ladder.arms):
            return True
        arm = source.enclosing(ladder.line - 1) if ladder.line > 1 else None
    return False


def gates_of(report: Report) -> dict[str, list[tuple[int, int]]]:
    """The lines of every gate that excludes the target, by file."""
    found: dict[str, list[tuple[int, int]]] = {}
    for row in report.gates:
        for gate in report.details.get(row.id, (row,)):
            if row.excludes_target:
                place = gate.location
                found.setdefault(place.path, []).append((place.line, place.end_line))
    return found


def recall(package: Package, name: str, units: Iterable[TranslationUnit],
           comparison: Comparison, tree: Tree) -> Recall:
    """Compare these units with a scan of the whole package for one target."""
    toolkit = find_toolkit(None, package.environment)
    references = [target(reference) for reference in REFERENCES]
    report = scan(package, profile_for(package), [target(name)], references, toolkit, Options())
    found = Recall(gates_of(report))
    for unit in units:
        oracle: Oracle = comparison.oracle(unit)
        marks = {world: read_marks(oracle.preprocess(unit.path, world))[0]
                 for world in (*REFERENCES, name)}
        found.add(tree, [marks[reference] for reference in REFERENCES], marks[name])
        print(unit.path, len(found.lost), sorted(found.unseen), flush=True)
    return found


def main() -> int:
    """Print the recall; 1 when a line lies in no gate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("packages", type=Path, nargs="+")
    parser.add_argument("--system", action="append", default=[])
    parser.add_argument("--target", default="sm_120a")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--code", default="", help="commit and time, for the document")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    lines = ["# Recall", "", "Written by `python -m tests.cuda.recall_run`. nvcc says which places",
             f"of a unit {' or '.join(REFERENCES)} compiles and {options.target} does not, in the",
             "package's own files. Each must lie in a reported gate, unless another arm of the",
             "ladder, with a condition of its own, serves the target.", "",
             "| package | units | places lost | served by another arm | in no gate |",
             "|---|---:|---:|---:|---:|"]
    unseen = 0
    for place in options.packages:
        package = package_of(place)
        corpus = package_corpus(package, options.count, options.system)
        with TemporaryDirectory(prefix="recall-") as folder:
            found = recall(package, options.target, corpus.units,
                           Comparison(corpus, Path(folder)), corpus.tree)
        unseen += len(found.unseen)
        lines.append(f"| {corpus.name} | {len(corpus.units)} | {len(found.lost)} | "
                     f"{len(found.alternative)} | {len(found.unseen)} |")
        print(lines[-1])
    lines += ["", f"Compared: {options.code}."] if options.code else []
    if options.output:
        options.output.write_text("\n".join(lines) + "\n", "utf-8")
    return int(bool(unseen))


if __name__ == "__main__":
    sys.exit(main())
