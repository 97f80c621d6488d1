"""``sm-patch verify`` as typed, on a toy package with a hollow kernel of known shape.

The truth is in tests/verify/conftest.py: two of three kernels lose their whole body, and a
griddepcontrol.wait each, on 12.x; the patchset gives both back and leaves other targets alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from patcher.arch import known_targets
from tests.verify.interrupted import users_of, wait_for_cicc, write_slow

pytestmark = pytest.mark.nvcc


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Caches and temporary files of its own, so that what is left behind can be seen."""
    (tmp_path / "tmp").mkdir()
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "TMPDIR": str(tmp_path / "tmp")}


def verify(toy: Path, environ: dict[str, str], *arguments: str, code: int = 0) -> Any:
    """The JSON document of one run, whose exit code must be this."""
    run = subprocess.run(
        [sys.executable, "-m", "patcher", "verify", *arguments, "--root", toy, "--arch", "sm_120a",
         "--format", "json"], capture_output=True, text=True, check=False, env=environ)
    assert run.returncode == code, run.stderr
    return json.loads(run.stdout)


def patchset(toy: Path) -> str:
    return str(toy.parent / "toy.yaml")


def test_before_is_hollow_and_after_is_not(toy: Path, environ: dict[str, str]) -> None:
    (row,) = verify(toy, environ, patchset(toy))["units"]
    assert (row["unit"], row["arch"], row["verdict"]) == (
        "toy/csrc/guarded.cu", "sm_120a", "ok")
    assert [k["name"] for k in row["before"]["hollow"]] == ["_Z7guardedILi1EEvPi",
                                                            "_Z7guardedILi2EEvPi"]
    assert row["after"]["hollow"] == []
    assert row["before"]["kernels_with"] == {}
    assert row["after"]["kernels_with"] == {"griddepcontrol.wait": 2}
    assert row["unchanged"] == ["host", "sm_90a", "sm_100a"]


