"""Small kernels over CUTLASS's, CuTe's and FlashInfer's own headers, for the accuracy of verdicts.

Each is a body for ``__global__ void NAME(uint32_t *p, float *f, uint64_t const *q, char const *g)``
with 16-byte-aligned shared memory ``sm`` (uint32_t[1024]) and ``bar`` (uint64_t[4]). What becomes
of each on a target is not written here: the test reads it in the disassembly.
"""

from __future__ import annotations

HEADERS = """
#include <cassert>
#include <cstdio>
#include <cute/arch/copy_sm100.hpp>
#include <cute/arch/copy_sm100_tma.hpp>
#include <cute/arch/copy_sm75.hpp>
#include <cute/arch/copy_sm80.hpp>
#include <cute/arch/copy_sm90.hpp>
#include <cute/arch/copy_sm90_tma.hpp>
#include <cute/arch/mma_sm100_umma.hpp>
#include <cute/arch/mma_sm120.hpp>
#include <cute/arch/mma_sm80.hpp>
#include <cute/arch/mma_sm89.hpp>
#include <cute/arch/mma_sm90_gmma.hpp>
#include <cute/arch/tmem_allocator_sm100.hpp>
#include <cutlass/arch/barrier.h>
#include <cutlass/arch/grid_dependency_control.h>
#include <cutlass/arch/reg_reconfig.h>
#include <flashinfer/cp_async.cuh>
#include <flashinfer/math.cuh>
#include <flashinfer/mma.cuh>
#include <flashinfer/vec_dtypes.cuh>
using namespace cute;
__device__ int level() {
#ifdef __CUDA_ARCH__
  return __CUDA_ARCH__;
#else
  return 0;
#endif
}
"""

KERNELS: dict[str, str] = {}

_K = "GMMA::Major::K, GMMA::Major::K"
for _wgmma, _arguments in {
    f"MMA_64x8x16_F16F16F16_SS<{_K}>": "q[0], q[1], p[0], p[1]",
    f"MMA_64x8x16_F32F16F16_SS<{_K}>": "q[0], q[1], f[0], f[1], f[2], f[3]",
    f"MMA_64x8x16_F32F16F16_RS<{_K}>": "p[0], p[1], p[2], p[3], q[1], f[0], f[1], f[2], f[3]",
    f"MMA_64x8x16_F32BF16BF16_SS<{_K}>": "q[0], q[1], f[0], f[1], f[2], f[3]",
    "MMA_64x8x8_F32TF32TF32_SS_TN<>": "q[0], q[1], f[0], f[1], f[2], f[3]",
    "MMA_64x8x32_F32E4M3E4M3_SS_TN<>": "q[0], q[1], f[0], f[1], f[2], f[3]",
    "MMA_64x8x32_S32S8S8_SS_TN": "q[0], q[1], p[0], p[1], p[2], p[3]",
}.items():
    KERNELS[f"wgmma {_wgmma}"] = (
        f"SM90::GMMA::{_wgmma}::fma({_arguments}); warpgroup_commit_batch(); "
        "warpgroup_wait<0>(); p[64] = 1;")
KERNELS["wgmma fence alone"] = "warpgroup_arrive(); p[threadIdx.x] = 1;"

_UK = "UMMA::Major::K, UMMA::Major::K"
for _umma in (
    f"SM100_MMA_F16BF16_SS<half_t, half_t, float, 128, 64, {_UK}>",
    f"SM100_MMA_TF32_SS<tfloat32_t, tfloat32_t, float, 128, 64, {_UK}>",
    f"SM100_MMA_S8_SS<int8_t, int8_t, int32_t, 128, 64, {_UK}>",
    f"SM100_MMA_F16BF16_2x1SM_SS<half_t, half_t, float, 256, 64, {_UK}>",
):
    KERNELS[f"umma {_umma}"] = f"{_umma}::fma(q[0], q[1], p[0], p[1], q[2]); p[64] = 1;"
for _load, _outputs in {
    "16dp64b1x": 1, "16dp128b1x": 2, "16dp256b1x": 4, "32dp32b1x": 1, "32dp32b2x": 2,
}.items():
    _targets = ", ".join(f"p[{8 + n}]" for n in range(_outputs))
    _sources = ", ".join(f"p[{n}]" for n in range(_outputs))
    KERNELS[f"tmem load {_load}"] = f"SM100_TMEM_LOAD_{_load}::copy(p[0], {_targets});"
    KERNELS[f"tmem store {_load}"] = (
        f"SM100_TMEM_STORE_{_load}::copy({_sources}, p[32]); p[0] = 0;")
