"""Prebuilt GPU code, usable or not, hollow or not, in libraries that nvcc builds here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from patcher.arch import target
from patcher.binary.fatbin import Code, Entry, fat_binaries, loaded
from patcher.binary.stubs import stubs
from patcher.doctor.model import Status
from tests.doctor import mini

pytestmark = pytest.mark.nvcc
# A body that a guard shuts out on 12.x, long enough to tell from a return, and one that is open.
GUARDED = """
__global__ void guarded(float* p) {
#if __CUDA_ARCH__ < 1200
  for (int i = 0; i < 64; ++i) p[i] = p[i] * p[i + 64] + sqrtf(p[i + 128]);
#endif
}
__global__ void open(float* p) { p[threadIdx.x] += 1.f; }
"""


@pytest.fixture(scope="module")
def built(nvcc: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Libraries by what they hold; uncompressed, so that they can be measured."""
    folder = tmp_path_factory.mktemp("built")
    source = mini.write(folder / "k.cu", GUARDED)
    found = {}
    for name, targets in {"both": ("90a", "120a"), "old": ("90a",)}.items():
        found[name] = folder / f"{name}.so"
        gencode = [f"-gencode=arch=compute_{t},code=sm_{t}" for t in targets]
        subprocess.run([nvcc, "-shared", "-Xcompiler", "-fPIC", "--compress-mode=none", *gencode,
                        source, "-o", found[name]], check=True, capture_output=True)
    return found


def install(site: Path, name: str, path: str, library: Path) -> None:
    (site / path).parent.mkdir(parents=True, exist_ok=True)
    (site / path).hardlink_to(library)
    mini.dist(site, name, "1.0", path)


def test_a_prebuilt_module_without_code_for_the_gpu(built: dict[str, Path], tmp_path: Path) -> None:
    """FlashInfer's AOT modules win over its source, so this one ends in "no kernel image"."""
    install(tmp_path, "flashinfer-jit-cache", "flashinfer_jit_cache/jit_cache/m/m.so", built["old"])
    found = mini.findings(tmp_path)["gpu-code-flashinfer_jit_cache"]
    assert (found.status, found.summary) == (
        Status.ERROR, "flashinfer_jit_cache has no code for 12.0")
    # nvcc's own link step adds the second container
    assert "m.so: 0 of 2 usable; holds sm_90a" in found.evidence[0]
    assert "no kernel image is available" in found.evidence[1]
    assert not mini.findings(tmp_path, "sm_90a")


def test_a_stub_is_told_from_code_by_its_size(built: dict[str, Path], tmp_path: Path) -> None:
    install(tmp_path, "ext", "ext/ops.so", built["both"])
    found = mini.findings(tmp_path)
    assert found.keys() == {"stub-kernels-ext"}
    assert "1 kernel of ext does nothing on 12.0" in found["stub-kernels-ext"].summary
    assert "guarded(float*)" in found["stub-kernels-ext"].evidence[0]
    assert not mini.findings(tmp_path, "sm_90a")
    (stub,) = stubs(built["both"], fat_binaries(built["both"]), target("sm_120a")).found
    assert stub.kernel == "_Z7guardedPf"
    assert str(stub.other) == "sm_90a"


def test_modules_in_the_jit_cache_for_another_gpu(built: dict[str, Path], tmp_path: Path) -> None:
    site, home = tmp_path / "site", tmp_path / "home"
    mini.flashinfer(site)
    module = home / ".cache/flashinfer/0.7.4/90a/cached_ops/m"
    module.mkdir(parents=True)
    mini.write(module / "build.ninja")
    (module / "m.so").hardlink_to(built["old"])
    found = mini.findings(site, image=False, HOME=str(home), PATH="/usr/bin:/usr/local/bin")
    assert "1 of 1 built FlashInfer modules have no code for 12.0" in found["jit-cache"].summary
    (module / "m.so").unlink()
    (module / "m.so").hardlink_to(built["both"])
    assert "jit-cache" not in mini.findings(site, image=False, HOME=str(home))


# Machine code before PTX, the most specific first: CUDA C++ Programming Guide, "Compatibility".
@pytest.mark.parametrize(("held", "device", "taken"), [
    (["sm_120", "sm_120a", "sm_120f", "compute_120"], "sm_120a", "sm_120a"),
    (["sm_120", "sm_120f", "compute_120"], "sm_121a", "sm_120f"),
    (["sm_120", "compute_120"], "sm_121a", "sm_120"),
    (["sm_120a", "compute_90"], "sm_121a", "compute_90"),
    (["sm_90a", "sm_100f"], "sm_120a", None),
])
def test_what_a_device_loads(held: list[str], device: str, taken: str | None) -> None:
    codes = [Code(int("".join(filter(str.isdigit, name))), name[-1] if name[-1] in "af" else "",
                  name.startswith("compute")) for name in held]
    entry = loaded(tuple(Entry(code, 0, 0, False) for code in codes), target(device))
    assert (str(entry.code) if entry else None) == taken
