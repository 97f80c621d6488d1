"""DeepGEMM's units on a small tree of its shape; its driver is csrc/jit/compiler.hpp upstream."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patcher.cli import main
from patcher.errors import Exit
from patcher.package import Environment, find_package
from patcher.package.model import Package
from patcher.profiles import profile_for
from patcher.profiles.deepgemm import DeepGEMM
from tests.profiles.test_targets import cuda

GUARD = "#if (defined(__CUDA_ARCH__) and (__CUDA_ARCH__ {})) or defined(__CLION_IDE__)\n"
KERNEL = "#include <deep_gemm/common/types.cuh>\n__global__ void {}_impl(int *p) {{\n" + GUARD \
    + "*p = 1;\n#endif\n}}\n"


@pytest.fixture
def package(tmp_path: Path) -> Package:
    """Two kernels, one of them for 9.0 alone, as installed."""
    include = tmp_path / "deep_gemm" / "include" / "deep_gemm"
    (include / "impls").mkdir(parents=True)
    (include / "common").mkdir()
    (include / "common" / "types.cuh").touch()
    (include / "impls" / "sm90_gemm.cuh").write_text(KERNEL.format("sm90_gemm", "== 900"))
    (include / "impls" / "sm120_gemm.cuh").write_text(KERNEL.format("sm120_gemm", ">= 1200"))
    (tmp_path / "deep_gemm" / "__init__.py").touch()
    metadata = tmp_path / "sgl_deep_gemm-0.2.5.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: sgl-deep-gemm\nVersion: 0.2.5\n")
    (metadata / "top_level.txt").write_text("deep_gemm\n")
    (metadata / "RECORD").write_text("deep_gemm/__init__.py,,\n")
    return find_package("sgl-deep-gemm", Environment(None, (tmp_path,), None, "test"))


def test_each_header_of_kernels_is_a_unit_and_a_module(package: Package) -> None:
    profile = profile_for(package)
    assert isinstance(profile, DeepGEMM)
    units = profile.translation_units(package, cuda("13.0"))
    assert {unit.path: unit.content for unit in units} == {
        "@generated/sm90_gemm/kernel.cu": b"#include <deep_gemm/impls/sm90_gemm.cuh>\n",
        "@generated/sm120_gemm/kernel.cu": b"#include <deep_gemm/impls/sm120_gemm.cuh>\n"}
    assert {unit.configuration.include[0] for unit in units} == {"deep_gemm/include"}
    assert {unit.configuration.std for unit in units} == {"c++20"}
    assert [m.name for m in profile.modules(package, cuda("13.0"))] == ["sm120_gemm", "sm90_gemm"]
    assert "deepgemm_new" in profile.cache_ids()
    assert "decided in C++, in its prebuilt library" in " ".join(profile.about(package))


@pytest.mark.parametrize(("device", "version", "name"), [
    ("12.0", "13.0", "sm_120a"), ("12.1", "13.0", "sm_121a"), ("9.0", "13.0", "sm_90a"),
    # get_arch of device_runtime.hpp: one word for 10.0 and 10.3, a family where nvcc knows it
    ("10.0", "12.8", "sm_100a"), ("10.3", "12.9", "sm_100f"), ("10.0", "13.0", "sm_100f"),
])
def test_the_target_is_the_one_that_its_driver_asks_for(
        package: Package, device: str, version: str, name: str) -> None:
    assert profile_for(package).resolve_target(device, package, cuda(version)).target.name == name


def test_a_scan_reads_the_guards_that_are_spelled_in_words(package: Package) -> None:
    """By hand: on 12.0 the body guarded by == 900 is gone, the other one is there."""
    answer = package.root / "answer.json"
    assert main(["scan", "sgl-deep-gemm", "--root", str(package.root), "--arch", "sm_120a",
                 "--cuda", "13.0", "--format", "json", "--output", str(answer)]) == Exit.DONE
    gates = json.loads(answer.read_text())["gates"]
    assert [(gate["path"], gate["effect"], gate["modules"]) for gate in gates] == [
        ("deep_gemm/include/deep_gemm/impls/sm90_gemm.cuh", "kernel-body", ["sm90_gemm"])]
