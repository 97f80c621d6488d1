"""Measure CPU seconds, ours and the alternatives', and write docs/benchmarks.md.

CPU time (user and system, children included) of fresh processes, best of a few runs: the
machine may be busy, and wall time says little then. Nothing here is a test; a slow machine
fails nothing.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
RELEASE = REPOSITORY / "corpus" / "unpacked" / "flashinfer_python-0.6.3"
TVM_FFI = REPOSITORY / "corpus" / "unpacked" / "apache_tvm_ffi-0.1.15.post2"
OUTPUT = REPOSITORY / "docs" / "benchmarks.md"


@dataclass(frozen=True)
class Row:
    """One line of the table; ``seconds`` of CPU."""

    what: str
    seconds: float
    note: str = ""


def cpu(
    command: Sequence[str | Path],
    *,
    runs: int = 3,
    environment: dict[str, str] | None = None,
    accept: Sequence[int] = (0,),
) -> float:
    """Best CPU time of ``runs`` fresh processes; raises CalledProcessError when one fails."""
    best = float("inf")
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            cwd=REPOSITORY,
            env={**os.environ, **(environment or {})},
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode not in accept:
            raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
        spent = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
        best = min(best, spent)
    return best


def ours(cache: Path) -> Iterator[Row]:
    """The command line, cold and warm."""
    tool = [sys.executable, "-m", "patcher"]
    yield Row("bare `python -c pass`", cpu([sys.executable, "-c", "pass"], runs=5), "the floor")
    yield Row("`sm-patch --version`", cpu([*tool, "--version"], runs=5), "budget 0.15")
    yield Row("`sm-patch --help`", cpu([*tool, "--help"], runs=5), "budget 0.15")
    scan = [*tool, "scan", "flashinfer", "--root", str(RELEASE), "--arch", "sm_120a"]
    place = {"XDG_CACHE_HOME": str(cache)}
    cold = cpu(scan, runs=1, environment=place)
    yield Row("`scan` of 0.6.3, cold, all targets and the host", cold, "budget 15")
    yield Row("`scan` of 0.6.3, warm", cpu(scan, environment=place), "budget 2")


def python_layer() -> Iterator[Row]:
    """Our Python gates against just parsing every file."""
    files = RELEASE / "flashinfer"
    parse = (
        "import ast, pathlib, sys, warnings; warnings.simplefilter('ignore')\n"
        "for p in pathlib.Path(sys.argv[1]).rglob('*.py'): ast.parse(p.read_bytes())"
    )
    scan = (
        "import sys, pathlib; from patcher.tree import FolderTree\n"
        "from patcher.python.find import find_gates\n"
        "print(len(list(find_gates(FolderTree(pathlib.Path(sys.argv[1])), 'flashinfer'))))"
    )
    yield Row(
        "Python layer of 0.6.3",
        cpu([sys.executable, "-c", scan, RELEASE]),
        "gates found and evaluated",
    )
    yield Row(
        "`ast.parse` of every file of 0.6.3", cpu([sys.executable, "-c", parse, files]), "no gates"
    )


def _includes() -> list[str]:
    data = RELEASE / "flashinfer" / "data"
    cuda = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    folders = [
        sysconfig.get_path("include"),
        cuda / "include",
        cuda / "include" / "cccl",
        TVM_FFI / "tvm_ffi" / "include",
        data / "include",
        data / "csrc",
        data / "cutlass" / "include",
        data / "cutlass" / "tools" / "util" / "include",
        data / "spdlog" / "include",
    ]
    return [part for folder in folders for part in ("-isystem", str(folder))]


def alternatives() -> Iterator[Row]:
    """What else could answer, per target or without conditions."""
    unit = RELEASE / "flashinfer" / "data" / "csrc" / "trtllm_allreduce.cu"
    flags = [
        "-std=c++17",
        "-x",
        "c++",
        "-D__CUDACC__",
        "-D__NVCC__",
        "-D__CUDA_ARCH__=1200",
        "-D__CUDACC_VER_MAJOR__=13",
        "-D__CUDACC_VER_MINOR__=0",
        "-include",
        "cuda_runtime.h",
        *_includes(),
    ]
    units = len(list((RELEASE / "flashinfer" / "data" / "csrc").rglob("*.cu")))
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder, "out"))
        if shutil.which("gcc"):
            note = f"one of {units} units, one target; conditions are gone"
            yield Row(
                "`gcc -E` of trtllm_allreduce.cu",
                cpu(["gcc", *flags, "-E", str(unit), "-o", out]),
                note,
            )
            yield Row(
                "`gcc -M` of trtllm_allreduce.cu",
                cpu(["gcc", *flags, "-M", str(unit), "-o", out]),
                "one unit; files only",
            )
        if nvcc := shutil.which("nvcc"):
            code = "-gencode=arch=compute_120a,code=sm_120a"
            yield Row(
                "`nvcc -E` of trtllm_allreduce.cu",
                cpu([nvcc, "-std=c++17", code, *_includes(), "-E", str(unit), "-o", out]),
                "one unit, one target; the oracle of our tests",
            )
        if clang := shutil.which("clang-scan-deps"):
            yield Row(
                "`clang-scan-deps` of trtllm_allreduce.cu",
                cpu([clang, "--", "clang++", *flags, "-c", str(unit)]),
                "one unit; files only",
            )
    if grep := shutil.which("rg"):
        yield Row(
            "`rg __CUDA_ARCH__` over the package",
            cpu([grep, "-uuu", "-c", "__CUDA_ARCH__", str(RELEASE)]),
            "lines, no meaning",
        )
    else:
        yield Row(
            "`grep -r __CUDA_ARCH__` over the package",
            cpu(["grep", "-rc", "__CUDA_ARCH__", str(RELEASE)]),
            "lines, no meaning",
        )


def table(rows: Sequence[Row]) -> str:
    """The document."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`: CPU seconds (user and system) of fresh processes, best of a few.",
        f"{model}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()},",
        "flashinfer-python 0.6.3.",
        "",
        "| what | CPU s | note |",
        "|---|---:|---|",
        *(f"| {row.what} | {row.seconds:.2f} | {row.note} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, print and write the table."""
    if not RELEASE.is_dir():
        print("bench: run `make corpus` first", file=sys.stderr)
        return 1
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as cache:
        for source in (ours(Path(cache)), python_layer(), alternatives()):
            for row in source:
                print(f"{row.seconds:8.2f}  {row.what}  ({row.note})", flush=True)
                rows.append(row)
    OUTPUT.write_text(table(rows), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
