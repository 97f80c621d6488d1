"""Kernels of known outcome, compiled by the real nvcc: the truth is written beside each source."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.arch import target
from patcher.verify.commands import device_steps
from patcher.verify.compile import Compilers, Job, Stage, compile_job
from patcher.verify.flow import stable_name
from patcher.verify.judge import Built, Verdict, judge_kernels
from patcher.verify.kernels import Code

pytestmark = pytest.mark.nvcc
Compile = Callable[..., Code]

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
    "inlined function emptied": """
        __device__ __forceinline__ void publish(int *p) {
        #if __CUDA_ARCH__ < 1200
          atomicAdd(p, 1);
        #endif
        }
        __global__ void k(int *p) { publish(p); p[1] = 1; }""",
    "only stack objects are left, built by calls": """
        struct Fragment {
          int v[8];
          __device__ __forceinline__ Fragment(int n) { for (int i = 0; i < 8; i++) v[i] = n; }
          __device__ __forceinline__ int &operator[](int i) { return v[i]; }
        };
        __global__ void k(int *p, int n) {
          Fragment f(n);
          f[n & 7] = 3;
        #if __CUDA_ARCH__ < 1200
          p[0] = f[1];
        #endif
        }""",
    "every way ends in a trap": """
        __device__ void refuse() { asm volatile("trap;"); }
        __global__ void k(int *p) {
          p[1] = 1;
        #if __CUDA_ARCH__ < 1200
          p[0] = 2;
        #else
          refuse();
        #endif
        }""",
    "matrix instruction dropped without a word": """
        __global__ void k(float *p) {
          float d[4] = {p[0], p[1], p[2], p[3]}; unsigned a[2] = {1, 2}, b = 3;
        #if __CUDA_ARCH__ < 1200
          asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
              "{%0,%1,%2,%3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
              : "r"(a[0]), "r"(a[1]), "r"(b));
        #endif
          p[threadIdx.x] = d[0]; }""",
    "behind a function that returns a constant": """
        __device__ int level() { return __CUDA_ARCH__; }
        __global__ void k(int *p) { if (level() < 1200) p[threadIdx.x] = 1; }""",
    "behind a constant that is handed on": """
        struct Chip { __device__ bool has() const { return __CUDA_ARCH__ < 1200; } };
        __device__ bool known() { return Chip().has(); }
        __global__ void k(int *p) { if (!known()) return; p[threadIdx.x] = 1; }""",
    "one of two conditions is a constant": """
        __device__ int level() { return __CUDA_ARCH__; }
        __global__ void k(int *p, int n) {
          bool go = n > 2; go = go && level() < 1200; if (go) p[n] = 1; }""",
    "its barrier is a comment of the assembly": """
        __device__ __forceinline__ void barrier() {
        #if __CUDA_ARCH__ < 1200
          asm volatile("griddepcontrol.wait;" ::: "memory");
        #else
          asm volatile("/* griddepcontrol.wait; */" ::: "memory");
        #endif
        }
        __global__ void k(int *p) { barrier(); p[threadIdx.x] = 1; }""",
    "some of its stores are gone": """
        __global__ void k(int *p) {
          p[0] = 1;
        #if __CUDA_ARCH__ < 1200
          p[threadIdx.x + 1] = p[7];
        #endif
        }""",
    "its atomics are gone": """
        __global__ void k(int *p) {
          p[1] = 1;
        #if __CUDA_ARCH__ < 1200
          atomicAdd(p, 1);
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
    "computes without matrix instructions instead": """
        __global__ void k(float *p) {
          float d[4] = {p[0], p[1], p[2], p[3]}; unsigned a[2] = {1, 2}, b = 3;
        #if __CUDA_ARCH__ < 1200
          asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
              "{%0,%1,%2,%3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
              : "r"(a[0]), "r"(a[1]), "r"(b));
        #else
          for (int i = 0; i < 4; i++) d[i] = fmaf(p[i + 4], p[i + 8], d[i]);
        #endif
          p[threadIdx.x] = d[0]; }""",
    "writes through a returned reference": """
        struct View { int *p; __device__ __forceinline__ int &at(int i) { return p[i]; } };
        __global__ void k(View v, int n) { v.at(n) = 1; }""",
    "writes through a pointer argument": """
        __device__ __noinline__ void put(int *p) { *p = 1; }
        __global__ void k(int *p) { put(p + 1); }""",
    "drops a hint only": """
        __device__ __forceinline__ void hint(int *p) {
        #if __CUDA_ARCH__ < 1200
          asm volatile("prefetch.global.L2 [%0];" :: "l"(p));
        #endif
        }
        __global__ void k(int *p) { hint(p + 64); p[0] = 1; }""",
    "wider stores, and so fewer": """
        __global__ void k(int4 *p, int *q) {
        #if __CUDA_ARCH__ < 1200
          q[0] = 1; q[1] = 2; q[2] = 3; q[3] = 4;
        #else
          p[0] = int4{1, 2, 3, 4};
        #endif
        }""",
    "behind a function that returns a constant, which holds": """
        __device__ int level() { return __CUDA_ARCH__; }
        __global__ void k(int *p) { if (level() > 900) p[threadIdx.x] = 1; }""",
    "a loop over a constant that a function returns": """
        __device__ int count() { return 4; }
        __global__ void k(int *p) { for (int i = 0; i < count(); i++) p[i] = i; }""",
    "works through a local array": """
        __global__ void k(int *p, int n) {
          int v[32]; for (int i = 0; i < 32; i++) v[i] = p[i]; p[n & 31] = v[(n + 1) & 31]; }""",
}


