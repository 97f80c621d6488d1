def gen_jit_spec(name, sources, extra_cuda_cflags=None):
    return name, sources, extra_cuda_cflags
