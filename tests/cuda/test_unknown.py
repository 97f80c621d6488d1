"""The third truth value. Each expectation follows from what a compiler could see either way."""

from __future__ import annotations

from pathlib import Path

from patcher.arch import ALL_BITS, HOST_BIT, ArchSet
from patcher.cuda.model import ArmState, Configuration, TranslationUnit, UnitReport
from patcher.cuda.walk import Walker
from patcher.tree import FolderTree

DEVICE = ALL_BITS & ~HOST_BIT
SM120 = ArchSet.of("sm_120", "sm_120a", "sm_120f").bits


def walk(folder: Path, *macros: str, **files: str) -> UnitReport:
    for name, text in files.items():
        (folder / f"{name}.{'cu' if name == 'unit' else 'h'}").write_text(text)
    setup = Configuration("test", forced=(), open_macros=frozenset(macros))
    return Walker(FolderTree(folder)).walk(TranslationUnit("unit.cu", setup), every=True)


def state(report: UnitReport, line: int, path: str = "unit.cu") -> ArmState:
    (only,) = report.arms[path, line]
    return only


def test_an_undefined_name_is_zero(tmp_path: Path) -> None:
    report = walk(tmp_path, unit="#if NOBODY\n#else\n#endif\n")
    assert state(report, 1).closed == ALL_BITS
    assert state(report, 2).open == ALL_BITS


def test_a_guessed_build_macro_is_unknown_and_named(tmp_path: Path) -> None:
    report = walk(tmp_path, "ENABLE", unit="#ifdef ENABLE\n#else\n#endif\n#if ENABLE > 1\n#endif\n")
    assert state(report, 1) == ArmState(0, 0, 0, ALL_BITS, ("ENABLE",))
    assert state(report, 2) == ArmState(0, 0, 0, ALL_BITS, ("ENABLE",))
    assert state(report, 4).unknown == ALL_BITS


def test_kleene_decides_what_it_can(tmp_path: Path) -> None:
    source = ("#if ENABLE && __CUDA_ARCH__ >= 1200\n#endif\n"
              "#if ENABLE || __CUDA_ARCH__ >= 1200\n#endif\n"
              "#if ENABLE ? 1 : 1\n#endif\n#if ENABLE * 0 == 0\n#endif\n#if defined(ENABLE) && 0\n"
              "#endif\n")
    report = walk(tmp_path, "ENABLE", unit=source)
    newer = ArchSet.of("sm_120", "sm_120a", "sm_120f", "sm_121", "sm_121a", "sm_121f").bits
    assert (state(report, 1).unknown, state(report, 1).closed) == (newer, ALL_BITS & ~newer)
    assert (state(report, 3).open, state(report, 3).unknown) == (newer, ALL_BITS & ~newer)
    assert state(report, 5).open == ALL_BITS
    assert state(report, 9).closed == ALL_BITS


def test_arms_fork_the_table_and_merge(tmp_path: Path) -> None:
    source = ("#define KEPT 1\n"
              "#ifdef ENABLE\n#define MODE 1\n#define SAME 5\n#if MODE == 1\n#endif\n"
              "#else\n#define MODE 2\n#define SAME 5\n#ifdef KEPT\n#endif\n#endif\n"
              "#if MODE == 1\n#endif\n#if SAME == 5\n#endif\n#if KEPT\n#endif\n")
    report = walk(tmp_path, "ENABLE", unit=source)
    # inside an arm its own definitions are certain, yet nobody knows whether it is compiled
    assert state(report, 5) == ArmState(0, 0, 0, ALL_BITS, ("ENABLE",))
    assert state(report, 13) == ArmState(0, 0, 0, ALL_BITS, ("ENABLE",))
    assert state(report, 15).open == ALL_BITS
    assert state(report, 17).open == ALL_BITS


def test_false_inside_an_unknown_arm_is_closed(tmp_path: Path) -> None:
    source = "#ifdef ENABLE\n#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 1200\n#endif\n#endif\n"
    inner = state(walk(tmp_path, "ENABLE", unit=source), 2)
    assert inner.closed & SM120 == SM120
    assert inner.unknown & ArchSet.of("sm_90a").bits
    assert inner.closed & HOST_BIT
    assert not inner.open


