"""Generated sources for other devices: one row per file and condition, one line per folder.

What is equal is counted here with a regular expression over the file, not by the scanner. The
guard ``__CUDA_ARCH__ < 1000`` is false for 1200 and true for 900; ``CUTE_ARCH_MMA_SM90A_ENABLED``
is defined for sm_90a alone (mma_sm90_gmma.hpp asks for __CUDA_ARCH_FEAT_SM90_ALL).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.gates import Gate, Layer
from patcher.report.json_scan import gate_document
from patcher.report.text_scan import render_text
from patcher.scan.model import Options, Report
from tests.scan.conftest import scan_root

pytestmark = [pytest.mark.wheels, pytest.mark.slow]
FOLDER = "flashinfer/data/csrc/cake_dsv4/sm_100a"
USER = "flashinfer/data/csrc/group_gemm_sm90.cu"
LIBRARY = "flashinfer/data/cutlass/include/cute/arch/mma_sm90_gmma_ext.hpp"
OLDER = re.compile(r"^\s*#\s*if defined\(__CUDA_ARCH__\) && \(__CUDA_ARCH__ < 1000\)$")
HOPPER = re.compile(r"^\s*#\s*if(?:def\s+|\s+defined\s*\(\s*)CUTE_ARCH_MMA_SM90A_ENABLED\b")


@pytest.fixture(scope="module")
def root(unpacked: Callable[[str, str], Path]) -> Path:
    return unpacked("flashinfer-python", "0.7.4")


@pytest.fixture(scope="module")
def report(root: Path) -> Report:
    units = tuple(str(path.relative_to(root)) for path in sorted((root / FOLDER).glob("*.cu")))
    assert len(units) > 20
    return scan_root(root, "flashinfer", "sm_120a",
                     Options(frozenset({Layer.PREPROCESSOR}), units=(*units, USER)))


def written(path: Path, pattern: re.Pattern[str]) -> list[int]:
    lines = path.read_text("utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if pattern.match(line)]


def rows(report: Report, path: str, words: str) -> list[Gate]:
    return [gate for gate in report.findings
            if gate.location.path == path and words in gate.condition]


def test_equal_guards_of_a_generated_file_are_one_row_with_all_lines(
        root: Path, report: Report) -> None:
    """Case C9."""
    seen = 0
    for path in sorted((root / FOLDER).glob("*_kernel.cu")):
        name, lines = str(path.relative_to(root)), written(path, OLDER)
        found = rows(report, name, "< 1000")
        assert [list(gate.lines) for gate in found] == ([lines] if lines else []), name
        for gate in found:
            document = gate_document(gate)
            assert (document["count"], document["lines"]) == (len(lines), lines)
        seen += len(lines)
    assert seen > 100


def test_hundreds_of_equal_guards_of_a_library_are_one_row(root: Path, report: Report) -> None:
    lines = written(root / LIBRARY, HOPPER)
    assert len(lines) > 700
    (row,) = rows(report, LIBRARY, "SM90A_ENABLED")
    assert list(row.lines) == lines


def test_the_text_has_one_line_for_the_folder(report: Report) -> None:
    text = render_text(report)
    assert len(text.splitlines()) < 100
    assert sum(FOLDER in line for line in text.splitlines()) == 1
    assert sum(gate.count for gate in report.findings) > 1000
