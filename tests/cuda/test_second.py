"""The second opinion: pcpp evaluates what tells worlds apart, and would notice a wrong answer."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from patcher.arch import ALL_BITS
from patcher.cuda.conditions import Conditions, Place, Truths
from patcher.cuda.model import Configuration, TranslationUnit
from patcher.cuda.predefined import HostAnswers
from patcher.cuda.second import CheckedConditions
from patcher.cuda.state import State
from patcher.cuda.walk import Walker
from patcher.tree import FolderTree

TEXT = """
#define FAMILY(x) (__CUDA_ARCH__ / 100 * 100 == x)
#define LEAST 900
#if defined(__CUDA_ARCH__) && FAMILY(1200)
#elif __CUDA_ARCH__ >= LEAST
#endif
#if defined(__CUDA_ARCH__) and __CUDA_ARCH__ >= 1000
#endif
#if 1 + 1 == 2
#endif
"""


def walk(folder: Path, checked: CheckedConditions) -> CheckedConditions:
    (folder / "unit.cu").write_text(TEXT)
    walker = Walker(FolderTree(folder), conditions=checked)
    walker.walk(TranslationUnit("unit.cu", Configuration("t", forced=())))
    return checked


def test_pcpp_agrees_and_says_what_it_cannot_judge(tmp_path: Path) -> None:
    checked = walk(tmp_path, CheckedConditions())
    assert checked.disagreements == []
    assert checked.compared >= 10  # two conditions with macros, in eight worlds that differ
    assert checked.skipped["alternative tokens"] == 8


def test_a_wrong_answer_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Conditions.truths

    def wrong(self: Conditions, text: str, state: State, answers: HostAnswers,
              place: Place) -> tuple[Truths, Collection[str]]:
        found, asked = right(self, text, state, answers, place)
        if "LEAST" in text:
            found = Truths(ALL_BITS & ~found.true, found.true)
        return found, asked

    monkeypatch.setattr(Conditions, "truths", wrong)
    checked = walk(tmp_path, CheckedConditions())
    assert {one.condition for one in checked.disagreements} == {"__CUDA_ARCH__ >= LEAST"}
