"""Prebuilt GPU code, usable or not, hollow or not, in libraries that nvcc builds here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import lz4.block
import pytest
import zstandard

from patcher.arch import target
from patcher.binary.fatbin import Code, Entry, fat_binaries, loaded
from patcher.binary.packing import CannotUnpack, Packing, unpack
from patcher.binary.stubs import Stubs, stubs
from patcher.doctor.model import Status
from patcher.doctor.run import examine
from patcher.errors import InputError
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
    assert "ext: 1 kernel does nothing on 12.0" in found["stub-kernels-ext"].summary
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
    entry = loaded(tuple(Entry(code, 0, 0) for code in codes), target(device))
    assert (str(entry.code) if entry else None) == taken


# A body that prints and stops where a guard shuts it out, as CUTLASS's Sm90 kernels do on 12.x.
REFUSING = """
#include <cstdio>
__global__ void refusing(float* p) {
#if __CUDA_ARCH__ < 1200
  for (int i = 0; i < 64; ++i) p[i] = p[i] * p[i + 64] + sqrtf(p[i + 128]);
#else
  printf("ERROR : Arch conditional MMA instruction used without targeting appropriate compute "
         "capability. Aborting.\\n"); __trap();
#endif
}
"""


@pytest.fixture(scope="module")
def packed(nvcc: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same kernels in each way that nvcc packs machine code."""
    folder = tmp_path_factory.mktemp("packed")
    source = mini.write(folder / "k.cu", GUARDED + REFUSING)
    found = {}
    for mode in ("none", "size", "speed"):
        found[mode] = folder / f"{mode}.o"
        subprocess.run([nvcc, "-c", f"--compress-mode={mode}", *(
            f"-gencode=arch=compute_{t},code={t2}" for t, t2 in (
                ("90a", "sm_90a"), ("120a", "sm_120a"), ("90", "compute_90"))),
            source, "-o", found[mode]], check=True, capture_output=True)
    return found


def test_packed_code_is_what_it_was(packed: dict[str, Path]) -> None:
    """zstd by ``size``, LZ4 of the PTX by ``speed``: the bytes that ``none`` leaves open."""
    def contents(path: Path) -> dict[str, bytes]:
        (binary,) = fat_binaries(path)
        data = path.read_bytes()
        found = {}
        for entry in binary:
            raw = data[entry.offset:entry.offset + entry.size]
            found[str(entry.code)] = raw if entry.packing is None else unpack(
                raw, entry.packing, entry.unpacked, str(path))
        return {name: raw.rstrip(b"\0") for name, raw in found.items()}

    plain = contents(packed["none"])
    ways = {e.packing for mode in packed for b in fat_binaries(packed[mode]) for e in b}
    assert ways == {None, Packing.ZSTD, Packing.LZ4}
    assert contents(packed["size"]) == plain == contents(packed["speed"])


@pytest.mark.parametrize("mode", ["none", "size"])
def test_hollow_and_refusing_kernels_are_seen_through_the_packing(packed: dict[str, Path],
                                                                  mode: str) -> None:
    binaries = fat_binaries(packed[mode])
    found = stubs(packed[mode], binaries, target("sm_120a"))
    assert {s.kernel for s in found.found} == {"_Z7guardedPf", "_Z8refusingPf"}
    assert (found.looked_at, found.aborting, found.unknown) == (3, 1, 0)
    assert stubs(packed[mode], binaries, target("sm_90a")) == Stubs(looked_at=3)
    kept = stubs(packed[mode], binaries, target("sm_120a"), unpack=False)
    assert kept.unknown == (mode == "size")


def test_packed_code_is_unpacked_for_named_packages_only(packed: dict[str, Path],
                                                         tmp_path: Path) -> None:
    install(tmp_path, "ext", "ext/ops.so", packed["size"])
    results = examine(mini.surroundings(tmp_path))
    skipped = next(r for r in results if r.id == "stub-kernels-ext")
    assert skipped.status is Status.SKIPPED
    assert "ext: 1 part of its code compressed, not measured" in skipped.summary
    found = mini.findings(tmp_path, packages=("ext",))["stub-kernels-ext"]
    assert "2 kernels do nothing on 12.0 and something elsewhere" in found.summary
    assert "1 part of its code can only say that it is not for 12.0" in found.summary


@pytest.mark.parametrize(("packing", "data", "size"), [
    (Packing.ZSTD, zstandard.compress(b"x" * 100), 99),  # longer than the header says
    (Packing.ZSTD, zstandard.compress(b"x" * 100), 101),
    (Packing.ZSTD, zstandard.compress(bytes(64 << 20)), 4096),  # a bomb: 64 MiB in 2 KiB
    (Packing.ZSTD, b"\x28\xb5\x2f\xfd" + b"\xff" * 40, 100), (Packing.ZSTD, b"", 1),
    (Packing.LZ4, lz4.block.compress(b"x" * 100, store_size=False), 99),
    (Packing.LZ4, lz4.block.compress(b"x" * 100, store_size=False), 101),
    (Packing.LZ4, b"\xff" * 64, 100), (Packing.LZ4, b"", 1),
])
def test_damaged_packings_are_errors(packing: Packing, data: bytes, size: int) -> None:
    with pytest.raises(InputError):
        unpack(data, packing, size, "here")


def test_what_is_too_large_is_unknown() -> None:
    for packing in Packing:
        with pytest.raises(CannotUnpack):
            unpack(b"", packing, 1 << 40, "here")