def test_no_arm_may_be_taken(tmp_path: Path) -> None:
    source = "#ifdef ENABLE\n#define M\n#endif\n#ifdef M\n#endif\n#undef M\n#ifdef M\n#endif\n"
    report = walk(tmp_path, "ENABLE", unit=source)
    assert state(report, 4).unknown == ALL_BITS
    assert state(report, 7).closed == ALL_BITS


def test_an_arm_with_error_is_assumed_not_taken(tmp_path: Path) -> None:
    source = ("#ifndef ENABLE\n#error set ENABLE\n#define WRONG\n#endif\n#ifdef WRONG\n#endif\n"
              "#if ENABLE == 1\n#define GOOD\n#else\n#error only 1 is supported\n#endif\n"
              "#ifdef GOOD\n#endif\n")
    report = walk(tmp_path, "ENABLE", unit=source)
    assert state(report, 1).unknown == ALL_BITS
    assert state(report, 5).closed == ALL_BITS
    assert state(report, 12).open == ALL_BITS


def test_names_behind_a_missing_header_are_unknown(tmp_path: Path) -> None:
    source = ("#if FROM_HEADER\n#endif\n#include <gone.h>\n#if FROM_HEADER\n#endif\n"
              "#if SCANNED\n#endif\n#if _MSC_VER\n#endif\n#if __CUDA_ARCH__ < 900\n#endif\n"
              "#if 0\n#define SCANNED\n#endif\n")
    report = walk(tmp_path, unit=source)
    assert state(report, 1).closed == ALL_BITS  # before the header nothing can have defined it
    assert state(report, 4) == ArmState(0, 0, 0, ALL_BITS, ("FROM_HEADER",))
    assert state(report, 6).closed == ALL_BITS  # a scanned file defines it, and did not
    assert state(report, 8).closed == ALL_BITS  # no header makes gcc another compiler
    assert state(report, 10).unknown == 0


def test_a_header_missing_in_one_pass_opens_names_there_only(tmp_path: Path) -> None:
    source = "#ifndef __CUDA_ARCH__\n#include <gone.h>\n#endif\n#if FROM_HEADER\n#endif\n"
    assert state(walk(tmp_path, unit=source), 4).unknown == HOST_BIT


def test_a_guard_met_after_a_fork_counts_as_included(tmp_path: Path) -> None:
    source = '#ifdef ENABLE\n#include "lib.h"\n#endif\n#include "lib.h"\n#if LIB == 3\n#endif\n'
    for header in ("#ifndef LIB_H\n#define LIB_H\n#define LIB 3\n#endif\n",
                   "#pragma once\n#define LIB 3\n"):
        assert state(walk(tmp_path, "ENABLE", unit=source, lib=header), 5).open == ALL_BITS


def test_an_unknown_macro_may_be_called(tmp_path: Path) -> None:
    source = "#include <gone.h>\n#if VERSION_AT_LEAST(2, (3)) && defined(__CUDA_ARCH__)\n#endif\n"
    found = state(walk(tmp_path, unit=source), 2)
    assert found == ArmState(0, HOST_BIT, 0, DEVICE, ("VERSION_AT_LEAST",))


def test_counter_is_unknown(tmp_path: Path) -> None:
    report = walk(tmp_path, unit="#if __COUNTER__ == 0\n#endif\n#ifdef __COUNTER__\n#endif\n")
    assert state(report, 1) == ArmState(0, 0, 0, ALL_BITS, ("__COUNTER__",))
    assert state(report, 3).open == ALL_BITS


def test_an_unknown_macro_may_make_the_expression_whole(tmp_path: Path) -> None:
    report = walk(tmp_path, "AND_MORE", unit="#if 1 AND_MORE 1\n#endif\n#if 1 1\n#endif\n")
    assert state(report, 1) == ArmState(0, 0, 0, ALL_BITS, ("AND_MORE",))
    assert state(report, 3).closed == ALL_BITS
    assert report.warnings == ("unit.cu:3: unexpected '1'",)
