"""A fence that one other device alone has, and that a comment says is for it, is meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.gates import Cause, Layer, Severity
from patcher.scan.model import Options
from tests.scan.conftest import scan_root

UNIT = """
__device__ void arrive(int *p) {
%s
  *p = 1;
}
__global__ void kernel(int *p) { arrive(p); }
"""
FENCE = "  __threadfence_block();\n#endif"


@pytest.mark.parametrize(("lines", "meant"), [
    ("#if __CUDA_ARCH__ == 1210\n  // GB10 does not honor the order\n" + FENCE, True),
    ("  // only sm_121 needs this\n#if __CUDA_ARCH__ == 1210\n" + FENCE, True),
    ("#if __CUDA_ARCH__ == 1210  // DGX Spark\n" + FENCE, True),
    ("#if __CUDA_ARCH__ == 1210\n  // the order is not honored\n" + FENCE, False),
    ("#if __CUDA_ARCH__ == 1210\n  // as on sm_1210 and x121\n" + FENCE, False),
    # others have it, too: it is lost on the target, whatever a comment names
    ("#if __CUDA_ARCH__ == 1210 || __CUDA_ARCH__ == 900\n  // GB10\n" + FENCE, False),
])
def test_a_measure_for_one_device(tmp_path: Path, lines: str, meant: bool) -> None:
    (tmp_path / "made-1.dist-info").mkdir()
    (tmp_path / "made-1.dist-info" / "METADATA").write_text("Name: made\nVersion: 1\n")
    (tmp_path / "made-1.dist-info" / "RECORD").write_text("made/__init__.py,,\nmade/a.cu,,\n")
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "__init__.py").touch()
    (tmp_path / "made" / "a.cu").write_text(UNIT % lines)
    report = scan_root(tmp_path, "made", "sm_120f", Options(frozenset({Layer.PREPROCESSOR})))
    (gate,) = (g for g in report.gates if g.location.path == "made/a.cu" and g.excludes_target)
    assert (gate.cause is Cause.INTENDED) is meant
    assert (gate.severity is Severity.INFO) is meant


@pytest.mark.slow
@pytest.mark.wheels
def test_the_fences_of_xqa_for_12_1(unpacked: Callable[[str, str], Path]) -> None:
    """FlashInfer 0.7.4: ``GB10 (sm121) does not reliably honor the mbarrier release ordering``."""
    units = tuple(f"flashinfer/data/csrc/xqa/{name}.cu" for name in ("mha", "mha_sm90"))
    report = scan_root(unpacked("flashinfer-python", "0.7.4"), "flashinfer", "sm_120f",
                       Options(frozenset({Layer.PREPROCESSOR}), units=units))
    found = [g for g in report.gates if g.condition == "__CUDA_ARCH__ == 1210"]
    assert {g.location.path.rpartition("/")[2] for g in found} == {"barriers.cuh", "mha.cu"}
    assert {(g.cause, g.severity) for g in found} == {(Cause.INTENDED, Severity.INFO)}
    assert all("GB10" in g.evidence[0].text for g in found)
