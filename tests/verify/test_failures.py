"""What cannot be proved is failed, with the reason; never ok."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from patcher.arch import target
from patcher.cuda.model import Configuration, TranslationUnit
from patcher.errors import ToolFailed
from patcher.toolchain.find import find_toolkit
from patcher.toolchain.model import Toolkit
from patcher.verify.commands import device_steps
from patcher.verify.compile import Compiled, Compilers, Job, Stage, compile_job
from patcher.verify.prepare import Workshop
from patcher.verify.tools import find_tools

pytestmark = pytest.mark.nvcc


@pytest.fixture
def found(toolkit: Path) -> Toolkit:
    return find_toolkit(str(toolkit))


def test_without_nvcc_nothing_is_proved(found: Toolkit) -> None:
    with pytest.raises(ToolFailed, match="no nvcc here") as caught:
        find_tools(replace(found, nvcc=None, path=None), ())
    assert "sm-patch[nvcc]" in str(caught.value)


@pytest.mark.parametrize(("release", "name", "allowed"), [
    # ptxas 12.8 knows no f target, 12.9 does; sm_101 became sm_110 with 13.0 (arch.json)
    ("12.8.93", "sm_120f", False), ("12.9.86", "sm_120f", True),
    ("12.8.93", "sm_120a", True), ("13.0.88", "sm_101a", False),
])
def test_a_target_needs_a_release(found: Toolkit, release: str, name: str, allowed: bool) -> None:
    older = replace(found, tool=release, version=release[:4])
    if allowed:
        find_tools(older, [target(name)])
        return
    with pytest.raises(ToolFailed, match=f"does not know {name}"):
        find_tools(older, [target(name)])


def test_a_toolkit_without_cicc_is_named(found: Toolkit, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.touch()
    with pytest.raises(ToolFailed, match="this toolkit has no cicc"):
        find_tools(replace(found, path=tmp_path, nvcc=nvcc), ())


@pytest.mark.parametrize(("header", "package"), [
    ("tvm/ffi/function.h", "apache-tvm-ffi"), ("dlpack/dlpack.h", "apache-tvm-ffi"),
    ("curand_kernel_gone.h", ""), ("cudnn.h", "nvidia-cudnn-cu13"),
    ("nvshmem.h", "nvidia-nvshmem-cu13"),
])
def test_a_missing_header_names_its_package(
    header: str, package: str, nvcc: Path, tmp_path: Path
) -> None:
    (tmp_path / "unit.cu").write_text(f"#include <{header}>\n")
    shop = Workshop(tmp_path, nvcc)
    text = shop.preprocess(TranslationUnit("unit.cu", Configuration("x")), target("sm_120a"))
    assert text.text == b""
    assert f"fatal error: {header}: No such file" in text.error
    expected = f"it comes with {package}" if package else "no package that has it is known"
    assert expected in text.error


@pytest.fixture
def job(nvcc: Path, compilers: Compilers, tmp_path: Path) -> Job:
    unit = tmp_path / "unit.cu"
    unit.write_text("__global__ void k(int *p) { p[0] = 1; }\n")
    goal = target("sm_120a")
    text = subprocess.run([nvcc, goal.gencode, "-E", unit], check=True, capture_output=True)
    steps = device_steps(nvcc, goal, (), quick=True)
    return Job("", goal.name, text.stdout, steps, Stage.READ, compilers.identity)


def _with_cicc(script: str, job: Job, compilers: Compilers, folder: Path) -> Compiled:
    """The outcome when cicc is a program that ends badly in this way."""
    program = folder / "cicc"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return compile_job(job, replace(compilers, cicc=str(program)))


@pytest.mark.parametrize(("script", "words", "lasting"), [
    ("kill -SEGV $$", "cicc was ended by SIGSEGV", False),
    ("kill -KILL $$", "cicc was ended by SIGKILL (out of memory?)", False),
    ("echo 'error: the reason'; exit 2", "error: the reason", True),
    ("exit 3", "cicc failed with exit code 3", True),
])
def test_a_compiler_that_dies_is_a_failure(
    script: str, words: str, lasting: bool, job: Job, compilers: Compilers, tmp_path: Path
) -> None:
    made = _with_cicc(script, job, compilers, tmp_path)
    assert made.error == words
    assert made.lasting is lasting
    assert not made.code.kernels


def test_a_compiler_that_hangs_is_ended(job: Job, compilers: Compilers, tmp_path: Path) -> None:
    made = _with_cicc("sleep 1000 & wait", replace(job, limit=0.5), compilers, tmp_path)
    assert made.error.startswith("cicc took longer than")
    assert not made.lasting
    assert made.seconds < 10


def test_a_compiler_that_is_not_there_is_a_failure(job: Job, compilers: Compilers) -> None:
    made = compile_job(job, replace(compilers, cicc="/nonexistent/cicc"))
    assert made.error == "cannot run /nonexistent/cicc: No such file or directory"
    assert not made.lasting


def test_nvcc_refuses_what_it_does_not_know(nvcc: Path) -> None:
    with pytest.raises(ToolFailed, match="cannot build for sm_120a"):
        device_steps(nvcc, target("sm_120a"), ("--no-such-flag",), quick=True)
