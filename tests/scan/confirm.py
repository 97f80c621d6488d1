"""Gates of Python, of C++ checks and of builds, asked a second time.

Python runs the tests of Python gates in an interpreter of its own; g++ compiles the conditions
of C++ checks with the numbers of a device; CMake runs the function that intersects lists.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from patcher.arch import Target
from patcher.gates import Gate, Layer
from tests.python.apart import Apart

_CODE = re.compile(r"(?:sm|compute)_(\d{2,3})[af]?")
_INTERSECTION = re.compile(
    r"(?ms)^(?:macro|function)\(cuda_archs_loose_intersection .*?^end(?:macro|function)\(\)")
_LISTS = ("PY-MAJORS", "PY-NUMBERS", "PY-DECORATOR", "PY-ARCHS", "PY-GENCODE", "PY-BACKENDS")


class Confirm:
    """Asks about the gates of the package below ``root``."""

    def __init__(self, root: Path, other: Apart, references: Sequence[Target]) -> None:
        self._root, self._other, self._references = root, other, references

    def gate(self, gate: Gate, goal: Target) -> bool:
        """True when a reference passes (perhaps) and the target does not, whatever else holds."""
        if gate.layer is Layer.HOST:
            return self._host(gate, goal)
        if gate.rule == "BUILD-ARCHS":
            return self._cmake(gate, goal)
        if gate.rule in _LISTS:
            return self._list(gate, goal)
        what = "lookups" if gate.rule == "PY-TABLE" else "answers"
        passing = gate.rule != "PY-REFUSAL"
        text = self._whole(gate)
        path, line = gate.location.path, gate.location.line
        if self._other.ask(what, path, line, text, goal, 200) != [not passing]:
            return False
        return any(passing in self._other.ask(what, path, line, text, one, 600)
                   for one in self._references)

    def _whole(self, gate: Gate) -> str:
        """The expression, which a report may have cut short."""
        for node in ast.walk(self._tree(gate.location.path)):
            if isinstance(node, ast.expr) and node.lineno == gate.location.line:
                plain = " ".join(ast.unparse(node).split())
                begin, cut, _ = gate.condition.partition(" ...")
                if plain == gate.condition or (cut and plain.startswith(begin)):
                    return plain
        return gate.condition

    def _tree(self, path: str) -> ast.Module:
        return ast.parse((self._root / path).read_bytes())

    def _list(self, gate: Gate, goal: Target) -> bool:
        """The lists name a reference and not the target."""
        lists = list(self._lists(gate))
        numbers = [{int(m[1]) for v in found for m in _CODE.finditer(v)}
                   | {int(v.rstrip("af")) for v in found if re.fullmatch(r"\d{1,3}[af]?", v)}
                   for found in lists]
        named = [{goal.number, goal.capability.major} & found for found in numbers]
        others = {n for one in self._references for n in (one.number, one.capability.major)}
        return bool(lists) and not any(named) and any(found & others for found in numbers)

    def _lists(self, gate: Gate) -> Iterator[list[str]]:
        path, line = gate.location.path, gate.location.line
        text = self._whole(gate)
        asked = [text.partition("=")[2]] if gate.rule in ("PY-MAJORS", "PY-NUMBERS") else [text]
        if gate.rule == "PY-DECORATOR":
            asked = list(_arguments(text.removeprefix("@")))
        if gate.rule == "PY-BACKENDS":
            asked = [argument for node in ast.walk(self._tree(path))
                     if isinstance(node, ast.FunctionDef) and re.search(rf"\b{node.name}\b", text)
                     for decorator in node.decorator_list
                     for argument in _arguments(ast.unparse(decorator))]
        for expression in asked:
            found = self._other.ask("literals", path, line, expression, self._references[0])
            yield list(map(str, found))

    def _host(self, gate: Gate, goal: Target) -> bool:
        answers = compiled(gate.condition, [goal, *self._references])
        return not answers[0] and any(answers[1:])

    def _cmake(self, gate: Gate, goal: Target) -> bool:
        """What CMake finds in common, for the list as the file gives it."""
        found = re.search(r'\(\w+\s+"([^"]*)"', gate.condition)
        if not found:
            return False
        text = (self._root / gate.location.path).read_text("utf-8")
        given = found[1]
        for name in re.findall(r"\$\{(\w+)\}", given):
            said = re.findall(rf"(?:set|APPEND)\s*\(?\s*{name}\s+([^)]*)\)", text)
            given = given.replace(f"${{{name}}}", ";".join(" ".join(said).split()))
        common = {one: any(self._common(given, f"{one.capability}{s}") for s in ("", "a"))
                  for one in (goal, *self._references)}
        return not common[goal] and any(common[one] for one in self._references)

    def _common(self, listed: str, wanted: str) -> str:
        sources = sorted(self._root.glob("cmake/*.cmake"))
        texts = [t for f in sources for t in _INTERSECTION.findall(f.read_text("utf-8"))]
        assert len(texts) == 1
        assert not re.search(r"(?i)execute_process|file\(|include\(", texts[0])
        listed = listed.replace('"', "")
        with TemporaryDirectory() as folder:
            script = Path(folder) / "ask.cmake"
            script.write_text(f'cmake_minimum_required(VERSION 3.26)\n{texts[0]}\n'
                              f'cuda_archs_loose_intersection(OUT "{listed}" "{wanted}")\n'
                              'message("found:${OUT}")\n')
            run = subprocess.run(["cmake", "-P", str(script)], capture_output=True, text=True,
                                 check=True)
        return run.stderr.partition("found:")[2].strip()


def _arguments(call: str) -> list[str]:
    """The arguments of a decorator that is a call."""
    node = ast.parse(call, mode="eval").body
    if not isinstance(node, ast.Call):
        return []
    return [ast.unparse(a) for a in [*node.args, *(k.value for k in node.keywords)]]


def compiled(condition: str, targets: Sequence[Target]) -> list[bool]:
    """What g++ makes of a condition, with each name given what it says that it is."""
    members = set(re.findall(r"\b(\w+)\.(?:major|minor)\b", condition))
    tuples = set(re.findall(r"std::get<\d>\((\w+)\)", condition))
    plain = set(re.findall(r"(?<![\w.:])[A-Za-z_]\w*(?![\w(.:<])", condition)) - members - tuples
    checks = []
    for one in targets:
        major, minor = one.capability.major, one.capability.minor
        lines = [f"struct {{int major, minor;}} {n}{{{major}, {minor}}};" for n in sorted(members)]
        lines += [f"std::tuple<int, int> {n}{{{major}, {minor}}};" for n in sorted(tuples)]
        for name in sorted(plain - {"std"}):
            constant = re.fullmatch(r"k?(?:SM|Sm)_?(\d{2,3})", name)
            value = constant[1] if constant else major if "major" in name.lower() else \
                minor if "minor" in name.lower() else one.number
            lines.append(f"const int {name} = {value};")
        checks.append("{" + " ".join(lines) + f" std::putchar(({condition}) ? '1' : '0'); }}")
    with TemporaryDirectory() as folder:
        source, program = Path(folder) / "check.cpp", Path(folder) / "check"
        source.write_text("#include <cstdio>\n#include <tuple>\nint main() {\n"
                          + "\n".join(checks) + "\n}\n")
        subprocess.run(["g++", "-std=c++17", "-w", "-o", program, source], check=True)
        run = subprocess.run([program], capture_output=True, text=True, check=True)
    return [letter == "1" for letter in run.stdout]
