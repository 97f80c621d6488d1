"""Hollow kernels in machine code: kernels that are empty by construction, made by real tools."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from patcher.binary.sass import Body, bodies
from patcher.built import built_libraries
from patcher.errors import InputError

SOURCE = """
__global__ void full(float* p) { p[threadIdx.x] = 2; }
__global__ void gated(float* p) {
#if __CUDA_ARCH__ < 1200
  p[threadIdx.x] = 1;
#endif
}
__global__ void dead(int n, float* p) { int a[4]; for (int i = 0; i < 4; i++) a[i] = n; }
__global__ void trapped(float* p) { __trap(); }
__global__ void loops(volatile int* p) { while (*p) {} }
"""


@pytest.mark.nvcc
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a", "sm_120a", "sm_121a"])
def test_empty_kernels_are_told_from_real_ones(nvcc: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "k.cu").write_text(SOURCE)
    virtual = target.replace("sm_", "compute_")
    subprocess.run([nvcc, "-cubin", "-gencode", f"arch={virtual},code={target}", "-w",
                    "k.cu", "-o", "k.cubin"], cwd=tmp_path, check=True)
    found = dict(bodies(tmp_path / "k.cubin"))
    # nvcc -E: the guard is false from 1200 on, so the body is compiled away there
    gated = Body.HOLLOW if target in ("sm_120a", "sm_121a") else Body.CODE
    assert found == {"_Z4fullPf": Body.CODE, "_Z5gatedPf": gated, "_Z4deadiPf": Body.HOLLOW,
                     "_Z7trappedPf": Body.TRAP, "_Z5loopsPVi": Body.CODE}


@pytest.mark.nvcc
def test_libraries_of_a_cache_are_listed(nvcc: Path, tmp_path: Path) -> None:
    folder = tmp_path / ".cache/flashinfer/0.6.6/120a/cached_ops/demo"
    folder.mkdir(parents=True)
    (folder / "k.cu").write_text(SOURCE)
    subprocess.run([nvcc, "-shared", "-Xcompiler", "-fPIC", "-cudart", "none", "-w",
                    "-gencode", "arch=compute_120a,code=sm_120a",
                    "-gencode", "arch=compute_90a,code=sm_90a", "k.cu", "-o", "demo.so"],
                   cwd=folder, check=True)
    (one,) = built_libraries(["flashinfer-python"], {"HOME": str(tmp_path)}, [nvcc.parent])
    assert (one.path, one.archs) == (folder / "demo.so", ("sm_90a", "sm_120a"))
    if shutil.which("cuobjdump") or (nvcc.parent / "cuobjdump").exists():
        # dead and trapped on both, gated on 120a only
        assert one.idle == {"sm_90a": 2, "sm_120a": 3}
    else:
        assert one.idle is None


def test_what_is_no_cubin_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"text")
    with pytest.raises(InputError):
        list(bodies(tmp_path / "x"))
