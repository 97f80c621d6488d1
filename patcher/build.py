"""Build layer: compiler flags that a module lacks, by what its units reach.

A rule (``data/build_flags.json``) names a flag, the header that tests it, and
the instructions it lets in. Which targets gain from it is asked of the walker.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from patcher.arch import DEVICE, EMPTY, ArchSet, Target, known_targets
from patcher.cuda.effects.tokens import blank_comments
from patcher.cuda.model import Configuration, TranslationUnit, UnitReport
from patcher.gates import Cause, Effect, Evidence, Gate, Layer, Location, Severity, Worlds

Walk = Callable[[TranslationUnit], UnitReport]  # with every arm's states
Read = Callable[[str], bytes]


@dataclass(frozen=True, slots=True)
class Rule:
    """A flag that fills the functions of a header; see ``build_flags.json``."""

    id: str
    flag: str
    value: str
    header: str
    copies: str
    instructions: bytes
    launch: tuple[bytes, ...]
    why: str

    @property
    def option(self) -> str:
        return f"-D{self.flag}={self.value}"


@cache
def rules() -> tuple[Rule, ...]:
    """Every rule of the table."""
    data = json.loads((Path(__file__).parent / "data" / "build_flags.json").read_text("utf-8"))
    return tuple(
        Rule(row["id"], row["flag"], row["value"], row["header"], row["copies"],
             row["instructions"].encode(), tuple(word.encode() for word in row["launch"]),
             row["why"])
        for row in data["rules"]
    )


@dataclass(frozen=True, slots=True)
class Lacking:
    """A module whose unit meets a rule and whose flags do not name its macro."""

    rule: Rule
    module: str
    unit: TranslationUnit
    number: int
    header: str
    launch: Evidence


@dataclass
class Observer:
    """Looks at every walked unit; ``read`` gives a file's bytes."""

    read: Read
    found: dict[tuple[str, str], Lacking] = field(default_factory=dict)  # rule, module
    units: dict[tuple[str, str], int] = field(default_factory=dict)
    reached: set[str] = field(default_factory=set)  # headers and copies that some unit reaches
    _launches: dict[tuple[str, str], Evidence | None] = field(default_factory=dict)

    def observe(self, units: Sequence[TranslationUnit], reached: Mapping[str, int]) -> None:
        """Note which modules lack a flag; ``reached`` tells the units of each file, as bits."""
        for rule in rules():
            self.reached.update(p for p in reached if p.endswith("/" + rule.copies))
            headers = sorted(p for p in reached if p.endswith("/" + rule.header))
            own = [p for p in sorted(reached) if not p.startswith("/")] if headers else []
            for number, unit in enumerate(units):
                header = next((p for p in headers if reached[p] >> number & 1), None)
                if header is None or rule.flag in dict(unit.configuration.defines):
                    continue
                for module in unit.modules:
                    key = (rule.id, module)
                    self.units[key] = self.units.get(key, 0) | 1 << number
                    if key not in self.found:
                        bit = 1 << number
                        files = (p for p in own if reached[p] & bit)
                        launch = self._launch(rule, header, files)
                        if launch is not None:
                            self.found[key] = Lacking(rule, module, unit, number, header, launch)

    def _launch(self, rule: Rule, header: str, files: Iterable[str]) -> Evidence | None:
        """Where the module's own code asks for the launch that needs the flag."""
        library = header.removesuffix(rule.header)
        for path in files:
            if path.startswith(library):
                continue
            key = (rule.id, path)
            if key not in self._launches:
                self._launches[key] = _launch(path, self.read(path), rule.launch)
            if self._launches[key] is not None:
                return self._launches[key]
        return None

    def unreached(self, paths: Iterable[str]) -> Iterator[str]:
        """Copies of a rule's header that no unit reaches."""
        for rule in rules():
            for path in paths:
                if path.endswith("/" + rule.copies) and path not in self.reached:
                    yield path


def _launch(path: str, data: bytes, words: tuple[bytes, ...]) -> Evidence | None:
    """The first line that asks for the launch, one that says true before one that only names it.

    ``/*enablePDL=*/true`` names an argument: there the comment counts.
    """
    if not any(word in data for word in words):
        return None
    named = re.compile(rb"/\*\s*(?:" + b"|".join(words) + rb")\s*=\s*\*/\s*true")
    code = blank_comments(data).split(b"\n")
    found: Evidence | None = None
    for number, (line, bare) in enumerate(zip(data.split(b"\n"), code, strict=True), 1):
        if named.search(line) or any(word in bare for word in words):
            here = Evidence(path, number, line.decode("utf-8", "replace").strip(" \t\\"))
            if b"true" in line:
                return here
            found = found or here
    return found


def gate_of(lacking: Lacking, location: Location, within: str, target: Target, walk: Walk,
            read: Read) -> Gate | None:
    """The gate of a missing flag, None when the flag would change nothing for any target."""
    rule = lacking.rule
    plain = _filled(rule, lacking, walk, read, ())
    flagged = _filled(rule, lacking, walk, read, ((rule.flag, rule.value),))
    gained = flagged - plain
    siblings = ArchSet.of(target.capability)
    if not gained & siblings:
        return None
    evidence = [Evidence(lacking.launch.path, lacking.launch.line, rule.why)]
    if target not in gained:
        best = " or ".join((gained & siblings).names)
        evidence.insert(0, Evidence(
            lacking.header, 0, f"stays empty on {target} even with the flag: needs {best}"))
    return Gate(
        Layer.BUILD, rule.id, location, rule.option,
        Worlds(open=plain, closed=DEVICE - plain),
        excludes_target=True,
        effect=Effect.SYNC,
        cause=Cause.SOFTWARE if target in gained else Cause.HARDWARE,
        severity=Severity.CRITICAL if target in gained else Severity.INFO,
        evidence=(*evidence, lacking.launch),
        within=within,
        modules=(lacking.module,),
        units=(lacking.unit.path,),
        via=(lacking.unit.path, lacking.header),
    )


def _filled(rule: Rule, lacking: Lacking, walk: Walk, read: Read,
            extra: tuple[tuple[str, str], ...]) -> ArchSet:
    """The targets for which the header's functions hold their instructions."""
    from patcher.cuda.directives import parse
    from patcher.cuda.effects.live import live_lines

    base = lacking.unit.configuration
    configuration: Configuration = replace(
        base, id=base.id + "".join(f"+{n}" for n, _ in extra), defines=(*base.defines, *extra)
    )
    unit = TranslationUnit(
        f"@generated/{rule.id}/probe.cu", configuration,
        content=f"#include <{rule.header}>\n".encode(),
    )
    report = walk(unit)
    data = read(lacking.header)
    lines = [number for number, line in enumerate(blank_comments(data).split(b"\n"), 1)
             if rule.instructions in line]
    filled = EMPTY
    directives = parse(data)
    for context in report.contexts.get(lacking.header, ()):
        for candidate in known_targets():
            live = live_lines(context, directives, candidate, data.count(b"\n") + 1)
            if any(live[line] for line in lines):
                filled |= ArchSet.of(candidate)
    return filled


__all__ = ["Lacking", "Observer", "Rule", "gate_of", "rules"]