@pytest.fixture
def compile_for(compilers: Compilers, nvcc: Path, tmp_path: Path) -> Compile:
    """Code of a source for a target, unoptimised or as it would run."""

    def compile_one(source: str, arch: str, stage: Stage = Stage.READ) -> Code:
        unit = tmp_path / "unit.cu"
        unit.write_text(source)
        goal = target(arch)
        text = subprocess.run([nvcc, goal.gencode, "-E", unit], check=True, capture_output=True)
        steps = device_steps(nvcc, goal, (), quick=stage is Stage.READ)
        job = Job("", arch, text.stdout, steps, stage, compilers.identity)
        made = compile_job(job, compilers)
        assert not made.error
        return made.code

    return compile_one


@pytest.mark.parametrize("name", HOLLOW)
def test_hollow_kernels_are_never_called_ok(name: str, compile_for: Compile) -> None:
    kernels = judge_kernels(
        compile_for(HOLLOW[name], "sm_120a"), {"sm_100a": compile_for(HOLLOW[name], "sm_100a")}
    )
    assert [k.verdict for k in kernels] == [Verdict.HOLLOW], kernels
    assert kernels[0].reason


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("stage", Stage)
def test_good_kernels_are_never_called_hollow(
    name: str, stage: Stage, compile_for: Compile
) -> None:
    code, reference = compile_for(GOOD[name], "sm_120a"), compile_for(GOOD[name], "sm_100a")
    built = None
    if stage is Stage.BUILD:
        built = Built(*(compile_for(GOOD[name], arch, stage) for arch in ("sm_120a", "sm_100a")))
    kernels = judge_kernels(code, {"sm_100a": reference}, built)
    assert [k.verdict for k in kernels] == [Verdict.OK], kernels


