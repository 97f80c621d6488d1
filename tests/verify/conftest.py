"""The real compilers, and results kept apart from the user's."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.toolchain.find import find_toolkit
from patcher.verify.compile import Compilers
from patcher.verify.store import Store
from patcher.verify.tools import find_tools


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compilers really run, whatever is installed here and whatever it remembers."""
    monkeypatch.setenv("SM_PATCH_LAUNCHER", "none")


@pytest.fixture
def compilers(toolkit: Path) -> Compilers:
    """cicc and ptxas of the real toolkit."""
    return find_tools(find_toolkit(str(toolkit)), ()).compilers


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A cache of results that begins empty."""
    return Store(tmp_path / "results")


@pytest.fixture(scope="session")
def nvdisasm() -> Path:
    """NVIDIA's disassembler: on PATH, or of the pip package nvidia-cuda-nvdisasm."""
    wheel = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin" / "nvdisasm"
    found = shutil.which("nvdisasm") or (str(wheel) if wheel.is_file() else None)
    if found is None:
        message = "nvdisasm is not here; `pip install nvidia-cuda-nvdisasm`"
        if os.environ.get("CI"):
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    return Path(str(found))


@pytest.fixture(scope="session")
def curand(nvcc: Path) -> Path:
    """The folder of curand's headers, which the compiler's own pip packages lack."""
    places = [Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "include",
              nvcc.resolve().parent.parent / "include",
              *map(Path, filter(None, os.environ.get("CPATH", "").split(":")))]
    for place in places:
        if (place / "curand_kernel.h").is_file():
            return place
    pytest.skip("curand_kernel.h is not here; `pip install nvidia-curand`")


@pytest.fixture
def site(unpacked: Callable[[str, str], Path], tmp_path: Path) -> Callable[[str], Path]:
    """``site("0.6.3")``: that FlashInfer beside the headers it needs; nothing writes into it."""

    def make(version: str) -> Path:
        place = tmp_path / "site"
        for folder in (unpacked("flashinfer-python", version),
                       unpacked("apache-tvm-ffi", "0.1.15.post2")):
            shutil.copytree(folder, place, dirs_exist_ok=True, symlinks=True)
        return place

    return make


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A package whose kernels are guarded against 12.x, in a root of its own."""
    root = tmp_path / "site"
    for path, text in TOY.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return root


TOY = {
    "toy/__init__.py": "",
    "toy/csrc/body.cuh": """#pragma once
template <int N> __device__ void body(int *p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
  asm volatile("griddepcontrol.wait;" ::: "memory");
  p[threadIdx.x] += N;
#endif
}
""",
    "toy/csrc/guarded.cu": """#include "body.cuh"
template <int N> __global__ void guarded(int *p) {
  body<N>(p);
}
template __global__ void guarded<1>(int *);
template __global__ void guarded<2>(int *);
__global__ void plain(int *p) { p[0] = 1; }
""",
    "toy/csrc/other.cu": "__global__ void other(int *p) { p[0] = 2; }\n",
    "toy-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n",
    "toy-1.0.dist-info/RECORD": "toy/__init__.py,,\ntoy/csrc/body.cuh,,\n"
                                "toy/csrc/guarded.cu,,\ntoy/csrc/other.cu,,\n",
    "../toy.yaml": """sm-patch: 1
name: toy
summary: Open the toy's kernels
package: toy
archs: [sm_120a, sm_121a]
groups:
  - id: body
    summary: the body
    patches:
      - id: guard
        cuda-guard:
          file: toy/csrc/body.cuh
          condition: defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
          open: ["12.0", "12.1"]
    verify:
      - unit: toy/csrc/guarded.cu
        expect: {hollow: 0, griddepcontrol.wait: 2}
""",
}
