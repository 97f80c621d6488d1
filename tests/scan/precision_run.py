"""Precision: every exclusion that a scan reports, confirmed by a second method.

    python -m tests.scan.precision_run FOLDER... --system DIR -o docs/precision.md

nvcc's own preprocessor answers for arms of ``#if``: a reference compiles the line and the target
does not. Python runs the tests of Python gates itself, cut out of the source, with stubs for the
device; the expressions of C++ checks are read as Python. Lists and flags are read as literals.
What cannot be confirmed counts as wrong.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from patcher.arch import Target, relatives, target
from patcher.cuda.directives import parse
from patcher.gates import Gate, Layer
from patcher.package.find import find_package
from patcher.package.model import Environment
from patcher.package.model import Package as Scanned
from patcher.profiles import profile_for
from patcher.scan.model import Options, Report
from patcher.scan.run import scan
from patcher.toolchain.find import find_toolkit
from tests.cuda.oracle import read_marks
from tests.cuda.oracle_run import Comparison, package_corpus
from tests.python.second import Package, answers

REFERENCES = ("sm_90a", "sm_100a")
_CODE = re.compile(r"(?:sm|compute)_(\d{2,3})([af]?)")
_LISTED = re.compile(r'"([\d.;af]+)"')


def package_at(folder: Path) -> Scanned:
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
                yield gate if gate.units else _with_units(gate, row)


def _with_units(gate: Gate, row: Gate) -> Gate:
    from dataclasses import replace

    return replace(gate, units=row.units)


def preprocessor(package: Scanned, gates: Sequence[Gate], goal: Target, system: Sequence[str],
                 ) -> set[str]:
    """The ids of gates whose line nvcc compiles for a reference and not for the target."""
    corpus = package_corpus(package, sys.maxsize, system)
    by_path = {unit.path: unit for unit in reversed(corpus.units)}
    confirmed: set[str] = set()
    with TemporaryDirectory(prefix="precision-") as folder:
        comparison = Comparison(corpus, Path(folder))
        for turn in range(3):
            left = [g for g in gates if _key(g) not in confirmed and len(g.units) > turn]
            for path in sorted({g.units[turn] for g in left} & by_path.keys()):
                oracle = comparison.oracle(by_path[path])
                marks = {w: read_marks(oracle.preprocess(path, w))[0]
                         for w in (*REFERENCES, goal.name)}
                for gate in left:
                    where = gate.location.path
                    mark = _mark(corpus.tree.read(where), gate.location.line)
                    lost = mark not in marks[goal.name].get(where, ())
                    if lost and any(mark in marks[r].get(where, ()) for r in REFERENCES):
                        confirmed.add(_key(gate))
                print(path, len(confirmed), flush=True)
    return confirmed


def _key(gate: Gate) -> str:
    return f"{gate.location.path}:{gate.location.line}"


def _mark(data: bytes, line: int) -> int:
    return parse(data).arms[line][1].body_line - 1


def confirmed_python(package: Package, gate: Gate, goal: Target) -> bool:
    """The test runs: false on the target whatever else holds, true on a reference perhaps."""
    path, line = gate.location.path, gate.location.line
    negated = gate.rule == "PY-REFUSAL"
    expression = gate.condition
    if gate.rule in ("PY-MAJORS", "PY-NUMBERS", "PY-DECORATOR", "PY-ARCHS", "PY-GENCODE",
                     "PY-BACKENDS", "PY-TABLE"):
        return confirmed_list(package, gate, goal)
    source = _source(package, path, line, gate.location.end_line, expression)

    def passes(one: Target, trials: int = 60) -> set[bool]:
        found = answers(package, path, line, source, one, trials)
        return {not answer for answer in found} if negated else found

    return passes(goal) == {False} and any(True in passes(r, 600) for r in references(goal))


def references(goal: Target) -> tuple[Target, ...]:
    """What a scan compares with: the given ones, and the other device of the family."""
    return (*map(target, REFERENCES), *relatives([goal]))


def _source(package: Package, path: str, first: int, last: int, text: str) -> str:
    """The whole expression, which a report may have cut short."""
    for node in ast.walk(package.tree(path)):
        if isinstance(node, ast.expr) and node.lineno == first and node.end_lineno == last:
            plain = " ".join(ast.unparse(node).split())
            if plain == text or ("..." in text and plain.startswith(text.split(" ...")[0])):
                return plain
    return text


def confirmed_list(package: Package, gate: Gate, goal: Target) -> bool:
    """A list, table or flags: the literals between its lines name references, not the target."""
    text = (package.root / gate.location.path).read_text("utf-8").split("\n")
    said = " ".join([*text[gate.location.line - 1 : gate.location.end_line], gate.condition])
    if gate.rule == "PY-BACKENDS":
        said = " ".join(_decorators(package, gate.location.path, said))
    for name in re.findall(r"\b[A-Za-z_]\w*\b", said):
        _, known = package.defined(name, gate.location.path)
        inside = [n for n in ast.walk(package.tree(gate.location.path)) if isinstance(n, ast.Assign)
                  and any(ast.unparse(t).rpartition(".")[2] == name for t in n.targets)]
        for node in [known, *inside]:
            if isinstance(node, ast.Assign) and len(ast.unparse(node.value)) < 4000:
                said += " " + ast.unparse(node.value)
    numbers = {int(n) for n in re.findall(r"(?<![\w.])(\d{1,3})(?![\w.])", said)}
    numbers |= {int(n) for n in re.findall(r"['\"](\d{2,3})[af]?['\"]", said)}
    numbers |= {int(m[1]) for m in _CODE.finditer(said)}
    numbers |= {int(n.replace(".", "")) for n in re.findall(r"\b\d{1,2}\.\d\b", said)}
    numbers |= {int(m[1]) for m in re.finditer(r"sm_?(\d{2,3})", said)}
    own = {goal.capability.major, goal.number}
    others = {9, 10, 90, 100, 103, 110, 121}
    return not numbers & own and bool(numbers & others)


def _decorators(package: Package, path: str, said: str) -> Iterator[str]:
    """Those of the checkers that a list of backends names."""
    for node in ast.walk(package.tree(path)):
        if isinstance(node, ast.FunctionDef) and re.search(rf"\b{node.name}\b", said):
            yield from map(ast.unparse, node.decorator_list)


def confirmed_host(gate: Gate, goal: Target) -> bool:
    """The C++ expression, read as Python with the names that tell a capability."""
    text = re.sub(r"std::get<0>\(\w+\)", "major", gate.condition)
    text = re.sub(r"\b\w+\.(major|minor)\b", r"\1", text)
    text = re.sub(r"\bk?SM_?(\d{2,3})\b", r"\1", text)
    text = re.sub(r"!(?!=)", " not ", text.replace("&&", " and ").replace("||", " or "))

    def holds(one: Target) -> bool:
        names = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", text), one.number)
        names |= {n: one.capability.major for n in names if "major" in n.lower()}
        names |= {n: one.capability.minor for n in names if "minor" in n.lower()}
        return bool(eval(text.strip(), {"__builtins__": {}}, names))

    return not holds(goal) and any(holds(r) for r in references(goal))


def confirmed_build(gate: Gate, goal: Target) -> bool | None:
    """Arch lists of CMake as literals; None for a flag, whose effect nvcc shows in other tests."""
    if gate.rule != "BUILD-ARCHS":
        return None
    listed = [n for m in _LISTED.findall(gate.condition) for n in m.split(";") if n]
    if not listed:
        return None
    return not any(n.split(".")[0] == str(goal.capability.major) for n in listed)


def judge(folder: Path, goal: Target, system: Sequence[str],
          ) -> tuple[str, Counter[str], list[Gate]]:
    """Count confirmed gates by layer; the gates that nothing confirmed."""
    package = package_at(folder)
    toolkit = find_toolkit(None, package.environment)
    report = scan(package, profile_for(package), [goal], [target(r) for r in REFERENCES], toolkit,
                  Options())
    gates = list(exclusions(report))
    arms = [g for g in gates if g.layer is Layer.PREPROCESSOR]
    compiled = preprocessor(package, arms, goal, system) if arms else set()
    second = Package(package.root, package.import_name)
    second.index([p for p in _files(package) if _readable(second, p)])
    counts: Counter[str] = Counter()
    wrong = []
    for gate in gates:
        verdict = _verdict(gate, goal, compiled, second)
        kind = gate.layer.value if verdict is not None else "flags"
        counts[kind] += 1
        if verdict is False:
            wrong.append(gate)
    return f"{package.name} {package.version}", counts, wrong


def _verdict(gate: Gate, goal: Target, compiled: set[str], second: Package) -> bool | None:
    if gate.layer is Layer.PREPROCESSOR:
        return _key(gate) in compiled
    try:
        if gate.layer is Layer.HOST:
            return confirmed_host(gate, goal)
        if gate.rule.startswith("PY-"):
            return confirmed_python(second, gate, goal)
    except (SyntaxError, TypeError, ValueError, NameError, AttributeError) as error:
        print("cannot run", gate.location.path, gate.location.line, error, flush=True)
        return False
    return confirmed_build(gate, goal)


def _files(package: Scanned) -> Iterable[str]:
    root = package.root
    return sorted(str(p.relative_to(root)) for p in (root / package.import_name).rglob("*.py"))


def _readable(package: Package, path: str) -> bool:
    try:
        package.tree(path)
    except (SyntaxError, ValueError):
        return False
    return True


def main() -> int:
    """Print what was confirmed; 1 when 2 % or more were not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("packages", type=Path, nargs="+")
    parser.add_argument("--system", action="append", default=[])
    parser.add_argument("--target", default="sm_120a")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    lines = ["# Precision", "", "Written by `python -m tests.scan.precision_run`. Every gate that",
             f"a scan for {options.target} reports as excluding was asked about a second time:",
             "nvcc's preprocessor for `#if`, Python itself for the tests of Python gates, literals",
             "for lists. What nothing confirms counts as wrong.", "",
             "| package | exclusions | by layer | not confirmed | share |",
             "|---|---:|---|---:|---:|"]
    worst, details = 0.0, []
    for folder in options.packages:
        name, counts, wrong = judge(folder, target(options.target), options.system)
        asked = sum(counts.values()) - counts["flags"]
        share = 100 * len(wrong) / asked if asked else 0.0
        worst = max(worst, share)
        layers = ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items()))
        total = sum(counts.values())
        lines.append(f"| {name} | {total} | {layers} | {len(wrong)} | {share:.2f} % |")
        details += [f"- {name}: `{_key(g)}` {g.rule} `{g.condition[:90]}`" for g in wrong]
        print(lines[-1], *details, sep="\n", flush=True)
    if options.output:
        options.output.write_text("\n".join([*lines, "", *details]).rstrip() + "\n", "utf-8")
    return int(worst >= 2)


if __name__ == "__main__":
    sys.exit(main())
