"""Real packages: reported cases, nvcc's own answer for whole units, and the price of a scan."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.arch import ALL_BITS, HOST_BIT, ArchSet
from patcher.cuda.model import Configuration, TranslationUnit, UnitReport
from patcher.cuda.walk import Walker
from patcher.tree import FolderTree
from tests.cuda.oracle import (
    WORLDS,
    Oracle,
    configuration,
    disagreements,
    host_folders,
    shadow,
    toolkit,
)

pytestmark = [pytest.mark.wheels, pytest.mark.nvcc, pytest.mark.slow]

Unpacked = Callable[[str, str], Path]
DATA = "flashinfer/data"
FOLDERS = (
    "include", "csrc", "csrc/nv_internal", "csrc/nv_internal/include", "cutlass/include",
    "cutlass/tools/util/include", "spdlog/include", "csrc/fmha_v2",
    "csrc/nv_internal/tensorrt_llm/cutlass_extensions/include",
)
CLOSED_GUARDS = (417, 455, 485, 533, 711, 895, 950, 991, 1053, 1207, 1265, 1335, 1444)
UNITS = (
    "trtllm_allreduce.cu", "batch_decode.cu", "xqa/mha.cu", "fp8_gemm_cutlass.cu",
    "quantization.cu", "single_prefill_sm90.cu",
)


def setup(unpacked: Unpacked, stubs: Path | None = None) -> Configuration:
    tvm = unpacked("apache-tvm-ffi", "0.1.15.post2") / "tvm_ffi"
    include = [*(f"{DATA}/{f}" for f in FOLDERS), f"{tvm}/include",
               f"{tvm}/3rdparty/dlpack/include"]
    return configuration(include, system=[str(stubs)] if stubs else [])


def walk(root: Path, setup: Configuration, names: tuple[str, ...]) -> dict[str, UnitReport]:
    walker = Walker(FolderTree(root))
    return {name: walker.walk(TranslationUnit(f"{DATA}/csrc/{name}", setup)) for name in names}


@pytest.mark.parametrize("version", ["0.5.3", "0.6.3", "0.6.6"])
def test_c1_thirteen_guards_close_sm12x(unpacked: Unpacked, version: str) -> None:
    # case C1: PR 3903; the lines are those of 0.6.3, found by grep
    root = unpacked("flashinfer-python", version)
    reports = walk(root, setup(unpacked), ("trtllm_allreduce.cu", "trtllm_allreduce_fusion.cu"))
    header = f"{DATA}/include/flashinfer/comm/trtllm_allreduce.cuh"
    old = ArchSet.of("sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89").bits
    new = ArchSet.of("sm_120", "sm_120a", "sm_120f", "sm_121", "sm_121a", "sm_121f").bits
    closed = old | new | HOST_BIT
    found = [line for (path, line), states in reports["trtllm_allreduce.cu"].arms.items()
             if path == header and [(s.open, s.closed) for s in states]
             == [(ALL_BITS & ~closed, closed)]]
    assert len(found) == 13
    if version == "0.6.3":
        assert sorted(found) == list(CLOSED_GUARDS)
    assert reports["trtllm_allreduce.cu"].chain(header) == (
        f"{DATA}/csrc/trtllm_allreduce.cu", header)
    assert header not in reports["trtllm_allreduce_fusion.cu"].files


@pytest.mark.parametrize("version", ["0.6.17", "0.7.4"])
def test_c2_upstream_opened_them(unpacked: Unpacked, version: str) -> None:
    root = unpacked("flashinfer-python", version)
    reports = walk(root, setup(unpacked), ("trtllm_allreduce.cu",))
    header = f"{DATA}/include/flashinfer/comm/trtllm_allreduce.cuh"
    sm120 = ArchSet.of("sm_120a").bits
    assert header in reports["trtllm_allreduce.cu"].files
    assert not [line for (path, line), states in reports["trtllm_allreduce.cu"].arms.items()
                if path == header and any(
                    s.closed & sm120 and s.open & ArchSet.of("sm_90a").bits for s in states)]


def test_c8_an_earlier_branch_decides(unpacked: Unpacked) -> None:
    # xqa/mha.cu: the ladder that a line grep reports near line 98 serves 1200 and 1210
    root = unpacked("flashinfer-python", "0.6.3")
    report = walk(root, setup(unpacked), ("xqa/mha.cu",))["xqa/mha.cu"]
    unit = f"{DATA}/csrc/xqa/mha.cu"
    sm12 = ArchSet.of("sm_120a", "sm_121a").bits
    ladder = [s for (path, line), states in report.arms.items() for s in states
              if path == unit and 85 <= line <= 115]
    assert ladder
    assert sum(bool(s.open & sm12 == sm12) for s in ladder) >= 1


def test_nvcc_keeps_the_same_lines_of_real_units(unpacked: Unpacked, tmp_path: Path) -> None:
    root = unpacked("flashinfer-python", "0.6.3")
    stubs, marked = tmp_path / "stubs", tmp_path / "marked"
    stubs.mkdir()
    for _ in range(3):  # gcc stops at the first missing header: empty ones stand in
        reports = walk(root, setup(unpacked, stubs), UNITS)
        for missing in {m.include for report in reports.values() for m in report.missing}:
            (stubs / missing[1:-1]).parent.mkdir(parents=True, exist_ok=True)
            (stubs / missing[1:-1]).touch()
    shadow(root, [DATA], marked)
    here = setup(unpacked, stubs)
    tree, walker = FolderTree(root), Walker(FolderTree(root))
    oracle = Oracle(marked, here, as_written=True)
    for number, name in enumerate(UNITS):
        unit = f"{DATA}/csrc/{name}"
        report = walker.walk(TranslationUnit(unit, here), every=True)
        for world in WORLDS[number % 3 :: 3]:
            assert disagreements(tree, oracle, unit, world, report) == []


def test_a_whole_package_in_seconds(unpacked: Unpacked) -> None:
    # clang-scan-deps needs 5.65 s of CPU for these 152 units and one architecture
    root = unpacked("flashinfer-python", "0.6.3")
    units = sorted(str(p.relative_to(root)) for p in (root / DATA / "csrc").rglob("*.cu"))
    assert len(units) == 152
    here = setup(unpacked)
    start = time.process_time()
    walker = Walker(FolderTree(root))
    reports = [walker.walk(TranslationUnit(unit, here)) for unit in units]
    seconds = time.process_time() - start
    assert len(frozenset().union(*(report.files for report in reports))) > 2000
    assert seconds < 15, "about 4 s on an idle machine"


def test_the_oracle_asks_what_nvcc_runs() -> None:
    assert (toolkit() / "cuda_runtime.h").is_file()
    assert any(folder.endswith("/c++/12") for folder in host_folders())
