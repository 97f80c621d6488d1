from setuptools import setup
NVCC = ["-O3"]
setup(ext_modules=[CUDAExtension(
    "k", ["k.cu"],
    extra_compile_args={
        "cxx": ["-O3"],
        "nvcc": NVCC + [
            "-gencode=arch=compute_90a,code=sm_90a",  # Hopper
            "-gencode=arch=compute_120a,code=sm_120a",
        ],
    },
)])
