"""The law over walks, against gcc: it must object exactly when a live line says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from patcher.arch import HOST, ArchSet, Capability
from patcher.changes import Modify
from patcher.cuda.directives import parse
from patcher.cuda.model import Configuration, TranslationUnit
from patcher.cuda.walk import Walker
from patcher.edits import Edit, Span, apply_edits
from patcher.law import Breach, EditedFile, Rule, breaches
from patcher.operations import cuda_guard, opening
from patcher.tree import ChangedTree, FolderTree
from tests.plan.conditions import ASKED, CONDITION
from tests.plan.oracle import live_lines

HEADER, UNIT = "guards.cuh", "unit.cu"
PROGRAM = """\
#define VERSION 12
#define CTX one
#include "guards.cuh"
#undef CTX
#define CTX two
#define FEATURE
#include "guards.cuh"
#undef CTX
#undef FEATURE
#undef VERSION
"""
LAWS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class Arm:
    """An arm of the written program: its directive's line, and what stands around it."""

    line: int
    parent: int | None
    earlier: tuple[str, ...]  # the marker lines of the ladder's arms before it


@dataclass
class Writer:
    """Writes nested ladders; each arm begins with a line that names it and its inclusion."""

    lines: list[str] = field(default_factory=list)
    arms: list[Arm] = field(default_factory=list)
    ladders: list[list[str]] = field(default_factory=list)

    def ladder(self, shape: Any, parent: int | None = None) -> None:
        arms, has_else = shape
        labels: list[str] = []
        self.ladders.append(labels)
        for index, (condition, inner) in enumerate(arms):
            self.lines.append(f"#{'elif' if index else 'if'} {condition}")
            number = len(self.arms)
            self.arms.append(Arm(len(self.lines), parent, tuple(labels)))
            labels.append(f"arm {number}")
            self.lines.append(f"arm {number} CTX")
            for ladder in inner:
                self.ladder(ladder, number)
        if has_else:
            labels.append(f"else {len(self.lines)}")
            self.lines += ["#else", f"{labels[-1]} CTX"]
        self.lines.append("#endif")

    def later(self, label: str) -> list[str]:
        (labels,) = (labels for labels in self.ladders if label in labels)
        return labels[labels.index(label) + 1:]


LADDERS: st.SearchStrategy[list[object]] = st.recursive(
    st.just([]),
    lambda inner: st.lists(
        st.tuples(st.lists(st.tuples(CONDITION, inner), min_size=1, max_size=3), st.booleans()),
        min_size=1, max_size=2),
    max_leaves=4).filter(bool)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        (Path(name) / UNIT).write_text(PROGRAM)
        yield Path(name)


def judge(folder: Path, old: bytes, edits: tuple[Edit, ...], effective: ArchSet,
          opens: bool | None) -> list[Breach]:
    tree = FolderTree(folder)
    unit = TranslationUnit(UNIT, Configuration("test", forced=()))
    before = Walker(tree).walk(unit, every=True)
    changed = ChangedTree(tree, [Modify(HEADER, old, apply_edits(old, edits))])
    after = Walker(changed).walk(unit, every=True)
    files = {HEADER: EditedFile(HEADER, old, [Rule(HEADER, edits, effective, opens)])}
    return list(breaches(before, after, files, lambda path: parse(tree.read(path))))


Seen = dict[str, list[str]]


def expected(before: Seen, after: Seen, program: Writer, edited: int, effective: ArchSet) -> bool:
    """Whether the law is broken, from live lines alone."""
    asked = {world for world in before if world != HOST and world in effective}
    if any(before[world] != after[world] for world in before if world not in asked):
        return True
    for context in ("one", "two"):
        line = f"arm {edited} {context}"
        passed = any(line in after[world] for world in after if world not in asked | {HOST})
        for world in asked:
            if passed and line not in after[world]:
                return True
            if not passed and line in after[world] and line not in before[world]:
                return True
            if any(revealed(before[world], after[world], program, number, context)
                   and any(f"arm {number} {context}" in after[reference]
                           for reference in {"sm_90a", "sm_100a"} - asked)
                   for number in range(len(program.arms)) if number != edited):
                return True
    return False


def revealed(before: list[str], after: list[str], program: Writer, number: int,
             context: str) -> bool:
    """The arm was not reached before, is now, and leaves this world with nothing."""
    def reached(live: list[str]) -> bool:
        arm = program.arms[number]
        inside = arm.parent is None or f"arm {arm.parent} {context}" in live
        return inside and not any(f"{label} {context}" in live for label in arm.earlier)

    ladder = [f"arm {number}", *program.later(f"arm {number}")]
    nothing = not any(f"{label} {context}" in after for label in ladder)
    return not reached(before) and reached(after) and nothing


