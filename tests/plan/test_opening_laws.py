"""Every rewrite of a condition, judged by gcc in every world."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from patcher.arch import HOST, ArchSet, Capability
from patcher.changes import Modify
from patcher.cuda.directives import normalise
from patcher.edits import apply_edits
from patcher.operations import cuda_guard, opening
from patcher.operations.base import Outcome
from patcher.patchset.schema import Count, CudaGuard, RelativePath
from patcher.tree import ChangedTree, FolderTree
from tests.plan.conditions import ASKED, CONDITION, SHAPES
from tests.plan.oracle import WORLDS, truths
from tests.shapes import examples, matching, printed_shapes, seen

__all__ = ["printed_shapes"]

LAWS = settings(max_examples=examples(60), deadline=None,
                suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        yield Path(name)


def assignments(conditions: list[str], folder: Path) -> Iterator[list[set[str]]]:
    for feature, version in product(["", "#define FEATURE"], ["11", "13"]):
        yield truths(conditions, folder, f"{feature}\n#define VERSION {version}")


def worlds_of(asked: list[str]) -> ArchSet:
    return ArchSet.of(*(Capability.parse(text) for text in asked))


@LAWS
@given(CONDITION, ASKED)
def test_opening_changes_the_asked_worlds_and_no_other(
    folder: Path, condition: str, asked: list[str]
) -> None:
    effective = worlds_of(asked)
    new = opening.open_condition(condition, effective)
    seen("opening a condition", "rewritten" if new else "refused",
         *matching(condition, SHAPES))
    if new is None:
        return
    for before, after in assignments([condition, new], folder):
        passed = bool(before - {HOST})
        for world, _ in WORLDS:
            if world != HOST and world in effective:
                assert (world in after) is passed
            else:
                assert (world in after) is (world in before)


@LAWS
@given(CONDITION, ASKED)
def test_closing_closes_the_asked_worlds_and_no_other(
    folder: Path, condition: str, asked: list[str]
) -> None:
    effective = worlds_of(asked)
    new = opening.close_condition(condition, effective)
    seen("closing a condition", *matching(condition, SHAPES))
    assert new is not None, "a condition can always be narrowed"
    for before, after in assignments([condition, new], folder):
        assert after == {world for world in before if world == HOST or world not in effective}


@LAWS
@example(["(__CUDA_ARCH__ < 1200&&defined(FEATURE))"], ["12.0", "12.1"], 0)
@given(st.lists(CONDITION, min_size=1, max_size=4), ASKED, st.integers(0, 3))
def test_a_second_plan_finds_nothing_to_do(
    folder: Path, conditions: list[str], asked: list[str], chosen: int
) -> None:
    anchor = conditions[chosen % len(conditions)]
    text = "".join(f"#if {condition}\nint a;\n#endif\n" for condition in conditions)
    (folder / "guards.cuh").write_text(text)
    tree = FolderTree(folder)
    count = sum(normalise(c) == normalise(anchor) for c in conditions)
    operation = CudaGuard(file=RelativePath("guards.cuh"), condition=anchor, count=Count(count),
                          open=worlds_of(asked))
    finding = cuda_guard.find(operation, tree)
    seen("a guard in a file", finding.outcome.value, f"{count} of {len(conditions)}")
    if finding.outcome is not Outcome.APPLICABLE:
        assert not finding.edits
        return
    old = tree.read("guards.cuh")
    new = apply_edits(old, finding.edits["guards.cuh"])
    again = cuda_guard.find(operation, ChangedTree(tree, [Modify("guards.cuh", old, new)]))
    assert not again.edits
    # a respelled guard beside it may still exclude; that is said, never taken for success
    assert again.outcome is Outcome.NOT_NEEDED or "still exclude" in again.reason
