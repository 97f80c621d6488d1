from .. import env as jit_env
from ..core import gen_jit_spec
from ...compilation_context import current_compilation_context


def gen_gemm_sm120_module_cutlass_fp4():
    nvcc_flags = current_compilation_context.get_nvcc_flags_list(supported_major_versions=[12])
    return gen_jit_spec(
        "fp4_gemm_cutlass_sm120",
        [jit_env.FLASHINFER_CSRC_DIR / "fp4_gemm_cutlass_sm120.cu"],
        extra_cuda_cflags=nvcc_flags
        + [
            "-DENABLE_BF16",
            "-DENABLE_FP4",
            "-DCUTLASS_ENABLE_GDC_FOR_SM100=1",
        ],
    )


def gen_gemm_sm120_module():
    nvcc_flags = current_compilation_context.get_nvcc_flags_list(supported_major_versions=[12])
    return gen_jit_spec(
        "gemm_sm120",
        [jit_env.FLASHINFER_CSRC_DIR / "fp4_gemm_cutlass_sm120.cu"],
        extra_cuda_cflags=nvcc_flags + ["-DCUTLASS_ENABLE_GDC_FOR_SM100=1"],
    )
