"""What is claimed of a unit with unknowns holds however these turn out, as gcc has it.

A build macro that nobody knows gets values, a header that is not there gets contents. A line
that is called compiled must then be kept by gcc, and what gcc keeps must be called so, or
unknown.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from patcher.arch import target
from patcher.cuda.directives import SourceFile, parse
from patcher.cuda.model import UNREACHED, ArmState, Context, TranslationUnit, UnitReport
from patcher.cuda.walk import Walker
from patcher.tree import FolderTree
from tests.cuda.oracle import (
    Marks,
    Oracle,
    configuration,
    read_marks,
    shadow,
    world_bit,
    written,
)
from tests.cuda.test_random import WORLDS, projects
from tests.shapes import examples

BODIES = ("", "0", "1", "2", "1200", "-1", "A", "defined(C)", "1)", "(", "F", "== 1", "&& 0", "B")
CALLS = ("(x) x", "(x) 1", "(x, ...) 0", "() 1")
UNIT = """
#define KEPT 1
#define F(x) x
#pragma push_macro("KEPT")
#ifndef B
#define C 1
#elif defined(C)
#else
#endif
#if B
#undef KEPT
#elif KEPT
#else
#endif
#if B
#include "sets.h"
#elif defined(SET) || defined(ONCE)
#else
#endif
#if B == 0
#define F(x) 0
#elif F(1)
#else
#endif
#if B > 1
#pragma pop_macro("KEPT")
#define KEPT 2
#elif KEPT == 2
#elif B
#if B == 1
#define E 1
#elif E
#else
#endif
#elif defined(E)
#else
#endif
"""


def claims(report: UnitReport, tree: FolderTree, bit: int, paths: Iterable[str],
           ) -> tuple[Marks, Marks]:
    """The markers that one world compiles for certain, and those that it may compile."""
    must: Marks = {}
    may: Marks = {}
    for path in paths:
        source = parse(tree.read(path))
        for context in report.contexts.get(path, ()):
            if context.worlds & bit:
                may.setdefault(path, set()).update(_live(source, context, bit, unknown=True))
            if context.worlds & bit & ~context.maybe:
                must.setdefault(path, set()).update(_live(source, context, bit, unknown=False))
    return must, may


def _live(source: SourceFile, context: Context, bit: int, *, unknown: bool) -> Iterator[int]:
    def lives(line: int) -> bool:
        state: ArmState = context.arms.get(line, UNREACHED)
        return bool((state.live if unknown else state.open) & bit)

    yield 0
    for ladder in source.ladders:
        yield from (arm.body_line - 1 for arm in ladder.arms if lives(arm.line))
        if ladder.end_line in source.ends and (not ladder.parent or lives(ladder.parent)):
            yield source.ends[ladder.end_line] - 1


def contradicted(must: Marks, may: Marks, real: Marks, paths: Iterable[str]) -> list[str]:
    """Claims that do not hold, where ``real`` is compiled."""
    found = []
    for path in paths:
        kept = real.get(path, set())
        found += [f"{path}:{n} is not compiled" for n in sorted(must.get(path, set()) - kept)]
        found += [f"{path}:{n} is compiled" for n in sorted(kept - may.get(path, set()))]
    return found


@pytest.mark.nvcc
def test_each_arm_is_asked_with_what_was_before_the_ladder(tmp_path: Path) -> None:
    plain, marked = tmp_path / "plain", tmp_path / "marked"
    plain.mkdir()
    (plain / "unit.cu").write_text(UNIT)
    (plain / "sets.h").write_text('#define SET 1\n#include "once.h"\n')
    (plain / "once.h").write_text("#pragma once\n#define ONCE\n")
    shadow(plain, ["."], marked)
    tree, files = FolderTree(plain), ("unit.cu", "sets.h", "once.h")
    setup = replace(configuration(forced=()), open_macros=frozenset("B"))
    report = Walker(tree).walk(TranslationUnit("unit.cu", setup), every=True)
    for value in (None, "0", "1", "2"):
        known = configuration(defines=[] if value is None else [("B", value)])
        for world in ("host", "sm_120a"):
            real, _ = Oracle(marked, known, as_written=True).marks("unit.cu", world)
            must, may = claims(report, tree, world_bit(world), files)
            assert contradicted(must, may, real, files) == [], (value, world)


def complete(names: Iterable[str], chance: random.Random) -> str:
    """A header that defines some of these names, whatever as."""
    made = [f"#define {name}{chance.choice((*CALLS, *(f' {body}' for body in BODIES)))}\n"
            for name in names if chance.random() < 0.8]
    return "".join([*chance.choice([[], ["#pragma once\n"]]), *made])


def gcc_keeps(folder: Path, world: str, flags: Iterable[str]) -> Marks:
    macros = {} if world == "host" else target(world).macros
    run = subprocess.run(
        ["gcc", "-std=c++17", "-E", "-fdirectives-only", "-x", "c++", *flags,
         *(f"-D{name}={value}" for name, value in macros.items()), "unit.cu"],
        cwd=folder, capture_output=True, text=True, check=False)
    return read_marks(run.stdout)[0]


def refuted(files: Mapping[str, str], missing: bool, chance: random.Random) -> str:
    """A completion that contradicts a claim, and which."""
    with written(files) as (tree, marked):
        setup = replace(configuration(forced=()), open_macros=frozenset("" if missing else "B"))
        report = Walker(tree).walk(TranslationUnit("unit.cu", setup), every=True)
        scanned = "\n".join(files.values())  # what a scanned file defines is not in doubt
        names = [n for n in "ABC" if not re.search(rf"#define {n}\b", scanned)]
        for _ in range(4):
            flags = []
            if missing:
                (marked / "gone.h").write_text(complete(names, chance))
            elif chance.random() < 0.8:
                flags = [f"-DB={chance.choice(BODIES)}"]
            for world in WORLDS:
                must, may = claims(report, tree, world_bit(world), files)
                real = gcc_keeps(marked, world, flags)
                if found := contradicted(must, may, real, files):
                    told = (marked / "gone.h").read_text() if missing else flags
                    return f"{world}, {told}: {found[:3]}"
    return ""


@pytest.mark.slow
@seed(int(os.environ.get("SM_PATCH_SEED", "7")))
@settings(max_examples=examples(60), deadline=None, phases=[Phase.generate], database=None,
          suppress_health_check=list(HealthCheck))
@given(files=projects(), missing=st.booleans(), number=st.integers(0, 1 << 30))
def test_no_completion_refutes_a_claim(files: dict[str, str], missing: bool, number: int) -> None:
    # an arm with #error is assumed not to be taken: that is no claim
    text = {name: each.replace("#error no", "int no;") for name, each in files.items()}
    if missing:
        text = {name: each.replace("int text;", '#include "gone.h"')
                for name, each in text.items()}
    assert refuted(text, missing, random.Random(number)) == ""