KERNELS["tmem allocate"] = "TMEM::Allocator1Sm a; a.allocate(32, sm); p[0] = sm[0];"
KERNELS["tmem free"] = "TMEM::Allocator1Sm a; a.free(p[0], 32); p[1] = 1;"
KERNELS["umma commit"] = "cutlass::arch::umma_arrive(bar); p[0] = 1;"
for _rank in (1, 2, 3):
    _coordinates = ", ".join(f"(int)p[{n}]" for n in range(_rank))
    KERNELS[f"tma of two SMs {_rank}D"] = (
        f"SM100_TMA_2SM_LOAD_{_rank}D::copy(g, bar, 0ull, sm, {_coordinates}); p[9] = sm[1];")
    KERNELS[f"tma load {_rank}D"] = (
        f"SM90_TMA_LOAD_{_rank}D::copy(g, bar, 0ull, sm, {_coordinates}); p[9] = sm[1];")
    KERNELS[f"tma store {_rank}D"] = (
        f"sm[threadIdx.x] = p[9]; SM90_TMA_STORE_{_rank}D::copy(g, sm, {_coordinates}); "
        "tma_store_arrive();")

_CONDITIONAL = (r"ERROR : Arch conditional MMA instruction used without targeting "
                r"appropriate compute capability. Aborting.\n")
_INVALID = "Attempting to use it without CUTE_ARCH_X_ENABLED"
_GUARDS = {
    "whole body": ("p[threadIdx.x] = 1;", "", ""),
    "body becomes a trap": ("p[threadIdx.x] = 1;", 'asm volatile("trap;");', ""),
    "body becomes an assert": ("p[threadIdx.x] = 1;", "assert(0);", ""),
    "a message of CUTLASS": ("p[2] = 1;", f'printf("{_CONDITIONAL}");', "p[3] = 1;"),
    "an invalid path of CuTe": ("p[2] = 1;", f'CUTE_INVALID_CONTROL_PATH("{_INVALID}");',
                                "p[3] = 1;"),
    "barrier of the grid": ('asm volatile("griddepcontrol.wait;" ::: "memory");', "", "p[3] = 1;"),
    "a comment instead of a barrier": (
        'asm volatile("griddepcontrol.wait;" ::: "memory");',
        'asm volatile("/* griddepcontrol.wait; */" ::: "memory");', "p[3] = 1;"),
    "atomics in an inlined function": ("atomicAdd(p, 1u);", "", "p[3] = 1;"),
    "stores of a real kernel": ("for (int i = 0; i < 8; i++) f[i] = f[i + 8] * 2.f;", "", ""),
    "every way out is a trap": ("p[0] = 2;", 'asm volatile("brkpt;"); asm volatile("trap;");', ""),
}
GUARDED: dict[str, str] = {}  # device functions that bodies call
for _number, (_name, (_real, _instead, _rest)) in enumerate(_GUARDS.items()):
    GUARDED[f"guarded{_number}"] = (
        "#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 1200\n"
        f"{_real}\n#else\n{_instead}\n#endif\n")
    KERNELS[f"guard: {_name}"] = f"guarded{_number}(p, f); {_rest}"

