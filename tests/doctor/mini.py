"""Hand-made miniatures of pip's CUDA tree, for the quick tests.

Each part says its version where the real one does: nvcc and cicc in their text,
the runtime in CUDART_VERSION, CCCL in its version.h, crt in its metadata and in
the parameters of __cudaLaunch (2 in 13.0, 1 in 13.2: nvidia-cuda-crt wheels).
"""

from __future__ import annotations

import os
from pathlib import Path

from patcher.arch import target
from patcher.doctor.model import Result, Surroundings
from patcher.doctor.run import examine
from patcher.package.model import Environment
from patcher.toolchain.find import Toolkit, find_toolkits

_LAUNCH = {"13.0": "__cudaLaunch(fun, isTileKernel)", "13.2": "__cudaLaunch(fun)"}


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def dist(site: Path, name: str, version: str, *files: str) -> None:
    """The metadata of a wheel; ``files`` are paths in the site that its RECORD lists."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    write(info / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    rows = [f"{file},,{(site / file).stat().st_size}" for file in files]
    write(info / "RECORD", "\n".join([*rows, f"{info.name}/RECORD,,"]) + "\n")


def cuda(site: Path, nvcc: str = "13.2", *, crt: str = "", nvvm: str = "", runtime: str = "",
         cccl: str | None = "3002000", links: bool = True) -> Path:
    """A toolkit of wheels; parts not named have nvcc's release."""
    home = site / "nvidia" / "cu13"
    crt, nvvm, runtime = crt or nvcc, nvvm or nvcc, runtime or nvcc
    write(home / "bin/nvcc", f"\0Cuda compilation tools, release {nvcc}, V{nvcc}.78\0")
    write(home / "nvvm/bin/cicc", f"\0release {nvvm}, V{nvvm}.78\0")
    major, minor = runtime.split(".")
    write(home / "include/cuda_runtime_api.h", f"#define CUDART_VERSION {major}0{minor}0\n")
    write(home / "include/cuda_runtime.h", "#include <cuda_runtime_api.h>\n")
    write(home / "include/cuda_fp16.h", "#include <nv/target>\n")
    write(home / "include/cooperative_groups.h", "#include <cuda_fp16.h>\n")
    write(home / "include/crt/host_runtime.h", f"#define {_LAUNCH[crt]} f\n")
    write(home / "lib/libcudart.so.13", "library")
    base = "nvidia/cu13"
    dist(site, "nvidia-cuda-nvcc", f"{nvcc}.78", f"{base}/bin/nvcc")
    dist(site, "nvidia-nvvm", f"{nvvm}.78", f"{base}/nvvm/bin/cicc")
    dist(site, "nvidia-cuda-crt", f"{crt}.78", f"{base}/include/crt/host_runtime.h")
    dist(site, "nvidia-cuda-runtime", f"{runtime}.75", f"{base}/include/cuda_runtime.h",
         f"{base}/lib/libcudart.so.13")
    if cccl:
        headers(home / "include/cccl", cccl)
        files = sorted(p.relative_to(site).as_posix()
                       for p in (home / "include/cccl").rglob("*") if p.is_file())
        dist(site, "nvidia-cuda-cccl", f"{nvcc}.75", *files)
    if links:
        (home / "lib64").symlink_to("lib")
        (home / "lib/libcudart.so").symlink_to("libcudart.so.13")
    return home


def headers(folder: Path, version: str) -> None:
    """The shape of CCCL's headers, at a CCCL_VERSION."""
    write(folder / "nv/target", f"// {version}\n#include <nv/detail/__target_macros>\n")
    write(folder / "nv/detail/__target_macros", "")
    write(folder / "cuda/std/__cccl/version.h", f"#define CCCL_VERSION {version}\n")
    write(folder / "cuda/std/__cccl/cuda_toolkit.h", "#ifndef CCCL_DISABLE_CTK_COMPATIBILITY_CHECK"
          "\n#endif\n" if int(version) >= 3002000 else "")
    write(folder / "cuda/std/atomic", "#include <nv/target>\n")
    write(folder / "cub/cub.cuh", "#include <cuda/std/atomic>\n#include <thrust/version.h>\n")
    write(folder / "thrust/version.h", "")


def flashinfer(site: Path, version: str = "3006000") -> None:
    """FlashInfer with a CCCL of its own, as 0.7.4 lays it out."""
    bundled = site / "flashinfer/data/cccl"
    headers(bundled / "libcudacxx/include", version)
    for name in ("cub", "thrust"):
        (bundled / name).mkdir()
        (bundled / "libcudacxx/include" / name).rename(bundled / name / name)
    write(site / "flashinfer/__init__.py")
    dist(site, "flashinfer-python", "0.7.4", "flashinfer/__init__.py")


def surroundings(site: Path, *archs: str, packages: tuple[str, ...] = (),
                 gpus: tuple[str, ...] = (), image: bool = True,
                 include: Path | None = None, **variables: str) -> Surroundings:
    """What the doctor looks at: a folder of packages and its own toolkit, if it has one."""
    home = site / "nvidia" / "cu13"
    environment = Environment(None if image else site, (site,), None, "a test",
                              version=(3, 12), include=include, root=site if image else None)
    toolkits = find_toolkits(str(home)) if os.path.isfile(home / "bin/nvcc") else []
    return Surroundings(environment, tuple(toolkits), tuple(map(target, archs or ("sm_120a",))),
                        variables, packages, gpus)


def toolkits(site: Path) -> list[Toolkit]:
    """The toolkits that a folder of packages holds."""
    environment = Environment(site, (site,), None, "a test", root=site)
    return [t for t in find_toolkits(None, environment, environ={})
            if t.path and site in t.path.parents]


def examined(site: Path) -> list[Result]:
    """What every check says of a live environment."""
    return examine(surroundings(site, image=False))


def findings(site: Path, *archs: str, **options: object) -> dict[str, Result]:
    """Errors and warnings by id."""
    from tests.doctor.helpers import wrong

    return wrong(examine(surroundings(site, *archs, **options)))  # type: ignore[arg-type]
