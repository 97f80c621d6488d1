"""From an error text, a whole log or a rule's code to the root cause and what to do.

What is known is data (``explanations.json``, ``rules.json``). In a log the root
is the earliest line of the most telling kind: what went wrong comes before what
it led to, and a server's last traceback is only the end of a chain.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path

from patcher.arch import known_targets
from patcher.instructions import Verdict, features, verdict

_DATA = Path(__file__).parent / "data"
_MAX_LINE = 4000  # characters of a line that are looked at
_NEAR = 80  # lines between a frame of a traceback and the error that it led to
_GENERATOR = re.compile(r"in (gen_\w+)\b")


class Level(str, Enum):
    """How much a text tells, most first."""

    ROOT = "root"
    SYMPTOM = "symptom"  # it follows from something that another tool can find
    AFTERMATH = "aftermath"  # it only says that something before it failed


@dataclass(frozen=True, slots=True)
class Explanation:
    """A text that is known; ``cause`` and ``do`` take the groups of the pattern."""

    id: str
    level: Level
    literal: str
    pattern: re.Pattern[str]
    cause: str
    do: tuple[str, ...]
    sample: str
    layer: str = ""
    gate: str = ""
    references: tuple[str, ...] = ()
    seen: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the scan, as reports name it."""

    id: str
    layer: str
    title: str
    example: str
    means: str
    do: str


@dataclass(frozen=True, slots=True)
class Answer:
    """One known text of the input: where, why, and what to do. ``opened_by`` are shipped
    groups that change this gate."""

    explanation: Explanation
    line: int
    text: str
    cause: str
    gate: str
    do: tuple[str, ...]
    opened_by: tuple[str, ...] = ()


@cache
def explanations() -> tuple[Explanation, ...]:
    """Every known text."""
    rows = json.loads((_DATA / "explanations.json").read_text("utf-8"))["explanations"]
    return tuple(
        Explanation(row["id"], Level(row["level"]), row["literal"], re.compile(row["pattern"]),
                    row["cause"], tuple(row["do"]), row["sample"], row.get("layer", ""),
                    row.get("gate", ""), tuple(row.get("references", ())), row.get("seen", {}))
        for row in rows)


@cache
def rules() -> dict[str, Rule]:
    """The registry of rules, by code."""
    rows = json.loads((_DATA / "rules.json").read_text("utf-8"))["rules"]
    return {row["id"]: Rule(**row) for row in rows}


def find_rule(code: str) -> Rule | None:
    """The rule with this code, in whatever case; None when it is none."""
    return {name.lower(): rule for name, rule in rules().items()}.get(code.strip().lower())


def explain(lines: Iterable[str]) -> list[Answer]:
    """Every known text, the root cause first; each explanation once, where it comes first."""
    found: dict[str, Answer] = {}
    frames: list[tuple[int, str]] = []
    for number, line in enumerate(lines, 1):
        text = line[:_MAX_LINE].strip()
        frame = _GENERATOR.search(text)
        if frame:
            frames = [*frames[-8:], (number, frame[1])]
        for known in explanations():
            if known.literal in text and known.id not in found:
                match = known.pattern.search(text)
                if match:
                    near = [name for at, name in frames if number - at <= _NEAR]
                    found[known.id] = _answer(known, number, text, match, near[-1:])
    order = list(Level)
    return sorted(found.values(), key=lambda a: (order.index(a.explanation.level), a.line,
                                                 -len(a.explanation.literal)))


def _answer(known: Explanation, number: int, text: str, match: re.Match[str],
            generator: list[str]) -> Answer:
    words = {name: value or "" for name, value in match.groupdict().items()}
    words["generator"] = generator[0] if generator else "its gen_ function"
    words["module"] = _module(generator[0]) if generator else "MODULE"
    words.update(_on_target(words))
    return Answer(known, number, text, known.cause.format_map(words),
                  known.gate.format_map(words),
                  tuple(_runnable(step.format_map(words)) for step in known.do),
                  tuple(_openers(generator[0])) if generator else ())


def _runnable(step: str) -> str:
    """Which module it is, a scan shows, where the text does not say it."""
    return re.sub(r"sm-patch why (\S+):MODULE\b", r"sm-patch scan \1", step)


def _module(generator: str) -> str:
    return re.sub(r"^gen_|_module$", "", generator)


def _on_target(words: Mapping[str, str]) -> dict[str, str]:
    """Whether an instruction that ptxas refused is only a matter of the target's suffix."""
    name, target = words.get("name", ""), words.get("target", "")
    by_name = {known.name: known for known in known_targets()}
    plain, full = by_name.get(target), by_name.get(f"{target}a")
    if plain is not None and full is not None:
        wanted = re.sub(r"\W+", "_", name.lstrip(".")).strip("_")
        meant = [f for f in features() if wanted in re.sub(r"\W+", "_", f)]
        lacking = [f for f in meant if verdict(f, plain) is Verdict.REJECTED]
        if any(verdict(f, full) is Verdict.ACCEPTED for f in lacking):
            number = f"{plain.number // 10}.{plain.number % 10}"
            return {"suffix": f"; {target}a has it",
                    "advice": f"build for {number}a (or {number}f with CUDA 12.9), not {number}"}
    return {"suffix": "", "advice": "this is hardware: choose another backend; opening a gate "
                                    "in front of it only moves the failure"}


def _openers(generator: str) -> Iterable[str]:
    """Shipped groups that change a Python gate in this function."""
    from patcher.patchset.load import load_patchset
    from patcher.patchset.schema import PythonGate
    from patcher.patchset.shipped import shipped

    for path in shipped().values():
        patchset = load_patchset(str(path))
        for group in patchset.groups:
            patches = [*group.patches, *(p for v in group.variants for p in v.patches)]
            if any(isinstance(p.operation, PythonGate) and p.operation.within == generator
                   for p in patches):
                yield f"{patchset.name}/{group.id}"
