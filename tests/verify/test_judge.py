"""Kernels of known outcome, compiled by the real nvcc: the truth is written beside each source."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from patcher.verify.judge import Verdict, judge_kernels
from patcher.verify.ptx import Ptx, parse_ptx, stable_name

pytestmark = pytest.mark.nvcc

# Each source holds one kernel `k`. HOLLOW ones lose on sm_120a what sm_100a has.
HOLLOW = {
    "whole body guarded": """
        __global__ void k(int *p) {
        #if __CUDA_ARCH__ < 1200
          p[threadIdx.x] = 1;
        #endif
        }""",
    "body replaced by a trap": """
        __global__ void k(int *p) {
        #if __CUDA_ARCH__ < 1200
          p[threadIdx.x] = 1;
        #else
          __trap();
        #endif
        }""",
    "body replaced by an assert": """
        #include <cassert>
        __global__ void k(int *p) {
        #if __CUDA_ARCH__ < 1200
          p[threadIdx.x] = 1;
        #else
          assert(false && "not for this device");
        #endif
        }""",
    "wrapper prints CUTLASS's text": """
        #include <cstdio>
        __device__ void mma(int *p) {
        #if __CUDA_ARCH__ < 1200
          *p = 2;
        #else
          printf("ERROR : Arch conditional MMA instruction used without targeting "
                 "appropriate compute capability. Aborting.\\n");
        #endif
        }
        __global__ void k(int *p) { mma(p); p[1] = 1; }""",
    "wrapper asserts as CuTe does": """
        #include <cassert>
        #include <cstdio>
        __device__ void mma(int *p) {
        #if __CUDA_ARCH__ < 1200
          *p = 2;
        #else
          assert(0 && "Attempting to use SM100_MMA without CUTE_ARCH_MMA_SM100A_ENABLED");
          printf("Attempting to use SM100_MMA without CUTE_ARCH_MMA_SM100A_ENABLED");
          asm volatile("brkpt;");
        #endif
        }
        __global__ void k(int *p) { mma(p); p[1] = 1; }""",
    "dependency barrier emptied": """
        __device__ void barrier() {
        #if __CUDA_ARCH__ < 1200
          asm volatile("griddepcontrol.wait;" ::: "memory");
        #endif
        }
        __global__ void k(int *p) { barrier(); p[threadIdx.x] = 1; }""",
    "device function emptied": """
        __device__ __noinline__ void publish(int *p) {
        #if __CUDA_ARCH__ < 1200
          atomicAdd(p, 1);
        #endif
        }
        __global__ void k(int *p) { publish(p); p[1] = 1; }""",
    "only a copy of its parameter is left": """
        struct Big { int n; int v[64]; int *out; };
        __global__ void k(Big b) {
          Big mine = b;
          mine.v[threadIdx.x & 63] = 3;
        #if __CUDA_ARCH__ < 1200
          b.out[0] = mine.v[b.n & 63];
        #endif
        }""",
    "exists on the reference only": """
        #if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 1200
        __global__ void k(int *p) { p[0] = 1; }
        #endif""",
}
GOOD = {
    "same body everywhere": "__global__ void k(int *p) { p[threadIdx.x] = 1; }",
    "intentionally empty": "__global__ void k() {}",
    "one store": "__global__ void k(int *p) { *p = 0; }",
    "another way on the target": """
        __global__ void k(int *p) {
        #if __CUDA_ARCH__ < 1200
          atomicAdd(p, 1);
        #else
          p[threadIdx.x] += 1;
        #endif
        }""",
    "asserts its input on every target": """
        #include <cassert>
        __global__ void k(int *p, int n) { assert(n > 0); p[0] = n; }""",
    "traps on bad input on every target": """
        __global__ void k(int *p, int n) { if (n < 0) __trap(); p[0] = n; }""",
    "prints for debugging": """
        #include <cstdio>
        __global__ void k(int *p) { printf("value %d\\n", *p); }""",
    "keeps its dependency barrier": """
        __global__ void k(int *p) {
          asm volatile("griddepcontrol.wait;" ::: "memory"); p[threadIdx.x] = 1; }""",
    "only waits, everywhere": """
        __global__ void k() { asm volatile("griddepcontrol.wait;" ::: "memory"); }""",
    "more work on the target": """
        __global__ void k(int *p) {
          p[0] = 1;
        #if __CUDA_ARCH__ >= 1200
          atomicAdd(p, 1);
        #endif
        }""",
    "works through a local array": """
        __global__ void k(int *p, int n) {
          int v[32]; for (int i = 0; i < 32; i++) v[i] = p[i]; p[n & 31] = v[(n + 1) & 31]; }""",
}


@pytest.fixture(params=["quick", "full"])
def compile_for(request: pytest.FixtureRequest, tmp_path: Path, nvcc: Path):  # type: ignore[no-untyped-def]
    effort = ["-Xcicc", "-O0"] if request.param == "quick" else ["-O3"]

    def compile_one(source: str, arch: str) -> Ptx:
        unit, output = tmp_path / "unit.cu", tmp_path / f"{arch}.ptx"
        unit.write_text(source)
        gencode = f"-gencode=arch=compute_{arch},code=sm_{arch}"
        subprocess.run([nvcc, *effort, gencode, "-ptx", unit, "-o", output], check=True)
        return parse_ptx(output.read_text())

    return compile_one


# Unoptimised code keeps calls to emptied functions, so both efforts judge that; the
# optimiser removes such a call without a trace.
QUICK_ONLY = {"device function emptied"}


@pytest.mark.parametrize("name", HOLLOW)
def test_hollow_kernels_are_never_called_ok(name: str, compile_for, request) -> None:  # type: ignore[no-untyped-def]
    if name in QUICK_ONLY and "full" in request.node.callspec.id:
        return
    kernels = judge_kernels(
        compile_for(HOLLOW[name], "120a"), {"sm_100a": compile_for(HOLLOW[name], "100a")}
    )
    assert [k.verdict for k in kernels] == [Verdict.HOLLOW], kernels
    assert kernels[0].reason


@pytest.mark.parametrize("name", GOOD)
def test_good_kernels_are_never_called_hollow(name: str, compile_for) -> None:  # type: ignore[no-untyped-def]
    kernels = judge_kernels(
        compile_for(GOOD[name], "120a"), {"sm_100a": compile_for(GOOD[name], "100a")}
    )
    assert [k.verdict for k in kernels] == [Verdict.OK], kernels


@pytest.mark.parametrize("name", HOLLOW)
def test_the_reference_itself_is_ok(name: str, compile_for) -> None:  # type: ignore[no-untyped-def]
    reference = compile_for(HOLLOW[name], "100a")
    assert all(k.verdict is Verdict.OK for k in judge_kernels(reference, {"sm_90a": reference}))


def test_internal_names_lose_only_their_hash() -> None:
    first = "_ZN50_INTERNAL_018579d9_19_trtllm_allreduce_cu_f36eb1177triggerEv"
    other = "_ZN50_INTERNAL_aaaaaaaa_19_trtllm_allreduce_cu_bbbbbbbb7triggerEv"
    assert stable_name(first) == stable_name(other) != first
    assert stable_name("_Z1kPi") == "_Z1kPi"
