"""Precision: every exclusion that a scan reports, confirmed by a second method.

    python -m tests.scan.precision_run FOLDER... --system DIR -o docs/precision.md

nvcc's own preprocessor answers for arms of ``#if`` and for missing flags (``compiled.py``);
Python, g++ and CMake for the other layers (``confirm.py``). What they do not confirm counts as
wrong. Results are kept line by line: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

from patcher.arch import Target, relatives, target
from patcher.gates import Gate, Layer
from patcher.package.find import find_package
from patcher.package.model import Environment, Package
from patcher.profiles import profile_for
from patcher.scan.model import Options, Report
from patcher.scan.run import scan
from patcher.toolchain.find import find_toolkit
from tests.cuda.oracle_run import package_corpus
from tests.python.apart import Apart
from tests.scan.compiled import Compiled, place
from tests.scan.confirm import Confirm

REFERENCES = ("sm_90a", "sm_100a")
FLAG = "pdl-barrier-flag"
HEAD = """# Precision

Written by `python -m tests.scan.precision_run`. Every gate that a scan for
{target} reports as excluding it was asked about a second time, by something that
shares no code with the scanner's answer:

- **arms of `#if`**: nvcc's own preprocessor runs on a unit that reaches the arm, for
  the references and for the target, with a marker behind every directive. A reference
  must compile what follows the arm; the target must reach the ladder, must not compile
  it, and no other arm with a condition of its own may serve it.
- **missing flags**: with the flag, nvcc compiles more of the header for the target.
- **Python**: the expression runs in a fresh, bounded interpreter that was made from
  text; the device is a stub, definitions are cut out of the source one by one, and what
  nothing explains answers by chance, hundreds of times. On the target it must always
  refuse, on a reference it must be able to pass. Tables note whether they have the key
  that they are asked for; lists are evaluated and looked into.
- **C++ checks**: g++ compiles the condition with the numbers of each device.
- **CMake**: cmake itself intersects the lists, with the package's function cut out.

What is not confirmed counts as wrong. References: {references}, and the other devices
of the target's family.

