import dataclasses

from .cpp_ext import generate_ninja_build_for_op


@dataclasses.dataclass
class JitSpec:
    name: str
    sources: list
    extra_cuda_cflags: list

    def build_file(self):
        return generate_ninja_build_for_op(
            name=self.name,
            sources=self.sources,
            extra_cuda_cflags=self.extra_cuda_cflags,
        )


def gen_jit_spec(name, sources, extra_cuda_cflags=None):
    return JitSpec(name=name, sources=sources, extra_cuda_cflags=extra_cuda_cflags)