@LAWS
@given(LADDERS, ASKED, st.integers(0, 7), st.one_of(st.none(), CONDITION))
def test_it_objects_exactly_when_a_live_line_does(
    folder: Path, ladders: list[object], asked: list[str], chosen: int, other: str | None
) -> None:
    writer = Writer()
    for ladder in ladders:
        writer.ladder(ladder)
    number = chosen % len(writer.arms)
    text = "\n".join(writer.lines) + "\n"
    (folder / HEADER).write_text(text)
    effective = ArchSet.of(*(Capability.parse(name) for name in asked))
    (arm,) = (a for a in cuda_guard.arms(text.encode()) if a.line == writer.arms[number].line)
    new = other or opening.open_condition(arm.condition, effective)
    if new is None:
        return
    edits = arm.edits(new)
    found = judge(folder, text.encode(), edits, effective, True)
    before = live_lines(UNIT, folder)
    (folder / HEADER).write_bytes(apply_edits(text.encode(), edits))
    broken = expected(before, live_lines(UNIT, folder), writer, number, effective)
    event("broken" if broken else "kept")
    assert bool(found) is broken, found


GUARD = "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200\n"
TWELVE = ArchSet.of(Capability(12, 0), Capability(12, 1))


def bound(text: str) -> tuple[Edit, ...]:
    """Drop the upper bound of the guard."""
    start = text.index(" && __CUDA_ARCH__ < 1200")
    return (Edit(Span(start, start + len(" && __CUDA_ARCH__ < 1200")), b""),)


def test_a_gate_that_was_hidden_and_still_excludes_is_named(folder: Path) -> None:
    """The outer arm is closed on 12.x, so opening the inner one alone changes nothing there."""
    text = f"#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ <= 1100\n{GUARD}inner\n#endif\n#endif\n"
    (folder / HEADER).write_text(text)
    (breach,) = judge(folder, text.encode(), bound(text), TWELVE, True)
    assert (breach.line, breach.path) == (2, HEADER)
    assert "the gate at line 1 still excludes" in breach.what


def test_an_earlier_arm_that_takes_the_targets_is_named(folder: Path) -> None:
    text = f"#if __CUDA_ARCH__ >= 1200\nown path\n{GUARD.replace('#if', '#elif')}other\n#endif\n"
    (folder / HEADER).write_text(text)
    (breach,) = judge(folder, text.encode(), bound(text), TWELVE, True)
    assert "an earlier arm of its ladder is taken" in breach.what


def test_a_surplus_world_shows_both_sets(folder: Path) -> None:
    """Dropping the bound opens 12.1 too; asked was 12.0 alone."""
    text = f"{GUARD}line\n#endif\n"
    (folder / HEADER).write_text(text)
    (breach,) = judge(folder, text.encode(), bound(text), ArchSet.of(Capability(12, 0)), True)
    assert breach.after - breach.before == ArchSet.of(Capability(12, 1))


@pytest.mark.parametrize(("guard", "lawful"), [
    ("#if __CUDA_ARCH__ >= 1200", True),
    ("#if __CUDA_ARCH__ >= 1000", False),  # live on 10.x too
    ("#ifndef __CUDA_ARCH__", False),  # live for the host
])
def test_a_replaced_text_must_be_live_for_asked_worlds_only(
    folder: Path, guard: str, lawful: bool
) -> None:
    text = f"{guard}\nstride(n);\n#endif\nafter\n"
    (folder / HEADER).write_text(text)
    start = text.index("stride(n);")
    edits = (Edit(Span(start, start + 10), b"stride(8);\nclamp();"),)
    found = judge(folder, text.encode(), edits, TWELVE, None)
    assert bool(found) is not lawful
    assert all("live in worlds that were not asked" in breach.what for breach in found)


def test_an_anchor_line_moves_with_text_inserted_above_it(folder: Path) -> None:
    """A text for asked worlds adds lines above another guard, which must count as the same."""
    text = f"#if __CUDA_ARCH__ >= 1200\nown\n#endif\n{GUARD}line\n#endif\n"
    (folder / HEADER).write_text(text)
    edits = (Edit(Span(text.index("own"), text.index("own") + 3), b"own\nmore\nlines"),)
    assert not judge(folder, text.encode(), edits, TWELVE, None)


def test_a_gate_that_the_opened_one_had_hidden_must_not_exclude(folder: Path) -> None:
    """Both excluded 12.x, the outer one hid the inner one; with an #else the target has a path."""
    inner = "#if __CUDA_ARCH__ <= 1100\ninner\n#endif\n"
    text = f"{GUARD}outer\n{inner}#endif\n"
    (folder / HEADER).write_text(text)
    (breach,) = judge(folder, text.encode(), bound(text), TWELVE, True)
    assert (breach.line, "was hidden behind the opened gate" in breach.what) == (3, True)
    text = text.replace("inner\n", "inner\n#else\nother\n")
    (folder / HEADER).write_text(text)
    assert not judge(folder, text.encode(), bound(text), TWELVE, True)
