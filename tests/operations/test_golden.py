"""Triples of the corpus: an input, a patch, and what must come of it, written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from patcher.edits import apply_edits
from patcher.operations.base import Finding, Outcome
from patcher.operations.registry import find
from patcher.patchset.load import parse_patchset
from patcher.patchset.schema import Operation, Text
from patcher.tree import FolderTree

GOLDEN = Path(__file__).resolve().parents[2] / "corpus" / "golden"
# no-op cases first: what must not change is the longer half of the promise
CASES = sorted((path.parent for path in GOLDEN.glob("*/*/patch.yaml")),
               key=lambda case: (not case.name.startswith("noop"), str(case)))
HEAD = "sm-patch: 1\nname: golden\npackage: golden\ngroups:\n  - id: golden\n    patches:\n      - "


def load(case: Path) -> Operation:
    text = (case / "patch.yaml").read_text("utf-8")
    patchset = parse_patchset((HEAD + text.replace("\n", "\n        ")).encode(), str(case))
    return patchset.groups[0].patches[0].operation


def input_of(case: Path) -> Path:
    return next(case.glob("input.*"))


def outcome(case: Path) -> tuple[Operation, Finding]:
    operation = load(case)
    return operation, find(operation, FolderTree(case))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_golden(case: Path, tmp_path: Path) -> None:
    operation, finding = outcome(case)
    source = input_of(case)
    expected = case / f"expected{source.suffix}"
    if not expected.exists():
        kind, reason = (case / "outcome.txt").read_text("utf-8").strip().split("\n")
        assert finding.outcome.value == kind, finding.reason
        assert reason in finding.reason
        assert not finding.edits
        return
    assert finding.outcome is Outcome.APPLICABLE, finding.reason
    new = apply_edits(source.read_bytes(), finding.edits[source.name])
    assert new.decode("latin-1") == expected.read_bytes().decode("latin-1")
    # a gate's own answer after the change must be that there is nothing left to do
    if not isinstance(operation, Text):
        (tmp_path / source.name).write_bytes(new)
        assert find(operation, FolderTree(tmp_path)).outcome is Outcome.NOT_NEEDED


def test_every_operation_on_text_has_a_case_that_must_not_change() -> None:
    for folder in ("cuda-guard", "text", "flag", "python-gate"):
        names = [case.name for case in CASES if case.parent.name == folder]
        assert any(name.startswith("noop") for name in names), folder
