"""Commands that bring a CUDA compiler of a release."""

from __future__ import annotations

_NVCC = ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime",
         "nvidia-cuda-cccl")
_DEFAULT = "13.0"


def toolkit_command(release: str | None) -> str:
    """How to get the nvcc of a CUDA release; wheels bring one from 13 on, before only ptxas."""
    release = release or _DEFAULT
    if int(release.split(".")[0]) < 13:
        return f"apt-get install cuda-toolkit-{release.replace('.', '-')}"
    return "pip install " + " ".join(f"'{name}=={release}.*'" for name in _NVCC)
