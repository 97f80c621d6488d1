"""FlashInfer's group ``gdc``: barriers that are empty until a macro fills them.

References: flashinfer issue 2708, PRs 2780 and 2913. On plain sm_120 CUTLASS's condition
(``__CUDA_ARCH_FEAT_SM120_ALL`` or the family macro) never holds, so the macro fills nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.verify.shipped import read_proofs
from tests.verify.real import verify

pytestmark = [pytest.mark.nvcc, pytest.mark.wheels, pytest.mark.slow]

VERSIONS = ("0.6.3", "0.6.6")
ARCHS = ("sm_120a", "sm_120f", "sm_121a")
UNIT = "@generated/gemm_sm120/gemm_groupwise_e4m3_f16_majortrue_sm120.cu"
ANYWHERE = """sm-patch: 1
name: anywhere
summary: the macro, whatever the target
package: flashinfer-python
archs: [sm_120]
groups:
  - id: macro
    summary: the macro
    patches:
      - id: gemm
        affects: all
        reason: a flag reaches every target of its module
        flag:
          file: flashinfer/jit/gemm/core.py
          within: gen_gemm_sm120_module
          list: extra_cuda_cflags
          flag: -DCUTLASS_ENABLE_GDC_FOR_SM100=1
    verify:
      - unit: "@generated/gemm_sm120/gemm_groupwise_e4m3_f16_majortrue_sm120.cu"
        expect: {griddepcontrol.wait: ">0"}
"""


@pytest.fixture(scope="module")
def roots(unpacked: Callable[[str, str], Path], tmp_path_factory: pytest.TempPathFactory
          ) -> Callable[[str], Path]:
    """Each release once, so that its code for the references is compiled once."""
    folder = tmp_path_factory.mktemp("gdc")

    def root(version: str) -> Path:
        place = folder / version / "site"
        if not place.exists():
            for part in (unpacked("flashinfer-python", version),
                         unpacked("apache-tvm-ffi", "0.1.15.post2")):
                shutil.copytree(part, place, dirs_exist_ok=True, symlinks=True)
        return place

    return root


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_barrier_is_there_after_the_change_and_not_before(
    version: str, arch: str, roots: Callable[[str], Path]
) -> None:
    (row,) = verify(roots(version), "flashinfer-sm120", "--group", "gdc", code=0, arch=(arch,))
    assert (row["unit"], row["arch"], row["verdict"]) == (UNIT, arch, "ok")
    assert "griddepcontrol.wait" not in row["before"]["kernels_with"]
    assert row["after"]["kernels_with"]["griddepcontrol.wait"] == row["after"]["kernels"] > 0
    assert row["after"]["hollow"] == []


def test_on_plain_sm_120_it_stays_empty_and_the_way_out_is_told(
    roots: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "anywhere.yaml").write_text(ANYWHERE)
    (row,) = verify(roots("0.6.6"), str(tmp_path / "anywhere.yaml"), "--unit", Path(UNIT).name,
                    code=1, arch=("sm_120",))
    assert row["verdict"] == "hollow"
    assert "griddepcontrol.wait" not in row["after"]["kernels_with"]
    assert ("needs an a or f target: the same unit is real on sm_120a, sm_120f"
            in row["reasons"])
    assert row["reasons"][-1] == "griddepcontrol.wait is 0, the patchset says > 0"


@pytest.mark.parametrize("version", VERSIONS)
def test_its_proofs_are_shipped(version: str) -> None:
    proofs = read_proofs(Path("patchsets/flashinfer-sm120.proof.json"))
    assert {p.arch for p in proofs if p.unit == UNIT
            and p.package == f"flashinfer-python {version}"} >= set(ARCHS)
