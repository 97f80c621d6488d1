import functools

from ..jit.comm import gen_trtllm_comm_module


@functools.cache
def get_trtllm_comm_module():
    return gen_trtllm_comm_module().build_and_load()


def trtllm_custom_all_reduce(*arguments):
    get_trtllm_comm_module().trtllm_custom_all_reduce(*arguments)


def trtllm_allreduce_fusion(*arguments):
    get_trtllm_comm_module().trtllm_allreduce_fusion(*arguments)
