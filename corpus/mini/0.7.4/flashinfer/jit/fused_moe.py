from . import env as jit_env
from .core import gen_jit_spec
from ..compilation_context import current_compilation_context


def gen_cutlass_fused_moe_sm120_module():
    nvcc_flags = [
        "-DENABLE_BF16",
        "-DENABLE_FP4",
        "-DCUTLASS_ENABLE_GDC_FOR_SM100=1",
    ]
    nvcc_flags += current_compilation_context.get_nvcc_flags_list(supported_major_versions=[12])
    return gen_jit_spec(
        "fused_moe_120",
        [jit_env.FLASHINFER_CSRC_DIR / "fp4_gemm_cutlass_sm120.cu"],
        extra_cuda_cflags=nvcc_flags,
    )
