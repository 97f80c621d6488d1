"""The 152 CUDA sources of flashinfer-python 0.6.3, the same flags for every tool.

    python -m bench.units FOLDER     walk them all, for every known target and the host

FOLDER holds empty files for the headers that are not installed here, so that no tool ends
early; ``prepare`` makes them from what the walker misses.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from patcher.cuda.model import Configuration, TranslationUnit, UnitReport
from patcher.cuda.walk import Walker
from patcher.room import roomy
from patcher.toolchain.find import find_toolkit
from patcher.tree import FolderTree

REPOSITORY = Path(__file__).resolve().parents[1]
UNPACKED = REPOSITORY / "corpus" / "unpacked"
RELEASE = UNPACKED / "flashinfer_python-0.6.3"
_TVM_FFI = UNPACKED / "apache_tvm_ffi-0.1.15.post2" / "tvm_ffi"
_DATA = "flashinfer/data"
_FOLDERS = ("include", "csrc", "csrc/nv_internal", "csrc/nv_internal/include", "csrc/fmha_v2",
            "csrc/nv_internal/tensorrt_llm/cutlass_extensions/include", "cutlass/include",
            "cutlass/tools/util/include", "spdlog/include")
_ROUNDS = 4


def sources() -> list[str]:
    """The units, as paths below the release."""
    return sorted(str(p.relative_to(RELEASE)) for p in (RELEASE / _DATA / "csrc").rglob("*.cu"))


def include_folders(stubs: Path) -> list[str]:
    """The folders of -I, in order, absolute; the toolkit's and the compiler's come after."""
    own = [str(RELEASE / _DATA / folder) for folder in _FOLDERS]
    return [*own, str(_TVM_FFI / "include"), sysconfig.get_path("include"), str(stubs)]


def walk_all(stubs: Path) -> Iterator[UnitReport]:
    """Every unit's report, as ``scan`` would have it: all targets and the host at once."""
    toolkit = find_toolkit()
    configuration = Configuration(
        "bench", include=(*include_folders(stubs), *toolkit.include),
        system=(*toolkit.system, *toolkit.host.include))
    walker = Walker(FolderTree(RELEASE))
    for source in sources():
        yield walker.walk(TranslationUnit(str(RELEASE / source), configuration))


def prepare(stubs: Path) -> int:
    """Make empty files for missing headers until none is missed; the number of them."""
    for _ in range(_ROUNDS):
        missing = {m.include[1:-1] for report in walk_all(stubs) for m in report.missing}
        for name in missing:
            (stubs / name).parent.mkdir(parents=True, exist_ok=True)
            (stubs / name).touch()
        if not missing:
            break
    return sum(path.is_file() for path in stubs.rglob("*"))


def flags(stubs: Path, compiler: str) -> list[str]:
    """One target's flags for a C++ compiler that takes CUDA for C++ with nvcc's macros."""
    toolkit = find_toolkit()
    folders = [*include_folders(stubs), *toolkit.include]
    return [compiler, "-std=c++17", "-x", "c++", "-D__CUDACC__", "-D__NVCC__",
            "-D__CUDA_ARCH__=1200", "-D__CUDA_ARCH_LIST__=1200", "-D__CUDACC_VER_MAJOR__=13",
            "-D__CUDACC_VER_MINOR__=0", "-D__CUDACC_VER_BUILD__=88", "-include",
            "cuda_runtime.h", *[f"-I{f}" for f in folders],
            *[part for f in toolkit.system for part in ("-isystem", f)]]


def compilation_database(stubs: Path, place: Path) -> Path:
    """The same units for clang-scan-deps."""
    rows = [{"directory": str(RELEASE), "file": str(RELEASE / source),
             "arguments": [*flags(stubs, "clang++"), "-c", str(RELEASE / source), "-o", "x.o"]}
            for source in sources()]
    place.write_text(json.dumps(rows), "utf-8")
    return place


def headers_of(scan_deps: str, database: Path) -> tuple[set[str], int]:
    """Every file that clang-scan-deps names, and the number of units it gave up."""
    done = subprocess.run([scan_deps, "-j", "1", f"-compilation-database={database}"],
                          capture_output=True, text=True, check=False)
    names = {_there(word) for line in done.stdout.splitlines()
             for word in line.replace("\\ ", "\0").rstrip("\\").split()
             if not word.endswith(":") and word.startswith("/")}
    return names, done.stderr.count("Error while scanning")


def _there(name: str) -> str:
    """The real path; clang shortens ``/lib/gcc/../..`` by text, though /lib is a link."""
    return os.path.realpath(name if os.path.exists(name) else f"/usr{name}")


if __name__ == "__main__":
    reports = roomy(lambda: list(walk_all(Path(sys.argv[1]))))
    print(len(reports), len(frozenset().union(*(report.files for report in reports))))
