"""SGLang's run-time kernels: what its calls of load_jit compile, without running them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.arch import HOST, Target, known_targets, target
from patcher.cuda.predefined import ToolkitMacros
from patcher.cuda.walk import Walker
from patcher.package import Environment, find_package
from patcher.package.model import Package
from patcher.profiles import profile_for
from patcher.profiles.sglang import SGLang
from tests.profiles.test_targets import cuda

_UTILS = '''
FLAG = "-DSGL_CUDA_ARCH=1200"
def load_jit(*args, cuda_files=None, extra_cuda_cflags=None, header_only=True): ...
def make_cpp_args(*args): ...
'''
_KERNELS = '''
from sglang.kernels.jit.utils import load_jit, make_cpp_args, is_hip_runtime

_FILE = "norm.cuh"
EXTRA = {"fp8": ["-DUSE_FP8=1"]}

def _norm(dim, dtype):
    args = make_cpp_args(dim, dtype)
    return load_jit("norm", *args, cuda_files=[_FILE], extra_cuda_cflags=EXTRA["fp8"])

def _by_size(size):
    return load_jit(f"copy_{size}", cuda_files=[f"copy_{size}.cuh"])

def _hip():
    if is_hip_runtime():
        return load_jit("hip", cuda_files=["hip.cuh"])
    return load_jit("whole", cuda_files=["whole.cu"], header_only=False)

def _checked(arch):
    if arch < 9:
        raise RuntimeError("too old")
    return load_jit("checked", cuda_files=["norm.cuh"])
'''
_HEADER = '''#ifndef SGL_CUDA_ARCH
#error name it
#endif
#if SGL_CUDA_ARCH >= 1000 && SGL_CUDA_ARCH < 1200
int ten;
#elif SGL_CUDA_ARCH >= 1200
int twelve;
#endif
'''


@pytest.fixture
def package(tmp_path: Path) -> Package:
    home = tmp_path / "sglang" / "kernels"
    for path, text in (
        ("jit/utils.py", _UTILS), ("jit/__init__.py", ""), ("__init__.py", ""),
        ("ops.py", _KERNELS), ("../__init__.py", ""), ("jit/csrc/norm.cuh", _HEADER),
        ("jit/csrc/copy_8.cuh", ""), ("jit/csrc/copy_16.cuh", ""), ("jit/csrc/hip.cuh", ""),
        ("jit/csrc/whole.cu", ""), ("jit/csrc/left.cu", ""), ("jit/include/sgl_kernel/a.cuh", ""),
    ):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(text)
    return find_package("sglang", Environment(None, (tmp_path,), None, "test", root=tmp_path))


def test_each_call_is_a_module_with_its_sources_and_flags(package: Package) -> None:
    profile = profile_for(package)
    assert isinstance(profile, SGLang)
    modules = {module.name: module for module in profile.modules(package, cuda("13.0"))}
    assert set(modules) == {"norm", "copy", "whole", "checked"}  # nothing is built for HIP
    assert modules["norm"].flags == ("-DUSE_FP8=1",)
    assert re.fullmatch(modules["norm"].uri, "sgl_kernel_jit_norm_64_true")
    assert modules["whole"].sources == ("sglang/kernels/jit/csrc/whole.cu",)
    (template,) = modules["copy"].templates
    named = re.findall(r'#include "(.*)"', template.content.decode())
    assert named == ["sglang/kernels/jit/csrc/copy_16.cuh", "sglang/kernels/jit/csrc/copy_8.cuh"]


def test_units_are_the_generated_ones_and_every_other_source(package: Package) -> None:
    profile = profile_for(package)
    units = {u.path: u for u in profile.translation_units(package, cuda("13.0"))}
    assert set(units) == {"@generated/norm/cuda.cu", "@generated/copy/cuda.cu",
                          "@generated/checked/cuda.cu", "sglang/kernels/jit/csrc/whole.cu",
                          "sglang/kernels/jit/csrc/left.cu"}
    configuration = units["@generated/norm/cuda.cu"].configuration
    assert not configuration.guessed
    assert ("USE_FP8", "1") in configuration.defines
    assert configuration.std == "c++20"
    assert units["sglang/kernels/jit/csrc/left.cu"].configuration.guessed


def test_the_architecture_macro_has_each_devices_value(package: Package) -> None:
    """-DSGL_CUDA_ARCH is ten times the number of the device that compiles: __CUDA_ARCH__ there."""
    profile = profile_for(package)
    unit = next(u for u in profile.translation_units(package, cuda("13.0"))
                if u.path == "@generated/norm/cuda.cu")
    walker = Walker(profile.tree(package, cuda("13.0")),
                    toolkit=ToolkitMacros("13.0", "x86_64", None))
    report = walker.walk(unit, every=True)
    arms = {line: state for (path, line), (state, *_) in report.arms.items()
            if path.endswith("norm.cuh")}

    def passing(line: int) -> set[Target]:
        return {t for t in known_targets() if arms[line].open >> t.index & 1}

    assert passing(1) == set()
    assert passing(4) == {t for t in known_targets() if 100 <= t.number < 120}
    assert passing(6) == {t for t in known_targets() if t.number >= 120}
    assert not arms[1].open & 1 << _host()
    assert arms[4].unknown >> _host() & 1


def _host() -> int:
    from patcher.arch import ArchSet

    return ArchSet.of(HOST).bits.bit_length() - 1


@pytest.mark.wheels
def test_the_modules_of_a_real_wheel(unpacked: Callable[[str, str], Path]) -> None:
    """All files that its sources name in calls, found by their text."""
    root = unpacked("sglang", "0.5.9")
    package = find_package("sglang", Environment(None, (root,), None, "test", root=root))
    profile = profile_for(package)
    modules = profile.modules(package, cuda("13.0"))
    texts = [t.content.decode() for m in modules for t in m.templates]
    named = {n for text in texts for n in re.findall(r'#include "(.*)"', text)}
    calls = [path for path in root.rglob("sglang/**/*.py")
             if b"load_jit(" in path.read_bytes() and path.name != "utils.py"]
    written = {name for path in calls
               for name in re.findall(r'"([\w/-]+\.cuh)"', path.read_text())}
    assert {n.removeprefix("sglang/jit_kernel/csrc/") for n in named} == written
    assert profile.resolve_target("12.0", package, cuda("13.0")).target == target("sm_120a")