KERNELS |= {
    "gdc wait": "cutlass::arch::wait_on_dependent_grids(); p[0] = f[0] > 0;",
    "gdc launch": "cutlass::arch::launch_dependent_grids(); p[0] = 1;",
    "mma sm80 f16": "SM80_16x8x16_F32F16F16F32_TN::fma(f[0], f[1], f[2], f[3], p[0], p[1], p[2], "
                    "p[3], p[4], p[5], f[4], f[5], f[6], f[7]);",
    "mma sm80 bf16": "SM80_16x8x16_F32BF16BF16F32_TN::fma(f[0], f[1], f[2], f[3], p[0], p[1], "
                     "p[2], p[3], p[4], p[5], f[4], f[5], f[6], f[7]);",
    "mma sm80 tf32": "SM80_16x8x8_F32TF32TF32F32_TN::fma(f[0], f[1], f[2], f[3], p[0], p[1], "
                     "p[2], p[3], p[4], p[5], f[4], f[5], f[6], f[7]);",
    "mma sm80 s8": "SM80_16x8x32_S32S8S8S32_TN::fma(p[0], p[1], p[2], p[3], p[4], p[5], p[6], "
                   "p[7], p[8], p[9], p[10], p[11], p[12], p[13]);",
    "mma sm89 e4m3": "SM89_16x8x32_F32E4M3E4M3F32_TN::fma(f[0], f[1], f[2], f[3], p[0], p[1], "
                     "p[2], p[3], p[4], p[5], f[4], f[5], f[6], f[7]);",
    "mma sm120 e4m3": "SM120_16x8x32_TN<float_e4m3_t, float_e4m3_t, float>::fma(f[0], f[1], f[2], "
                      "f[3], p[0], p[1], p[2], p[3], p[4], p[5], f[4], f[5], f[6], f[7]);",
    "mma sm120 e2m1": "SM120_16x8x32_TN<float_e2m1_t, float_e2m1_t, float>::fma(f[0], f[1], f[2], "
                      "f[3], p[0], p[1], p[2], p[3], p[4], p[5], f[4], f[5], f[6], f[7]);",
    "mma sm120 nvfp4": "SM120::BLOCKSCALED::SM120_16x8x64_TN_VS<float_e2m1_t, float_e2m1_t, float, "
                       "float_ue4m3_t, 16>::fma(f[0], f[1], f[2], f[3], p[0], p[1], p[2], p[3], "
                       "p[4], p[5], f[4], f[5], f[6], f[7], p[6], p[7]);",
    "bulk copy in": "SM90_BULK_COPY_G2S::copy(g, bar, sm, 256); p[0] = sm[3];",
    "bulk copy out": "sm[threadIdx.x] = p[9]; SM90_BULK_COPY_S2G::copy(sm, p, 256);",
    "ldmatrix": "SM75_U32x4_LDSM_N::copy(*(uint128_t const *)sm, p[0], p[1], p[2], p[3]);",
    "stmatrix": "SM90_U32x4_STSM_N::copy(p[0], p[1], p[2], p[3], *(uint128_t *)sm); "
                "__syncthreads(); p[4] = sm[threadIdx.x];",
    "async copy": "SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>::copy(*(uint128_t const *)g, "
                  "*(uint128_t *)sm); cp_async_fence(); cp_async_wait<0>(); p[0] = sm[1];",
    "barrier of a cluster": "cluster_arrive(); cluster_wait(); p[0] = 1;",
    "transaction barrier": "cutlass::arch::ClusterTransactionBarrier::init(bar, 1); "
                           "cutlass::arch::ClusterTransactionBarrier::arrive_and_expect_tx(bar, "
                           "16); "
                           "cutlass::arch::ClusterTransactionBarrier::wait(bar, 0); p[0] = 1;",
    "named barrier": "cutlass::arch::NamedBarrier::sync(128, 1); p[0] = 1;",
    "one elected thread": "if (elect_one_sync()) p[0] = 1;",
    "registers moved": "cutlass::arch::warpgroup_reg_dealloc<40>(); p[0] = 1;",
    "flashinfer mma": "flashinfer::mma::mma_sync_m16n16k16_row_col_f16f16f32<half>(f, p, p + 4);",
    "flashinfer ldmatrix": "flashinfer::mma::ldmatrix_m8n8x4(p, sm);",
    "flashinfer stmatrix": "flashinfer::mma::stmatrix_m8n8x4(p, sm); __syncthreads(); "
                           "p[4] = sm[threadIdx.x];",
    "flashinfer async copy": "flashinfer::cp_async::load_128b<flashinfer::cp_async::PrefetchMode::"
                             "kNoPrefetch>(sm, p + 64); flashinfer::cp_async::commit_group(); "
                             "flashinfer::cp_async::wait_group<0>(); p[0] = sm[1];",
    "flashinfer math": "f[0] = flashinfer::math::ptx_exp2(f[1]) + flashinfer::math::tanh(f[2]);",
    "flashinfer vector": "flashinfer::vec_t<float, 4> v; v.load(f + 4); v.store(f);",
    "nothing at all": "",
    "one store": "*p = 0;",
    "waits and does nothing": 'asm volatile("griddepcontrol.wait;" ::: "memory");',
    "writes to shared memory only": "sm[threadIdx.x] = 3; __syncthreads();",
    "checks its input": "assert(p[1] > 0); p[0] = p[1];",
    "traps on bad input": "if (p[1] == 7) __trap(); p[0] = p[1];",
    "prints a value": 'printf("value %u\\n", *p);',
    "for older GPUs, by a function": "if (level() < 1200) p[threadIdx.x] = 1;",
    "atomics for older GPUs, by a function": "p[1] = 1; if (level() < 1200) atomicAdd(p, 1u);",
    "for newer GPUs, by a function": "if (level() >= 900) p[threadIdx.x] = 1;",
    "atomics for older GPUs": "p[1] = 1;\n#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 1200\n"
                              "atomicAdd(p, 1u);\n#endif\n",
    "other code for new GPUs": "\n#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200\n"
                               "p[0] = __ldg(p + 1) + 1;\n#else\np[0] = p[1] + 1;\n#endif\n",
}


def source(names: dict[str, str], macros: tuple[str, ...] = ()) -> str:
    """One unit of all kernels; ``names`` gives each the name it has in the code."""
    functions = "".join(
        f"__device__ __forceinline__ void {name}(uint32_t *p, float *f) {{\n{body}}}\n"
        for name, body in GUARDED.items())
    kernels = "".join(
        f'extern "C" __global__ void {name}(uint32_t *p, float *f, uint64_t const *q, '
        "char const *g) {\n__shared__ alignas(128) uint32_t sm[1024]; "
        f"__shared__ alignas(16) uint64_t bar[4]; (void)sm; (void)bar;\n{KERNELS[kind]}\n}}\n"
        for kind, name in names.items())
    return "".join(f"#define {m}\n" for m in macros) + HEADERS + functions + kernels
