"""Samples of the two long comparisons with nvcc; ``oracle_run`` and ``recall_run`` do more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.cuda.model import TranslationUnit
from tests.cuda.oracle_run import Comparison, Corpus, package_corpus, package_of
from tests.cuda.recall_run import recall

pytestmark = [pytest.mark.wheels, pytest.mark.nvcc, pytest.mark.slow]

Unpacked = Callable[[str, str], Path]


def chosen(corpus: Corpus, module: str) -> TranslationUnit:
    return next(unit for unit in corpus.units if module in unit.modules)


@pytest.mark.parametrize(("version", "module"), [
    ("0.6.6", "fp4_gemm_cutlass_sm120"), ("0.7.4", "trtllm_comm")])
def test_nvcc_meets_the_same_markers_in_the_same_order(
    unpacked: Unpacked, tmp_path: Path, version: str, module: str,
) -> None:
    unpacked("apache-tvm-ffi", "0.1.15.post2")
    corpus = package_corpus(package_of(unpacked("flashinfer-python", version)), 10_000, ())
    result = Comparison(corpus, tmp_path).compare(chosen(corpus, module))
    assert result["problems"] == []
    assert int(str(result["marks"])) > 10_000


def test_every_lost_line_lies_in_a_gate(unpacked: Unpacked, tmp_path: Path) -> None:
    unpacked("apache-tvm-ffi", "0.1.15.post2")
    package = package_of(unpacked("flashinfer-python", "0.6.3"))
    corpus = package_corpus(package, 10_000, ())
    units = [unit for unit in corpus.units if unit.path.endswith("csrc/trtllm_allreduce.cu")]
    found = recall(package, "sm_120a", units[:1], Comparison(corpus, tmp_path), corpus.tree)
    assert found.unseen == set()
    assert len(found.lost) >= 13  # case C1