def test_what_always_traps_is_hollow_though_the_references_do_so_too(compile_for: Compile) -> None:
    # vllm PR 35568: a wrapper that lets only 12.0 in, and traps everywhere else
    source = """
        template <class Kernel> struct only_1200 {
          __device__ void operator()(int *p) {
        #if __CUDA_ARCH__ == 1200
            Kernel()(p);
        #else
            asm("trap;");
        #endif
          }
        };
        struct Real { __device__ void operator()(int *p) { p[0] = 1; } };
        __global__ void k(int *p) { only_1200<Real>()(p); }"""
    other = {"sm_100a": compile_for(source, "sm_100a"), "sm_90a": compile_for(source, "sm_90a")}
    (kernel,) = judge_kernels(compile_for(source, "sm_121a"), other)
    assert kernel.verdict is Verdict.HOLLOW
    (kernel,) = judge_kernels(compile_for(source, "sm_120a"), other)
    assert kernel.verdict is Verdict.OK


@pytest.mark.parametrize("name", HOLLOW)
def test_the_reference_itself_is_ok(name: str, compile_for: Compile) -> None:
    reference = compile_for(HOLLOW[name], "sm_100a")
    assert all(k.verdict is Verdict.OK for k in judge_kernels(reference, {"sm_90a": reference}))


def test_a_kernel_that_loses_what_it_did_before_the_change_is_hollow(compile_for: Compile) -> None:
    before = compile_for("__global__ void k(int *p) { p[0] = 1; }", "sm_120a")
    after = compile_for("__global__ void k(int *p) { }", "sm_120a")
    (kernel,) = judge_kernels(after, {}, earlier=before)
    assert (kernel.verdict, kernel.reason) == (
        Verdict.HOLLOW, "its body is empty (present before the change)")


def test_optimised_code_refutes_a_stub_that_can_never_run(compile_for: Compile) -> None:
    # the front end cannot know n, but the optimiser can: n & 1 of an even number is 0
    source = """
        #include <cstdio>
        __global__ void k(int *p, int n) {
          if ((n * 2) & 1) printf("Attempting to use X without CUTE_ARCH_X_ENABLED");
          p[0] = n; }"""
    code = compile_for(source, "sm_120a")
    (doubted,) = judge_kernels(code, {})
    assert doubted.verdict is Verdict.HOLLOW
    assert doubted.stub
    built = Built(compile_for(source, "sm_120a", Stage.BUILD))
    assert [k.verdict for k in judge_kernels(code, {}, built)] == [Verdict.OK]


def test_what_stands_behind_a_false_condition_is_not_judged(compile_for: Compile) -> None:
    source = """
        #include <cstdio>
        template <int N> __global__ void k(int *p) {
          const bool big = N > 3;
          if (big) printf("Attempting to use X without CUTE_ARCH_X_ENABLED");
          p[0] = N; }
        template __global__ void k<1>(int *);
        template __global__ void k<5>(int *);"""
    verdicts = {k.name: k.verdict for k in judge_kernels(compile_for(source, "sm_120a"), {})}
    assert verdicts == {"_Z1kILi1EEvPi": Verdict.OK, "_Z1kILi5EEvPi": Verdict.HOLLOW}


def test_reasons_name_the_source_line(compile_for: Compile, tmp_path: Path) -> None:
    source = """
        __global__ void first(int *p) { p[0] = 1; }
        __global__ void k(int *p) {
        #if __CUDA_ARCH__ < 1200
          p[threadIdx.x] = 1;
        #endif
        }"""
    kernels = judge_kernels(compile_for(source, "sm_120a"), {
        "sm_100a": compile_for(source, "sm_100a")})
    assert {k.name: k.where for k in kernels if k.verdict is Verdict.HOLLOW} == {
        "_Z1kPi": f"{tmp_path}/unit.cu:3"}


def test_internal_names_lose_only_their_hash() -> None:
    first = "_ZN50_INTERNAL_018579d9_19_trtllm_allreduce_cu_f36eb1177triggerEv"
    other = "_ZN50_INTERNAL_aaaaaaaa_19_trtllm_allreduce_cu_bbbbbbbb7triggerEv"
    assert stable_name(first) == stable_name(other) != first
    assert stable_name("_Z1kPi") == "_Z1kPi"
