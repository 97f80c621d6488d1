"""FlashInfer's wheels. The right answers are those of public reports, checked by hand against
each version with ``nvcc -E`` and ``nvcc -ptx``; none is copied from a scan."""

from __future__ import annotations

import pytest

from patcher.gates import Cause, Effect, Gate, Layer, Severity
from patcher.scan.model import ModuleReport, Opening, Report
from tests.scan.conftest import Scanned

pytestmark = pytest.mark.wheels

HEADER = "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh"
UNIT = "flashinfer/data/csrc/trtllm_allreduce.cu"


def module(report: Report, name: str) -> ModuleReport:
    return next(m for m in report.modules if m.name == name)


def guards(report: Report) -> list[Gate]:
    return [g for g in report.findings if g.location.path == HEADER]


# flashinfer pull request 3903 removed exactly these gates.
@pytest.mark.parametrize("version", ["0.5.3", "0.6.3", "0.6.6"])
@pytest.mark.parametrize("device", ["sm_120a", "sm_120f", "sm_121a"])
def test_all_reduce_is_closed_by_a_list_and_thirteen_guards(
    scanned: Scanned, version: str, device: str
) -> None:
    report = scanned(version, device, "trtllm_comm")
    python = [g for g in report.findings
              if g.layer is Layer.PYTHON and g.within == "gen_trtllm_comm_module"]
    assert [g.location.path for g in python] == ["flashinfer/jit/comm.py"]
    assert {c.major for c in python[0].worlds.open.capabilities} == {9, 10}

    by_effect = {g.effect: g for g in guards(report)}
    assert {effect: g.count for effect, g in by_effect.items()} == {
        Effect.SYNC: 12,
        Effect.KERNEL_BODY: 1,
    }
    body = by_effect[Effect.KERNEL_BODY]
    assert (body.location.line, body.location.end_line) == (711, 788)
    assert body.names == ("lamport_style_one_shot_all_reduce_norm_kernel",)
    assert body.severity is Severity.CRITICAL
    assert all(g.units == (UNIT,) for g in guards(report))
    assert all(g.via == (UNIT, HEADER) for g in guards(report))
    assert all(g.opened_by == "flashinfer-sm120/trtllm-comm" for g in [*python, *guards(report)])


@pytest.mark.parametrize("version", ["0.5.3", "0.6.3", "0.6.6"])
def test_opening_the_list_alone_by_function(scanned: Scanned, version: str) -> None:
    """480 of 480 lamport kernels are a bare ``ret`` in the PTX then; the fusion's are whole."""
    report = scanned(version, "sm_120a", "trtllm_comm")
    gate = next(g for g in report.findings if g.within == "gen_trtllm_comm_module")
    results = {
        function: row.result
        for row in module(report, "trtllm_comm").opens_alone
        if row.gate == gate.id
        for function in row.functions
    }
    assert results["trtllm_custom_all_reduce"] is Opening.HOLLOW
    assert results["trtllm_allreduce_fusion"] is Opening.OK
    rows = module(report, "trtllm_comm").opens_alone
    assert any(e.line == 711 for r in rows if r.result is Opening.HOLLOW for e in r.evidence)


def test_answers_hold_without_a_toolkit(scanned: Scanned) -> None:
    report = scanned("0.6.3", "sm_120a", "trtllm_comm", cuda="12.9")
    assert report.toolchain.version == "12.9"
    assert report.toolchain.path is None
    assert {g.effect: g.count for g in guards(report)} == {
        Effect.SYNC: 12,
        Effect.KERNEL_BODY: 1,
    }


def test_a_ladder_that_handles_the_target_earlier_excludes_nothing(scanned: Scanned) -> None:
    """csrc/xqa/mha.cu near 98 and csrc/xqa/utils.cuh near 50 list 1200 and 1210 first."""
    whole = scanned("0.6.3", "sm_120a")
    paths = {"flashinfer/data/csrc/xqa/mha.cu": range(90, 110),
             "flashinfer/data/csrc/xqa/utils.cuh": range(45, 60)}
    near = [g for g in whole.findings for line in g.lines
            if line in paths.get(g.location.path, ())]
    assert not near


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.6.17"])
def test_later_releases_have_opened_it(scanned: Scanned, version: str) -> None:
    report = scanned(version, "sm_120f", "trtllm_comm", "trtllm_mnnvl_comm", "mixed_comm")
    assert not guards(report)
    assert not [g for g in report.findings if g.within == "gen_trtllm_comm_module"]
    assert not [g for g in report.findings if g.opened_by == "flashinfer-sm120/trtllm-comm"]


@pytest.mark.slow
def test_what_is_excluded_on_purpose_says_so(scanned: Scanned) -> None:
    report = scanned("0.7.4", "sm_120f", "trtllm_comm", "trtllm_mnnvl_comm", "mixed_comm")
    gate = next(g for g in report.findings if g.within == "gen_trtllm_mnnvl_comm_module")
    assert gate.cause is Cause.INTENDED
    assert "intentionally excluded" in " ".join(e.text for e in gate.evidence)
    assert gate.severity is Severity.INFO
    assert gate.opened_by is None
    mixed = next(g for g in report.findings if g.within == "gen_mixed_comm_module")
    assert mixed.opened_by is None


# flashinfer issue 2708; pull request 2780 gave the GEMM modules the flag, 2913 the MoE modules.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "lacking"),
    [
        ("0.6.6", {"fused_moe_120", "gemm_sm120", "fp4_gemm_cutlass_sm120"}),
        ("0.6.7", {"fused_moe_120"}),
        ("0.6.8", set()),
    ],
)
def test_sm120_modules_that_launch_with_pdl_lack_the_flag(
    scanned: Scanned, version: str, lacking: set[str]
) -> None:
    report = scanned(version, "sm_120a")
    found = [g for g in report.findings if g.layer is Layer.BUILD and g.rule == "pdl-barrier-flag"]
    of_sm120 = {name for g in found for name in g.modules if name.endswith("120")}
    assert of_sm120 == lacking
    for gate in found:
        assert gate.condition == "-DCUTLASS_ENABLE_GDC_FOR_SM100=1"  # never the SM90 flag
        assert {"sm_120a", "sm_120f", "sm_121a"} <= set(gate.worlds.closed.names)
        if gate.modules[0] in lacking:
            assert gate.severity is Severity.CRITICAL
            assert gate.opened_by == "flashinfer-sm120/gdc"
    copy = "nv_internal/tensorrt_llm/cutlass_extensions/include/cutlass_extensions/arch/"
    assert any(f"{copy}grid_dependency_control.h is reached by no unit" in note
               for note in report.notes)


@pytest.mark.slow
def test_plain_sm_120_needs_more_than_the_flag(scanned: Scanned) -> None:
    report = scanned("0.6.6", "sm_120", "gemm_sm120")
    gate = next(g for g in report.findings if g.rule == "pdl-barrier-flag")
    assert "needs sm_120a or sm_120f" in gate.evidence[0].text
