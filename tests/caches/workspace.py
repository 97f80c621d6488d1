"""A toy FlashInfer: a package with kernels, and a JIT cache built by the real ninja and nvcc.

The build file has the shape of flashinfer_python 0.6.3's generate_ninja_build_for_op:
absolute outputs, sources by -isystem, ``g++ -MMD``, nvcc's dependency flags, deps = gcc.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

INCLUDE = "flashinfer/data/include/flashinfer"
CSRC = "flashinfer/data/csrc"
GENCODE = "-gencode=arch=compute_120a,code=sm_120a"
POSITION = "--compiler-options=-fPIC"
DEPENDENCIES = "--generate-dependencies-with-compile --dependency-output $out.d"

FILES = {
    f"{INCLUDE}/deep.cuh": "inline __device__ float deep(float x) { return x * 2.f; }\n",
    f"{INCLUDE}/mid.cuh": '#pragma once\n#include "deep.cuh"\n',
    f"{INCLUDE}/other.cuh": "inline __device__ float other(float x) { return x + 1.f; }\n",
    f"{INCLUDE}/host.h": "#pragma once\ninline int host_value() { return 1; }\n",
    f"{CSRC}/uses_deep.cu": "#include <flashinfer/mid.cuh>\n"
                            "__global__ void uses_deep(float* p) { *p = deep(*p); }\n",
    f"{CSRC}/uses_other.cu": "#include <flashinfer/other.cuh>\n"
                             "__global__ void uses_other(float* p) { *p = other(*p); }\n",
    f"{CSRC}/binding.cpp": "#include <flashinfer/host.h>\n"
                           'extern "C" int binding() { return host_value(); }\n',
    f"{CSRC}/plain.cpp": 'extern "C" int plain() { return 3; }\n',
    "flashinfer/jit/comm.py": "MAJORS = [9, 10]\n",
}


@dataclass(frozen=True)
class Workspace:
    """``site`` is the package root, ``base`` stands for FLASHINFER_WORKSPACE_BASE."""

    site: Path
    base: Path
    cuda: Path
    ninja: Path
    version: str = "0.6.3"
    archs: str = "120a"
    shared: bool = False  # as in 0.5.3: one ninja folder, outputs relative to it

    @property
    def environ(self) -> dict[str, str]:
        return {"HOME": str(self.base / "home"), "FLASHINFER_WORKSPACE_BASE": str(self.base)}

    @property
    def cache(self) -> Path:
        return self.base / ".cache" / "flashinfer"

    @property
    def ops(self) -> Path:
        return self.cache / self.version / self.archs / "cached_ops"

    @property
    def generated(self) -> Path:
        return self.ops.parent / "generated"

    def write(self, path: str, text: str) -> Path:
        """Write below the package root as apply does: a new file with mtime now."""
        target = self.site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(target.name + ".tmp")
        fresh.write_text(text)
        os.replace(fresh, target)
        return target

    def module(self, name: str, sources: list[str | Path], flags: str = "") -> Path:
        """Write the module's build.ninja as FlashInfer does, only where there is none."""
        folder = self.ops / name
        folder.mkdir(parents=True, exist_ok=True)
        build = folder / "build.ninja"
        if not build.exists():
            build.write_text(self._build_file(name, folder, sources, flags))
        return folder

    def _build_file(self, name: str, folder: Path, sources: list[str | Path], flags: str) -> str:
        places = [f"{self.site}/flashinfer/data/include", f"{self.site}/{CSRC}"]
        common = " $\n    ".join(["-DNDEBUG", "-isystem $cuda_home/include",
                                  *(f"-isystem {place}" for place in places)])
        lines = [
            "ninja_required_version = 1.3", f"name = {name}", f"cuda_home = {self.cuda}",
            "cxx = c++", "nvcc = $cuda_home/bin/nvcc", "", f"common_cflags = {common}",
            "cflags = $common_cflags $\n    -fPIC", "post_cflags =",
            f"cuda_cflags = $common_cflags $\n    {POSITION} $\n    {GENCODE} {flags}",
            "cuda_post_cflags =",
            "ldflags = -shared", "",
            "rule compile",
            "  command = $cxx -MMD -MF $out.d $cflags -c $in -o $out $post_cflags",
            "  depfile = $out.d", "  deps = gcc", "",
            "rule cuda_compile",
            f"  command = $nvcc {DEPENDENCIES} $cuda_cflags -c $in -o $out $cuda_post_cflags",
            "  depfile = $out.d", "  deps = gcc", "",
            "rule link", "  command = $cxx $in $ldflags -o $out", "",
        ]
        objects = []
        for source in sources:
            path = (self.site / source).resolve()
            cuda = path.suffix == ".cu"
            name_of = path.with_suffix(".cuda.o" if cuda else ".o").name
            objects.append(f"$name/{name_of}" if self.shared else str(folder / name_of))
            lines.append(f"build {objects[-1]}: {'cuda_compile' if cuda else 'compile'} {path}")
        library = "$name/$name.so" if self.shared else folder / f"{name}.so"
        lines += ["", f"build {library}: link {' '.join(objects)}", f"default {library}", ""]
        return "\n".join(lines)

    def build(self, name: str) -> set[str]:
        """Run ninja as FlashInfer 0.6.3 does; returns the names of the outputs it made."""
        folder = self.ops / name
        lock = folder.parent / "tmp" / f"{name}.lock"  # what FlashInfer holds meanwhile
        lock.parent.mkdir(exist_ok=True)
        lock.touch()
        before = times(folder)
        where = folder.parent if self.shared else folder
        subprocess.run([self.ninja, "-v", "-C", where, "-f", folder / "build.ninja"],
                       check=True, capture_output=True)
        after = times(folder)
        return {path for path, time in after.items() if before.get(path) != time}


def times(folder: Path) -> dict[str, int]:
    """Modification time and identity of each product in a build folder."""
    return {p.name: p.stat().st_mtime_ns for p in folder.iterdir() if p.suffix in (".o", ".so")}


def make(folder: Path, cuda: Path, ninja: Path) -> Workspace:
    """A package and one built module, ``toy``, of two CUDA and two C++ units."""
    workspace = Workspace(folder / "site-packages", folder / "volume", cuda, ninja)
    for path, text in FILES.items():
        workspace.write(path, text)
    workspace.module("toy", [f"{CSRC}/{name}" for name in
                             ("uses_deep.cu", "uses_other.cu", "binding.cpp", "plain.cpp")])
    workspace.build("toy")
    return workspace


def reset(workspace: Workspace, pristine: Path) -> None:
    """Put the workspace's two trees back to the copy made of them, times included."""
    shutil.rmtree(workspace.site.parent / ".sm-patch", ignore_errors=True)  # the state home
    for tree in (workspace.site, workspace.base):
        shutil.rmtree(tree)
        shutil.copytree(pristine / tree.name, tree, symlinks=True)
