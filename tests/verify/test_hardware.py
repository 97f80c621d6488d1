"""Units of FlashInfer 0.6.3 that compile, or not, for a GPU that lacks their instructions.

Facts: tcgen05 is no instruction of 12.x (PTX ISA), and CUTLASS's wrappers of it then print and
trap, with exit code 0 of nvcc; the toolkit's wrapper of tensormap.replace is declared and never
defined where it is missing, so ptxas ends with an unresolved function.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.verify.real import verify

pytestmark = [pytest.mark.nvcc, pytest.mark.wheels, pytest.mark.slow]


@pytest.fixture
def root(site: Callable[[str], Path]) -> Path:
    return site("0.6.3")


@pytest.mark.parametrize("unit", ["@generated/tgv_gemm_bf16/tgv_gemm_bf16_64x8_6.cu",
                                  "flashinfer/data/csrc/tgv_gemm.cu"])
def test_tgv_gemm_compiles_and_is_hollow(unit: str, root: Path, curand: Path) -> None:
    (row,) = verify(root, "flashinfer:tgv_gemm_bf16", "--unit", unit, code=1, CPATH=str(curand))
    assert (row["unit"], row["verdict"]) == (unit, "hollow")
    assert row["after"]["error"] == ""  # nvcc has no objection
    assert len(row["after"]["hollow"]) == row["after"]["kernels"] > 0
    assert "without CUTE_ARCH_TCGEN05_TMEM_ENABLED" in row["reasons"][0]


def test_the_hardware_s_mla_compiles_and_is_hollow(root: Path, curand: Path) -> None:
    (row,) = verify(root, "flashinfer:mla", "--unit", "cutlass_mla.cu", code=1,
                    CPATH=str(curand))
    assert (row["verdict"], row["after"]["error"]) == ("hollow", "")
    assert "without CUTE_ARCH_TCGEN05" in " ".join(row["reasons"])


def test_gdn_prefill_fails_in_ptxas(root: Path) -> None:
    (row,) = verify(root, "flashinfer:gdn_prefill_sm90", "--unit",
                    "gdn_prefill_kernel_half_g0b0a0i0.cu", code=1)
    assert row["verdict"] == "failed"
    assert "ptxas: " in row["reasons"][0]
    assert "not_supported_before_SM_90a" in row["reasons"][0] or "wgmma" in row["reasons"][0]


def test_the_router_gemm_is_real(root: Path) -> None:
    (row,) = verify(root, "flashinfer:dsv3_router_gemm", code=0)
    assert (row["verdict"], row["after"]["kernels"], row["reasons"]) == ("ok", 32, [])


def test_the_router_gemm_is_real_through_ptxas(root: Path) -> None:
    (row,) = verify(root, "flashinfer:dsv3_router_gemm", "--effort", "full", code=0)
    assert (row["verdict"], row["after"]["kernels"]) == ("ok", 32)
    assert 0 < row["after"]["resources"]["registers"] <= 255


def test_a_missing_header_is_named_with_its_package(root: Path, tmp_path: Path) -> None:
    if os.environ.get("CPATH"):
        pytest.skip("CPATH may hold the header")
    (row,) = verify(root, "flashinfer:mla", "--unit", "cutlass_mla.cu", code=1, kept=False)
    if row["verdict"] == "hollow":
        pytest.skip("this toolkit has curand_kernel.h")
    assert row["verdict"] == "failed"
    assert "curand_kernel.h" in row["reasons"][0]
    assert "nvidia-curand (pip install nvidia-curand)" in row["reasons"][0]
