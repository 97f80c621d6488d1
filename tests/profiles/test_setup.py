"""Packages that a setup.py builds: extensions, codes and flags, without running it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.arch import Capability
from patcher.package import Environment, find_package
from patcher.package.model import Package
from patcher.profiles import profile_for
from patcher.profiles.known import Known
from patcher.profiles.native import SetupBuild
from tests.profiles.test_targets import cuda

_SETUP = '''
import os
from setuptools import setup
from packaging.version import Version
from torch.utils.cpp_extension import BuildExtension, CUDAExtension, IS_HIP_EXTENSION
raise_if_run = open("/nonexistent/file/that/would/fail")

def get_cuda_bare_metal_version(home):
    raise RuntimeError("runs nvcc")

def archs():
    return os.getenv("DEMO_ARCHS", "80;120").split(";")

flags = ["-O3", "-DDEMO_FAST=1", "--threads", os.getenv("NVCC_THREADS") or "4"]
_, version = get_cuda_bare_metal_version("/cuda")
if "80" in archs():
    flags += ["-gencode", "arch=compute_80,code=sm_80"]
if version >= Version("12.8") and "120" in archs():
    flags += ["-gencode", "arch=compute_120a,code=sm_120a"]
if IS_HIP_EXTENSION:
    extensions = [CUDAExtension(name="hip_ext", sources=["csrc/hip.cu"])]
else:
    extensions = [CUDAExtension(
        name="demo_ext", sources=["csrc/bind.cpp"] + [f"csrc/k_{n}.cu" for n in (32, 64)],
        extra_compile_args={"cxx": ["-O3"], "nvcc": flags}, include_dirs=["csrc/include"])]
setup(name="demo", ext_modules=extensions, cmdclass={"build_ext": BuildExtension})
'''


@pytest.fixture
def package(tmp_path: Path) -> Package:
    for path, text in (("setup.py", _SETUP), ("demo/__init__.py", ""), ("csrc/bind.cpp", ""),
                       ("csrc/k_32.cu", ""), ("csrc/k_64.cu", ""), ("csrc/hip.cu", ""),
                       ("csrc/cutlass/examples/a.cu", ""), ("csrc/include/demo.cuh", ""),
                       ("pyproject.toml", '[project]\nname = "demo"\nversion = "1"\n')):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return find_package(str(tmp_path), Environment(None, (), None, "test"))


PROFILE = Known("demo", ("demo",), "setup", (), "")


def test_an_extension_has_its_sources_and_flags(package: Package) -> None:
    units = {u.path: u for u in SetupBuild(PROFILE).translation_units(package, cuda("13.0"))}
    assert set(units) == {"csrc/k_32.cu", "csrc/k_64.cu", "csrc/hip.cu"}
    own = units["csrc/k_32.cu"]
    assert dict(own.configuration.defines)["DEMO_FAST"] == "1"
    assert own.configuration.include == ("csrc/include",)
    assert (own.modules, own.configuration.guessed) == (("demo_ext",), False)
    assert units["csrc/hip.cu"].configuration.guessed


@pytest.mark.parametrize(("version", "served"), [
    ("13.0", [(8, 0), (8, 6), (8, 7), (8, 8), (8, 9), (12, 0)]),  # sm_80 runs on 8.x, 120a on 12.0
    ("12.6", [(8, 0), (8, 6), (8, 7), (8, 8), (8, 9)])])
def test_its_codes_are_a_gate(package: Package, version: str,
                              served: list[tuple[int, int]]) -> None:
    (gate,) = SetupBuild(PROFILE).build_gates(package, cuda(version))
    assert gate.worlds.open.capabilities == [Capability(*pair) for pair in served]
    line = _SETUP.splitlines()[gate.location.line - 1]
    assert ("sm_120a" if version == "13.0" else "sm_80") in line


@pytest.mark.parametrize("text", ["def (", "x = 1\n", "import os\nos.system('x')\n" * 3, "\0"])
def test_what_says_nothing_leaves_guessed_units(package: Package, text: str) -> None:
    (package.root / "setup.py").write_text(text)
    profile = SetupBuild(PROFILE)
    units = profile.translation_units(package, cuda("13.0"))
    assert len(units) == 4
    assert all(unit.configuration.guessed for unit in units)
    assert profile.build_gates(package, cuda("13.0")) == []


@pytest.mark.slow
def test_flash_attn(source_tree: Callable[[str, str], Path]) -> None:
    """Its setup.py lists 72 .cu files and, from CUDA 12.8 on, plain sm_80, 90, 100 and 120."""
    root = source_tree("flash-attn", "2.8.3.post2")
    package = find_package(str(root), Environment(None, (), None, "test"))
    profile = profile_for(package)
    (module,) = profile.modules(package, cuda("13.0"))
    written = {line.strip().strip('",') for line in (root / "setup.py").read_text().splitlines()
               if line.strip().startswith('"csrc/flash_attn/src/') and ".cu" in line}
    assert set(module.sources) == written
    assert len(written) == 72
    assert module.targets == ("sm_100", "sm_120", "sm_80", "sm_90")
    (gate,) = profile.build_gates(package, cuda("13.0"))
    assert {Capability(12, 0), Capability(12, 1)} <= set(gate.worlds.open.capabilities)


_GLOBBED = '''
import glob
import os
import shlex
from torch.utils.cpp_extension import CppExtension, CUDAExtension

def get_extensions():
    top = os.path.join("demo", "csrc")
    cuda = glob.glob(os.path.join(top, "**", "*.cu"), recursive=True)
    generated = glob.glob(os.path.join(top, "hip_*", "**", "*.cu"), recursive=True)
    sources = list(set(cuda) - set(generated))
    if not os.path.exists(os.path.join(os.path.dirname(__file__), "third_party")):
        raise RuntimeError("no submodule")
    extension = CppExtension
    if torch.cuda.is_available():
        extension = CUDAExtension
    flags = ["-DDEMO", "-std=c++17"] + shlex.split(os.getenv("NVCC_FLAGS", "-DMORE -O2"))
    if get_cuda_version(CUDA_HOME) >= 1300:
        flags.append("-DNEW")
    return [extension("demo._C", sorted(sources), extra_compile_args={"nvcc": flags})]

if __name__ == "__main__":
    setup(name="demo", ext_modules=get_extensions())
'''


@pytest.mark.parametrize(("version", "new"), [("12.8", False), ("13.0", True)])
def test_sources_that_a_pattern_names(tmp_path: Path, version: str, new: bool) -> None:
    """As xformers has it: ** stands for no folder, too; what is generated for HIP is left out."""
    for path, text in (("setup.py", _GLOBBED), ("demo/__init__.py", ""), ("demo/csrc/a.cu", ""),
                       ("demo/csrc/deep/er/b.cu", ""), ("demo/csrc/hip_fmha/c.cu", ""),
                       ("demo/other/d.cu", ""), ("third_party/x.h", ""),
                       ("pyproject.toml", '[project]\nname = "demo"\nversion = "1"\n')):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    package = find_package(str(tmp_path), Environment(None, (), None, "test"))
    units = SetupBuild(PROFILE).translation_units(package, cuda(version))
    exact = {u.path: dict(u.configuration.defines) for u in units if not u.configuration.guessed}
    assert set(exact) == {"demo/csrc/a.cu", "demo/csrc/deep/er/b.cu"}
    wanted = {"DEMO": "1", "MORE": "1"} | ({"NEW": "1"} if new else {})
    assert exact["demo/csrc/a.cu"].items() >= wanted.items()
    assert ("NEW" in exact["demo/csrc/a.cu"]) is new
