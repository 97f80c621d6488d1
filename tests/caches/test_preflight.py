"""What an opened gate leads to: real libraries, and machines that lack something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from patcher.arch import Target, target
from patcher.caches.aot import AotPolicy, shadowing
from patcher.errors import Exit
from patcher.preflight import (
    Builder,
    Finding,
    OpenedModule,
    PreflightRefused,
    Trouble,
    enforce,
    find_ninja,
    preflight,
)
from patcher.toolchain.model import HostCompiler, Toolkit
from tests.caches.test_fatbin import compile_to, gencode

HOST = HostCompiler(Path("/usr/bin/c++"), "12", ("/usr/include",), (), False)
SM120A, SM120F, SM121A = target("sm_120a"), target("sm_120f"), target("sm_121a")
COMM = OpenedModule("trtllm_comm")


def toolkit(version: str = "13.0", folder: Path | None = Path("/opt/cuda")) -> Toolkit:
    nvcc = folder / "bin" / "nvcc" if folder else None
    include = (str(folder / "include"),) if folder else ()
    return Toolkit(version=version, path=folder, nvcc=nvcc, include=include, system=(), host=HOST,
                   platform="x86_64", assumed=folder is None, reason="test")


READY = Builder(toolkit(), Path("/usr/bin/ninja"))


def troubles(findings: tuple[Finding, ...]) -> list[Trouble]:
    return [finding.trouble for finding in findings]


def test_a_machine_with_everything_has_no_trouble() -> None:
    assert preflight([COMM], [SM120A, SM120F, SM121A], READY, []) == ()


@pytest.mark.parametrize(("builder", "trouble", "way"), [
    (Builder(toolkit(folder=None), Path("/usr/bin/ninja")), Trouble.NO_NVCC,
     "pip install nvidia-cuda-nvcc"),
    (Builder(toolkit(), None), Trouble.NO_NINJA, "pip install ninja"),
])
def test_a_missing_tool_is_named_with_its_package(builder: Builder, trouble: Trouble,
                                                  way: str) -> None:
    (finding,) = preflight([COMM], [SM120A], builder, [])
    assert (finding.trouble, finding.module) == (trouble, "trtllm_comm")
    assert way in finding.ways_out


# Measured with ptxas 12.8.93 and 12.9.86 (data/arch.json): 120a is in 12.8, 120f and 121a are not.
@pytest.mark.parametrize(("version", "wanted", "expected"), [
    ("12.8", SM120A, []), ("12.8", SM120F, ["12.9"]), ("12.8", SM121A, ["12.9"]),
    ("12.9", SM120F, []), ("12.6", SM120A, ["12.8"]), ("13.0", SM121A, []),
])
def test_family_targets_need_a_newer_cuda(version: str, wanted: Target,
                                          expected: list[str]) -> None:
    found = preflight([COMM], [wanted], replace(READY, toolkit=toolkit(version)), [])
    assert [f.ways_out[0].removeprefix("install CUDA ") for f in found] == expected
    assert set(troubles(found)) <= {Trouble.CUDA_TOO_OLD}


@pytest.fixture
def prebuilt(tmp_path: Path, nvcc: Path) -> Callable[..., Path]:
    """An AOT folder with ``trtllm_comm`` for the given codes."""

    def build(*codes: str) -> Path:
        folder = tmp_path / "aot"
        (folder / "trtllm_comm").mkdir(parents=True)
        built = compile_to(nvcc, tmp_path / "k.so", *gencode(*codes))
        built.rename(folder / "trtllm_comm" / "trtllm_comm.so")
        return folder

    return build


@pytest.mark.nvcc
def test_a_prebuilt_module_without_code_becomes_reachable(prebuilt: Callable[..., Path]) -> None:
    modules = list(shadowing([prebuilt("sm_90a", "sm_100a")], ["trtllm_comm"]))
    (finding,) = preflight([COMM], [SM120A], READY, modules)
    assert finding.trouble is Trouble.AOT_WITHOUT_CODE
    assert "trtllm_comm.so" in finding.summary
    assert "sm_120a" in finding.summary
    assert "sm_90a sm_100a" in finding.summary
    assert finding.ways_out == ("--aot aside",)
    assert preflight([OpenedModule("norm")], [SM120A], READY, modules) == ()


@pytest.mark.nvcc
def test_one_with_code_needs_no_build(prebuilt: Callable[..., Path]) -> None:
    modules = list(shadowing([prebuilt("sm_120f")], ["trtllm_comm"]))
    bare = Builder(toolkit(folder=None), None)
    assert preflight([COMM], [SM120A, SM121A], bare, modules) == ()


@pytest.mark.nvcc
def test_set_aside_it_is_replaced_by_a_build(prebuilt: Callable[..., Path]) -> None:
    modules = list(shadowing([prebuilt("sm_90a")], ["trtllm_comm"]))
    assert preflight([COMM], [SM120A], READY, modules, AotPolicy.ASIDE) == ()
    bare = Builder(toolkit(folder=None), None)
    assert troubles(preflight([COMM], [SM120A], bare, modules, AotPolicy.ASIDE)) == [
        Trouble.NO_NVCC, Trouble.NO_NINJA]


def test_a_header_of_another_package_is_missed(tmp_path: Path) -> None:
    """cutlass_mla.cu stops at curand_kernel.h with a toolkit from pip (measured)."""
    cuda = tmp_path / "cuda"
    (cuda / "include").mkdir(parents=True)
    (cuda / "include" / "cuda_runtime.h").write_text("")
    deep = tmp_path / "include" / "deep.h"
    deep.parent.mkdir()
    deep.write_text("#include <curand_kernel.h>\n#include <ours_but_absent.h>\n")
    source = tmp_path / "mla.cu"
    source.write_text("#include <cuda_runtime.h>\n#include <deep.h>\n")
    module = OpenedModule("mla", {str(source): (str(deep.parent),)})
    builder = Builder(toolkit(folder=cuda), Path("/usr/bin/ninja"))
    (finding,) = preflight([module], [SM120A], builder, [])
    assert finding.trouble is Trouble.NO_HEADERS
    assert "curand_kernel.h" in finding.summary
    assert finding.ways_out == ("pip install nvidia-curand",)
    (cuda / "include" / "curand_kernel.h").write_text("")
    assert preflight([module], [SM120A], builder, []) == ()


def test_a_live_environment_refuses_and_an_image_warns() -> None:
    findings = preflight([COMM], [SM120A], Builder(toolkit(), None), [])
    with pytest.raises(PreflightRefused) as caught:
        enforce(findings, live=True, force=False)
    assert caught.value.exit_code is Exit.REFUSED
    assert "pip install ninja" in str(caught.value)
    assert "--force" in str(caught.value)
    enforce(findings, live=True, force=True)
    enforce(findings, live=False, force=False)
    enforce((), live=True, force=False)


def test_ninja_is_looked_for_on_path_and_beside_the_interpreter(tmp_path: Path) -> None:
    assert find_ninja([tmp_path], {"PATH": "/nonexistent"}) is None
    (tmp_path / "ninja").write_text("")
    (tmp_path / "ninja").chmod(0o755)
    assert find_ninja([tmp_path], {"PATH": "/nonexistent"}) == tmp_path / "ninja"