| package | exclusions | places | by layer | not confirmed | share of places |
|---|---:|---:|---|---:|---:|
"""


def package_at(folder: Path) -> Package:
    """An unpacked wheel or a source tree, with an unpacked tvm_ffi beside it."""
    folder = folder.resolve()
    beside = sorted(folder.parent.glob("apache_tvm_ffi-*"))
    environment = Environment(None, (folder, *beside), None, "precision", root=folder)
    return find_package(str(folder), environment)


def exclusions(report: Report) -> Iterator[Gate]:
    """Every gate that excludes the target, those behind a row one by one."""
    for row in report.gates:
        for gate in report.details.get(row.id, (row,)):
            if gate.excludes_target:
                yield gate if gate.units else replace(gate, units=row.units)


def question(gate: Gate) -> str:
    """Gates of one kind at one place are one question."""
    return f"{gate.layer.value} {gate.rule} {place(gate)}"


class Run:
    """One package; ``kept`` has the questions that are answered, and takes new answers."""

    def __init__(self, package: Package, goal: Target, system: Sequence[str],
                 kept: dict[str, bool], log: TextIO) -> None:
        self._package, self._goal, self._system = package, goal, system
        self._kept, self._log = kept, log
        self.name = f"{package.name} {package.version}"
        self._references = (*map(target, REFERENCES), *relatives([goal]))
        toolkit = find_toolkit(None, package.environment)
        report = scan(package, profile_for(package), [goal], list(map(target, REFERENCES)),
                      toolkit, Options())
        self.gates = list(exclusions(report))

    def answered(self, gate: Gate) -> bool | None:
        return self._kept.get(f"{self.name} {question(gate)}")

    def ask(self) -> None:
        """Answer what is not answered yet."""
        left = [gate for gate in self.gates if self.answered(gate) is None]
        arms = [gate for gate in left if gate.layer is Layer.PREPROCESSOR]
        flags = [gate for gate in left if gate.rule == FLAG]
        others = [gate for gate in left if gate not in arms and gate not in flags]
        if arms or flags:
            self._compile(arms, flags)
        if others:
            self._confirm(others)

    def _compile(self, arms: Sequence[Gate], flags: Sequence[Gate]) -> None:
        corpus = package_corpus(self._package, sys.maxsize, self._system)
        with TemporaryDirectory(prefix="precision-") as folder:
            compiled = Compiled(corpus, Path(folder), [one.name for one in self._references])
            for gate in flags:
                self._note(gate, compiled.filled(gate, self._goal))
            for unit, found in compiled.confirmed(arms, self._goal):
                print(self.name, unit, len(found), flush=True)
                for gate in arms:
                    if place(gate) in found:
                        self._note(gate, True)
        for gate in arms:
            self._note(gate, False)

    def _confirm(self, gates: Sequence[Gate]) -> None:
        root, folder = self._package.root, self._package.import_name
        paths = sorted(str(path.relative_to(root)) for path in (root / folder).rglob("*.py"))
        with Apart(root, folder, paths) as other:
            confirm = Confirm(root, other, self._references)
            for gate in gates:
                self._note(gate, confirm.gate(gate, self._goal))

    def _note(self, gate: Gate, confirmed: bool) -> None:
        if self.answered(gate) is None:
            self._kept[f"{self.name} {question(gate)}"] = confirmed
            self._log.write(json.dumps([self.name, question(gate), confirmed]) + "\n")
            self._log.flush()

    def row(self) -> tuple[str, float, list[Gate]]:
        """A line of the table, the share that was not confirmed, and which those are."""
        places = {question(gate): gate for gate in self.gates}
        wrong = [gate for gate in places.values() if not self.answered(gate)]
        share = 100 * len(wrong) / len(places) if places else 0.0
        counts = Counter(gate.layer.value for gate in places.values())
        layers = ", ".join(f"{n} {layer}" for layer, n in sorted(counts.items()))
        return (f"| {self.name} | {len(self.gates)} | {len(places)} | {layers} | {len(wrong)} | "
                f"{share:.2f} % |"), share, wrong


MISSES = """
## Known misses

- A plain `.cu` that no build of the package names is compiled with guessed flags: an
  arm that only its real flags open may be reported or missed. Such units say so.
- What a Python test asks of a name that only a running process knows (settings, what is
  installed) is unknown to both sides; a gate is reported when the architecture alone
  already refuses.
- A lookup in a table counts as an exclusion when the target's key is missing, also
  where the code then takes a default that works.
- The numbers that a C++ name stands for are read from the name (`major`, `minor`,
  anything else is the number of the architecture), on both sides.
"""


def main() -> int:
    """Print what was confirmed; 1 when 2 % or more were not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("packages", type=Path, nargs="+")
    parser.add_argument("--system", action="append", default=[])
    parser.add_argument("--target", default="sm_120a")
    parser.add_argument("--kept", type=Path, default=Path("precision.jsonl"))
    parser.add_argument("--code", default="", help="commit and time, for the document")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    goal = target(options.target)
    lines = options.kept.read_text("utf-8").splitlines() if options.kept.exists() else []
    kept = {f"{name} {asked}": answer for name, asked, answer in map(json.loads, lines)}
    rows, details, worst = [], [], 0.0
    with options.kept.open("a", encoding="utf-8") as log:
        for folder in options.packages:
            run = Run(package_at(folder), goal, options.system, kept, log)
            run.ask()
            row, share, wrong = run.row()
            rows.append(row)
            worst = max(worst, share)
            details += [f"- {run.name}: {question(g)} `{g.condition[:90]}`" for g in wrong]
            print(row, *details, sep="\n", flush=True)
    if options.output:
        head = HEAD.format(target=goal.name, references=", ".join(REFERENCES))
        asked = ["", f"Asked: {options.code}."] if options.code else []
        text = head + "\n".join([*rows, *asked, "", *details]).rstrip() + "\n"
        options.output.write_text(text + MISSES, "utf-8")
    return int(worst >= 2)


if __name__ == "__main__":
    sys.exit(main())