def test_full_effort_compares_every_other_target(toy: Path, environ: dict[str, str]) -> None:
    rows = verify(toy, environ, patchset(toy), "--effort", "full")["units"]
    assert {row["arch"]: row["verdict"] for row in rows} == {"sm_120a": "ok", "sm_121a": "ok"}
    # nvcc of any release from 13.0 on knows these
    newer = {t.name for t in known_targets() if t.since is not None and t.since > "13.0"}
    others = {t.name for t in known_targets() if t.number // 10 != 12 and t.until is None}
    assert {"host", *(others - newer)} <= set(rows[0]["unchanged"])
    assert rows[0]["changed"] == []
    assert 0 < rows[0]["after"]["resources"]["registers"] <= 255


@pytest.mark.parametrize(("kernel", "told"), [
    ("__global__ void k(int *p) { p[0] = 1; }", True),  # nobody calls what is filled
    ("__global__ void k(int *p) { wait(); p[0] = 1; }", False)])
def test_a_change_that_no_kernel_notices_is_told(
    kernel: str, told: bool, toy: Path, environ: dict[str, str]
) -> None:
    (toy / "toy/csrc/body.cuh").write_text(
        "__device__ void wait() {\n  int nothing;\n}\n")
    (toy / "toy/csrc/guarded.cu").write_text(f'#include "body.cuh"\n{kernel}\n')
    text = (toy.parent / "toy.yaml").read_text()
    guard = text[text.index("        cuda-guard:"):]
    edit = ("{file: toy/csrc/body.cuh, find: int nothing;, count: 1, "
            "replace: 'asm volatile(\"griddepcontrol.wait;\");'}")
    (toy.parent / "toy.yaml").write_text(text.replace(
        guard, f"        affects: all\n        reason: a test\n        text: {edit}\n"))
    (row,) = verify(toy, environ, patchset(toy))["units"]
    assert (row["unit"], row["verdict"]) == ("toy/csrc/guarded.cu", "ok")
    assert ("no kernel has other instructions than before the change" in row["reasons"]) is told


def test_what_would_not_be_applied_is_not_proved(toy: Path, environ: dict[str, str]) -> None:
    # claims to concern only 12.x, but edits a line that other targets compile: against the law
    text = (toy.parent / "toy.yaml").read_text()
    guard = text[text.index("        cuda-guard:"):text.index("    verify:")]
    edit = "{file: toy/csrc/body.cuh, find: '+= N', replace: '+= N + 1', count: 1}"
    (toy.parent / "toy.yaml").write_text(text.replace(guard, f"        text: {edit}\n"))
    run = subprocess.run(
        [sys.executable, "-m", "patcher", "verify", patchset(toy), "--root", toy, "--arch",
         "sm_120a"], capture_output=True, text=True, check=False, env=environ)
    assert run.returncode == 3
    assert run.stdout == ""
    assert "group body would not be applied here" in run.stderr


def test_a_package_is_judged_as_it_is(toy: Path, environ: dict[str, str]) -> None:
    rows = verify(toy, environ, "toy", code=1)["units"]
    assert {row["unit"]: row["verdict"] for row in rows} == {
        "toy/csrc/guarded.cu": "hollow", "toy/csrc/other.cu": "ok"}
    (reason,) = rows[0]["reasons"]
    assert reason == ("2 of 2 guarded: its body is empty (present on sm_100a), "
                      "toy/csrc/guarded.cu:2")


def test_an_expectation_that_does_not_hold_fails(toy: Path, environ: dict[str, str]) -> None:
    text = (toy.parent / "toy.yaml").read_text()
    (toy.parent / "toy.yaml").write_text(text.replace("griddepcontrol.wait: 2", "mma: '>0'"))
    (row,) = verify(toy, environ, patchset(toy), code=1)["units"]
    assert row["verdict"] == "failed"
    assert row["reasons"] == ["mma is 0, the patchset says > 0"]


def test_the_second_answer_comes_from_the_cache(toy: Path, environ: dict[str, str]) -> None:
    first = verify(toy, environ, patchset(toy))
    started = time.process_time()
    second = verify(toy, environ, patchset(toy))
    assert time.process_time() - started < 2
    assert [row["cached"] for row in second["units"]] == [True]
    for document in (first, second):
        for row in document["units"]:
            del row["cached"]
    assert first == second


@pytest.mark.parametrize("change", ["header", "patchset"])
def test_what_decides_the_answer_renews_it(
    change: str, toy: Path, environ: dict[str, str]
) -> None:
    verify(toy, environ, patchset(toy))
    path = toy / "toy/csrc/body.cuh" if change == "header" else Path(patchset(toy))
    text = path.read_text()
    path.write_text(text.replace("+= N;", "+= N; p[64] = 9;") if change == "header"
                    else text.replace("griddepcontrol.wait: 2", "griddepcontrol.wait: 3"))
    document = verify(toy, environ, patchset(toy), code=0 if change == "header" else 1)
    cached = [row["cached"] for row in document["units"]]
    assert cached == [change == "patchset"]  # the code is known, its verdict is not


def test_a_unit_that_does_not_compile_fails_and_the_others_go_on(
    toy: Path, environ: dict[str, str]
) -> None:
    (toy / "toy/csrc/broken.cu").write_text("__global__ void b(int *p) { nonsense(p); }\n")
    rows = verify(toy, environ, "toy", code=1)["units"]
    verdicts = {row["unit"]: row for row in rows}
    assert verdicts["toy/csrc/other.cu"]["verdict"] == "ok"
    broken = verdicts["toy/csrc/broken.cu"]
    assert broken["verdict"] == "failed"
    assert 'identifier "nonsense" is undefined' in broken["reasons"][0]
    assert broken["reasons"][0].startswith("toy/csrc/broken.cu(1)")


def test_an_instruction_the_target_lacks_fails_with_its_line(
    toy: Path, environ: dict[str, str]
) -> None:
    (toy / "toy/csrc/other.cu").write_text(
        "__global__ void w(int *p) {\n  p[0] = 1;\n"
        '  asm volatile("wgmma.fence.sync.aligned;");\n}\n')
    rows = {row["unit"]: row for row in verify(toy, environ, "toy", code=1)["units"]}
    row = rows["toy/csrc/other.cu"]
    assert row["verdict"] == "failed"
    (reason,) = row["reasons"]
    assert reason == ("toy/csrc/other.cu:3: ptxas: Instruction 'wgmma.fence' not supported on "
                      ".target 'sm_120a'")


@pytest.mark.parametrize("effort", ["quick", "full"])
def test_too_much_static_shared_memory_fails(
    effort: str, toy: Path, environ: dict[str, str]
) -> None:
    # 4 bytes over the 101,376 that ptxas 13.0 names as the most of sm_120a; sm_100a has more
    (toy / "toy/csrc/other.cu").write_text(
        "__global__ void s(int *p) { __shared__ int v[25345]; v[threadIdx.x] = p[0]; "
        "__syncthreads(); p[1] = v[p[2]]; }\n")
    rows = {row["unit"]: row
            for row in verify(toy, environ, "toy", "--effort", effort, code=1)["units"]}
    row = rows["toy/csrc/other.cu"]
    assert row["verdict"] == "failed"
    assert "too much shared data" in row["reasons"][0]


def test_a_plain_target_is_told_what_it_needs(toy: Path, environ: dict[str, str]) -> None:
    (toy / "toy/csrc/other.cu").write_text(
        "#include <cstdio>\n__global__ void t(int *p) {\n"
        "#ifdef __CUDA_ARCH_FAMILY_SPECIFIC__\n  p[0] = 1;\n#else\n"
        '  printf("Trying to use tma without CUTE_ARCH_TMA_SM90_ENABLED.");\n#endif\n}\n')
    run = subprocess.run(
        [sys.executable, "-m", "patcher", "verify", "toy", "--unit", "other.cu", "--root", toy,
         "--arch", "sm_120"], capture_output=True, text=True, check=False, env=environ)
    assert run.returncode == 1
    assert "needs an a or f target: the same unit is real on sm_120a, sm_120f" in run.stdout


def _compiling(toy: Path, environ: dict[str, str], instances: int, *before: str,
               executor: str = "local") -> subprocess.Popen[bytes]:
    """A verification that has come to cicc."""
    write_slow(toy, instances)
    process = subprocess.Popen(
        [*before, sys.executable, "-m", "patcher", "verify", "toy", "--unit", "other.cu",
         "--root", toy, "--arch", "sm_120a", "--jobs", "1", "--executor", executor],
        env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for_cicc(process, environ["TMPDIR"])
    return process


@pytest.mark.parametrize(("executor", "number"), [
    ("local", signal.SIGINT), ("local", signal.SIGTERM),
    pytest.param("local", signal.SIGHUP, marks=pytest.mark.slow),
    pytest.param("dask", signal.SIGINT, marks=pytest.mark.slow),
    pytest.param("dask", signal.SIGTERM, marks=pytest.mark.slow),
])
def test_an_interrupt_leaves_nothing_behind(
    executor: str, number: signal.Signals, toy: Path, environ: dict[str, str]
) -> None:
    process = _compiling(toy, environ, 4000, executor=executor)  # cicc works for many seconds
    process.send_signal(number)
    _, messages = process.communicate(timeout=40)
    assert process.returncode == 130
    assert "sm-patch: interrupted" in messages.decode()
    assert number is signal.SIGINT or number.name in messages.decode()  # who ended it is told
    assert users_of(environ["TMPDIR"]) == []
    assert os.listdir(environ["TMPDIR"]) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_run_is_not_interrupted_when_its_compiler_is(
    number: signal.Signals, toy: Path, environ: dict[str, str]
) -> None:
    process = _compiling(toy, environ, 400)
    for pid in users_of(environ["TMPDIR"], "bin/cicc"):
        os.kill(pid, number)
    output, messages = process.communicate(timeout=120)
    # cicc itself answers these two with an error of its own, after which it is asked once more
    again = number in (signal.SIGINT, signal.SIGTERM) and process.returncode == 0
    assert again or process.returncode == 1, messages.decode()
    assert again or f"cicc was ended by {number.name}" in output.decode()


@pytest.mark.slow
def test_a_run_in_the_background_outlives_its_terminal(
    toy: Path, environ: dict[str, str]
) -> None:
    process = _compiling(toy, environ, 400, "nohup")
    process.send_signal(signal.SIGHUP)  # ignored by nohup, and so by us
    _, messages = process.communicate(timeout=120)
    assert process.returncode == 0, messages.decode()
