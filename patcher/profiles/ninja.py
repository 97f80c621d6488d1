"""Compile commands out of a build.ninja: one on disk, or one that a build function would write.

Only what such generated files use is understood: top-level variables, rules,
build statements with their own variables, ``$`` escapes, ``subninja`` is not.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import lru_cache

MAX_BUILD_FILE = 16 << 20
_VARIABLE = re.compile(r"\$(?:\{([\w.-]+)\}|([\w-]+)|(.))", re.DOTALL)
_ASSIGNMENT = re.compile(r"\s*([\w.-]+)\s*=\s?(.*)", re.DOTALL)
_MAX_DEPTH = 12
_IN, _OUT = "\0in", "\0out"


@dataclass(frozen=True, slots=True)
class CompileCommand:
    """One source and the arguments its compiler gets (the compiler itself first)."""

    source: str
    output: str
    arguments: tuple[str, ...]


def compile_commands(text: str) -> list[CompileCommand]:
    """The commands of all statements that compile one source; links are left out."""
    variables: dict[str, str] = {}
    rules: dict[str, str] = {}
    found: list[tuple[str, str, str, dict[str, str]]] = []
    scope: dict[str, str] = variables
    rule = ""
    for line in _lines(text):
        assignment = _ASSIGNMENT.fullmatch(line)
        if line[:1].isspace() and assignment:
            if rule and assignment[1] == "command":
                rules[rule] = assignment[2]
            else:
                scope[assignment[1]] = assignment[2]
        elif line.startswith("rule "):
            rule, scope = line[5:].strip(), {}
        elif line.startswith("build "):
            rule, scope = "", {}
            outputs, _, rest = line[6:].partition(": ")
            name, *inputs = rest.split()
            if len(inputs) == 1:
                found.append((outputs.strip(), name, inputs[0], scope))
        elif assignment:
            rule, scope = "", variables
            variables[assignment[1]] = assignment[2]
    commands = [
        CompileCommand(_expand(source, variables), _expand(output, variables),
                       _arguments(rules[name], {**variables, **own}, source, output))
        for output, name, source, own in found if name in rules
    ]
    return [command for command in commands if "-c" in command.arguments]


def _lines(text: str) -> list[str]:
    """Logical lines: ``$`` at a line's end continues it and swallows the next indent."""
    joined = re.sub(r"\$\r?\n[ \t]*", "", text[:MAX_BUILD_FILE])
    return [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]


def _expand(text: str, variables: dict[str, str], depth: int = 0) -> str:
    if depth > _MAX_DEPTH or "$" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return _expand(variables.get(name, ""), variables, depth + 1) if name else match[3]

    return _VARIABLE.sub(replace, text)


def _arguments(command: str, variables: dict[str, str], source: str,
               output: str) -> tuple[str, ...]:
    """The command's words. Splitting is slow, and commands differ only in their files."""
    words = _split(_expand(command, {**variables, "in": _IN, "out": _OUT}))
    files = {"in": _expand(source, variables), "out": _expand(output, variables)}
    return tuple(word.replace(_IN, files["in"]).replace(_OUT, files["out"]) for word in words)


@lru_cache(maxsize=512)
def _split(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError:  # an unbalanced quote
        return tuple(command.split())
