from ..jit.comm import gen_trtllm_comm_module


def trtllm_custom_all_reduce(*arguments):
    return gen_trtllm_comm_module().trtllm_custom_all_reduce(*arguments)


def trtllm_allreduce_fusion(*arguments):
    return gen_trtllm_comm_module().trtllm_allreduce_fusion(*arguments)
