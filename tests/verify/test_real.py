"""FlashInfer itself: half a change makes 480 kernels hollow, the whole one none.

References: flashinfer PR 3903 (the guards), flashinfer issue 2708 (the barrier), and the numbers
of the kernels' own templates: lamport_style_one_shot_all_reduce_norm_kernel has 480 instances,
921 kernels are in trtllm_allreduce.cu, 918 of them wait for the grid before on sm_100a.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.verify.real import cpu_seconds, verify

pytestmark = [pytest.mark.nvcc, pytest.mark.wheels, pytest.mark.slow]

UNIT = "flashinfer/data/csrc/trtllm_allreduce.cu"
PYTHON_ONLY = """sm-patch: 1
name: python-only
summary: the gate alone
package: flashinfer-python
archs: [sm_120a]
groups:
  - id: gate
    summary: the gate alone
    patches:
      - id: majors
        python-gate:
          file: flashinfer/jit/comm.py
          within: gen_trtllm_comm_module
          gate: supported_major_versions
          open: ["12.0", "12.1"]
"""


@pytest.fixture(params=["0.6.3", "0.6.6"])
def root(request: pytest.FixtureRequest, site: Callable[[str], Path]) -> Path:
    """Both releases."""
    return site(request.param)


def test_half_a_change_is_hollow_and_the_whole_is_not(root: Path, tmp_path: Path) -> None:
    started = cpu_seconds()
    (row,) = verify(root, "flashinfer-sm120", "--group", "trtllm-comm", code=0)
    assert cpu_seconds() - started < 60  # on a cold cache
    assert (row["unit"], row["verdict"], row["after"]["kernels"]) == (UNIT, "ok", 921)
    assert row["after"]["hollow"] == []
    assert row["before"]["kernels_with"].get("griddepcontrol.wait", 0) == 0
    assert row["after"]["kernels_with"]["griddepcontrol.wait"] == 918
    assert {"host", "sm_90a", "sm_100a"} <= set(row["unchanged"])
    assert row["changed"] == []

    half = tmp_path / "half.yaml"
    half.write_text(PYTHON_ONLY)
    rows = {row["unit"]: row for row in verify(root, str(half), code=1)}
    reasons = rows[UNIT]["reasons"]
    assert rows[UNIT]["verdict"] == "hollow"
    assert reasons[0].startswith(
        "480 of 480 lamport_style_one_shot_all_reduce_norm_kernel: its body is empty")
    assert rows["flashinfer/data/csrc/trtllm_allreduce_fusion.cu"]["verdict"] == "ok"


def test_the_router_gemm_is_real(root: Path) -> None:
    (row,) = verify(root, "flashinfer:dsv3_router_gemm", code=0)
    assert (row["verdict"], row["after"]["kernels"]) == ("ok", 32)


def test_full_effort_says_the_same_of_the_code_that_would_run(
    site: Callable[[str], Path], tmp_path: Path
) -> None:
    half = tmp_path / "half.yaml"
    half.write_text(PYTHON_ONLY)
    (row,) = verify(site("0.6.3"), str(half), "--effort", "full", "--unit", Path(UNIT).name, code=1)
    assert (row["verdict"], row["after"]["kernels"]) == ("hollow", 921)
    assert row["reasons"][0].startswith(
        "480 of 480 lamport_style_one_shot_all_reduce_norm_kernel: its body is empty")
    assert 0 < row["after"]["resources"]["registers"] <= 255  # it went through ptxas
    # nvcc of any release from 13.0 on knows these, and a gate in Python changes no code of theirs
    assert {"host", "sm_75", "sm_90a", "sm_100a", "sm_103f"} <= set(row["unchanged"])
    assert row["changed"] == []
