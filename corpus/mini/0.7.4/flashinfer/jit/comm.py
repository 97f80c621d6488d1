from . import env as jit_env
from .core import gen_jit_spec
from ..compilation_context import current_compilation_context


def gen_trtllm_mnnvl_comm_module():
    # SM12x is intentionally excluded: these cards have no NVLink multicast memory.
    nvcc_flags = current_compilation_context.get_nvcc_flags_list(
        supported_major_versions=[9, 10]
    )
    return gen_jit_spec(
        "trtllm_mnnvl_comm",
        [jit_env.FLASHINFER_CSRC_DIR / "trtllm_mnnvl_allreduce.cu"],
        extra_cuda_cflags=nvcc_flags,
    )


def gen_trtllm_comm_module():
    nvcc_flags = current_compilation_context.get_nvcc_flags_list(
        supported_major_versions=[9, 10, 12]
    )
    return gen_jit_spec(
        "trtllm_comm",
        [
            jit_env.FLASHINFER_CSRC_DIR / "trtllm_allreduce.cu",
            jit_env.FLASHINFER_CSRC_DIR / "trtllm_allreduce_fusion.cu",
        ],
        extra_cuda_cflags=nvcc_flags,
    )
