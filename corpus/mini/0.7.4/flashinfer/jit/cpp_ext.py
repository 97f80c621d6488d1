import os

from . import env as jit_env
from ..compilation_context import CompilationContext


def get_cuda_path():
    return os.environ.get("CUDA_HOME", "/usr/local/cuda")


def generate_ninja_build_for_op(name, sources, extra_cuda_cflags=None):
    cuda_home = get_cuda_path()
    flags = [
        f"-isystem {cuda_home}/include",
        f"-isystem {jit_env.FLASHINFER_INCLUDE_DIR.resolve()}",
        "-std=c++17",
    ]
    if extra_cuda_cflags is not None:
        flags += extra_cuda_cflags
    else:
        flags += CompilationContext().get_nvcc_flags_list()
    lines = [
        "ninja_required_version = 1.3",
        f"nvcc = {cuda_home}/bin/nvcc",
        "cuda_cflags = " + " ".join(flags),
        "rule cuda_compile",
        "  command = $nvcc --generate-dependencies-with-compile --dependency-output $out.d $cuda_cflags -c $in -o $out",
        "  depfile = $out.d",
        "  deps = gcc",
        "",
    ]
    for source in sources:
        lines.append(f"build {source.name}.cuda.o: cuda_compile {source.resolve()}")
    return "\n".join(lines) + "\n"
