"""Reported cases in vLLM's sources. Lines are read off the files with grep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.arch import ArchSet
from patcher.gates import Cause, Effect, Gate, Layer
from patcher.python.find import excludes, find_gates, hardware_only
from patcher.scan.model import Options, Report
from patcher.scan.together import together
from patcher.tree import FolderTree
from tests.scan.conftest import scan_root

pytestmark = [pytest.mark.wheels, pytest.mark.slow]
SourceTree = Callable[[str, str], Path]
C3X = "csrc/quantization/w8a8/cutlass/c3x"
MARLIN = {
    ("csrc/moe/marlin_moe_wna16/generate_kernels.py", 22),
    ("csrc/quantization/marlin/generate_kernels.py", 22),
    ("vllm/model_executor/layers/quantization/utils/marlin_utils.py", 481),
    ("csrc/moe/marlin_moe_wna16/ops.cu", 449),
    ("csrc/quantization/marlin/marlin.cu", 403),
}


@pytest.fixture(scope="module")
def report(source_tree: SourceTree) -> Callable[[str], Report]:
    known: dict[str, Report] = {}

    def of(device: str) -> Report:
        if device not in known:
            known[device] = scan_root(source_tree("vllm", "0.18.0"), "vllm", device, Options())
        return known[device]

    return of


def wrapper(report: Report, name: str) -> list[Gate]:
    return [g for g in report.findings if g.within == f"{name}::operator()"]


def test_c4_a_wrapper_that_traps_names_its_two_users(report: Callable[[str], Report]) -> None:
    """vllm PR 35568: ``== 1200`` traps on 12.1; the blockwise kernel wraps in the family."""
    (gate,) = wrapper(report("sm_121a"), "enable_sm120_only")
    assert gate.location.path == "csrc/cutlass_extensions/common.hpp"
    assert (gate.effect, gate.layer) == (Effect.TRAP, Layer.PREPROCESSOR)
    users = {(e.path, e.line) for e in gate.evidence if "wrapped in" in e.text}
    assert users == {(f"{C3X}/scaled_mm.cuh", 205), (f"{C3X}/scaled_mm_sm120_fp8_dispatch.cuh", 73)}
    assert wrapper(report("sm_121a"), "enable_sm120_family") == []


def test_c4_nothing_for_12_0(report: Callable[[str], Report]) -> None:
    assert wrapper(report("sm_120a"), "enable_sm120_only") == []


def test_c5_marlins_five_places_are_one_decision(report: Callable[[str], Report]) -> None:
    """The Marlin part of the same report: 8.9 and 12.0 in Python, in two scripts and in C++."""
    (row,) = [r for r in together(report("sm_121a").gates) if r.name == "marlin"]
    assert [str(c) for c in row.passes] == ["8.9", "12.0"]
    assert {(g.location.path, g.location.line) for g in row.gates} == MARLIN


def test_c5_nothing_for_12_0(report: Callable[[str], Report]) -> None:
    places = {(g.location.path, g.location.line) for g in report("sm_120a").findings}
    assert not places & MARLIN
    assert not [r for r in together(report("sm_120a").gates) if r.name == "marlin"]


def test_c5_a_table_of_launch_bounds_is_no_gate(report: Callable[[str], Report]) -> None:
    """launch_bounds_utils.h lists 1210 in an arm of its own."""
    for device in ("sm_120a", "sm_121a"):
        assert not [g for g in report(device).findings
                    if g.location.path == "csrc/launch_bounds_utils.h"]


@pytest.fixture(scope="module")
def old(source_tree: SourceTree) -> list[Gate]:
    return find_gates(FolderTree(source_tree("vllm", "0.16.0")), "vllm")


def closed_for_12(gates: list[Gate], path: str) -> list[Gate]:
    own = [g for g in gates if g.location.path == f"vllm/{path}"]
    return [g for g in own if excludes(g, ArchSet.of("sm_120a"), ArchSet.of("sm_90a", "sm_100a"))]


def test_c15_a_docstring_is_not_code(old: list[Gate]) -> None:
    """The table that line 137 of config/compilation.py shows stands in a docstring."""
    assert not [g for g in old if g.location.path == "vllm/config/compilation.py"
                and 130 <= g.location.line <= 160]


def test_c16_a_misleading_name_is_no_finding(old: list[Gate]) -> None:
    """``is_sm100 = has_device_capability(100)`` is true on 12.x."""
    path = "model_executor/layers/fused_moe/triton_cutlass_moe.py"
    assert closed_for_12(old, path) == []


def test_c17_flashmla_is_hardware(old: list[Gate]) -> None:
    """``capability.major in [9, 10]``: its kernels are wgmma and tcgen05 code."""
    (gate,) = [g for g in closed_for_12(old, "v1/attention/backends/mla/flashmla.py")
               if g.location.line == 74]
    assert gate.cause is Cause.HARDWARE
    assert hardware_only(gate, list(ArchSet.of("sm_120a")))
