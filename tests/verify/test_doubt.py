"""What is empty on every target looked at: only the source can tell that it should not be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patcher.verify.doubt import conditional_lines

BARRIER = """__device__ __forceinline__
void wait_for(int n = 2)
{
#if defined(BARRIER_ON)
  asm volatile("griddepcontrol.wait;" ::: "memory");
#else
  // "asm volatile" in a comment
#endif
}
__global__ void next() {
#if defined(BARRIER_ON)
  p[0] = 1;
#endif
}
"""


def lines(name: str, number: int, text: str = BARRIER) -> list[str]:
    return [s.strip() for s in
            conditional_lines(name, f"a.cuh:{number}", lambda path: text.splitlines())]


@pytest.mark.parametrize("number", [1, 2])
def test_a_body_is_searched_to_its_end(number: int) -> None:
    assert lines("_Z8wait_fori", number) == [
        'asm volatile("griddepcontrol.wait;" ::: "memory");', ""]


def test_a_head_without_the_name_is_not_searched() -> None:
    assert lines("_Z5otherv", 1) == []
    assert lines("_Z5otherv", 1, "MAKE(other);\nvoid b() {\n#if X\n  c();\n#endif\n}\n") == []


def test_both_arms_may_open_a_brace() -> None:
    text = ("void f(int n) {\n#if A\n  if (n) {\n#else\n  if (!n) {\n#endif\n    g(); }\n}\n"
            "void h() {\n")
    assert lines("_Z1fi", 1, text + "#if A\n  k();\n#endif\n}\n") == ["if (n) {", "if (!n) {"]


@pytest.mark.parametrize("place", ["a.cuh", "a.cuh:0", "a.cuh:99", ""])
def test_no_such_place_has_no_lines(place: str) -> None:
    assert list(conditional_lines("_Z1fv", place, lambda path: ["void f() {"])) == []


def verify(toy: Path, text: str, code: int) -> Any:
    (toy / "toy/csrc/other.cu").write_text(text)
    environ = {**os.environ, "XDG_CACHE_HOME": str(toy.parent / "cache")}
    run = subprocess.run(
        [sys.executable, "-m", "patcher", "verify", "toy", "--unit", "other.cu", "--root", toy,
         "--arch", "sm_121a", "--format", "json"],
        capture_output=True, text=True, check=False, env=environ)
    assert run.returncode == code, run.stderr
    (row,) = json.loads(run.stdout)["units"]
    return row


@pytest.mark.nvcc
def test_a_barrier_that_is_empty_everywhere_is_told(toy: Path) -> None:
    # FlashInfer issue 2708: without CUTLASS's macro the barrier is empty on every target
    row = verify(toy, BARRIER[:BARRIER.index("__global__")]
                 + "__global__ void k(int *p) { wait_for(); p[0] = 1; }\n", 0)
    assert row["verdict"] == "ok"
    (reason,) = row["reasons"]
    assert reason.startswith("not known whether on purpose: empty here and on every reference")
    assert "_Z8wait_fori (toy/csrc/other.cu:" in reason


@pytest.mark.nvcc
def test_what_only_reads_or_logs_is_no_doubt(toy: Path) -> None:
    row = verify(toy, """
        __device__ int rank() {
        #if __CUDA_ARCH__ >= 800
          int n; asm volatile("mov.u32 %0, %%laneid;" : "=r"(n)); return n;
        #else
          return 0;
        #endif
        }
        __device__ void log_barrier(int n) {
        #if defined(LOGGING)
          printf("bar.sync of barrier %d", n);
        #endif
        }
        __global__ void k(int *p) { log_barrier(1); p[0] = rank(); }
        """, 0)
    assert (row["verdict"], row["reasons"]) == ("ok", [])


@pytest.mark.nvcc
@pytest.mark.parametrize("body", [
    "__global__ void k(int *p) {\n#if __CUDA_ARCH__ == 1200\n  p[0] = 1;\n#endif\n}\n",
    ("__device__ void work(int *p) {\n#if __CUDA_ARCH__ == 1200\n  p[0] = 1;\n#endif\n}\n"
     "__global__ void k(int *p) { work(p); }\n"),
])
def test_a_kernel_that_is_empty_everywhere_is_hollow(body: str, toy: Path) -> None:
    # vllm PR 35568: what lets only 12.0 in is empty on 12.1, and on 9.0 and 10.0, too
    row = verify(toy, body, 1)
    assert row["verdict"] == "hollow"
    (reason,) = row["reasons"]
    assert "stands under a condition that holds for no target looked at" in reason


@pytest.mark.nvcc
def test_a_kernel_that_is_meant_to_be_empty_is_not(toy: Path) -> None:
    row = verify(toy, '#include <cstdio>\n__global__ void warm_up(int *p) {\n#ifdef DEBUG\n'
                      '  printf("warm");\n#endif\n}\n', 0)
    assert (row["verdict"], row["reasons"]) == ("ok", [])
