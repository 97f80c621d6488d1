"""The shipped FlashInfer patchset against real releases and the real compiler."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from patcher.edits import Edit, apply_edits
from patcher.operations.base import Outcome
from patcher.operations.registry import find
from patcher.patchset.load import load_patchset
from patcher.patchset.schema import CudaGuard, Group, Patch, PythonGate
from patcher.tree import FolderTree

Unpacked = Callable[[str, str], Path]
HEADER = "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh"
UNIT = "csrc/trtllm_allreduce.cu"


def _group(name: str) -> Group:
    (group,) = (g for g in load_patchset("flashinfer-sm120").groups if g.id == name)
    return group


def _outcomes(patches: Iterable[Patch], root: Path) -> dict[str, Outcome]:
    tree = FolderTree(root)
    return {patch.id: find(patch.operation, tree).outcome for patch in patches}


@pytest.mark.wheels
@pytest.mark.parametrize("version", ["0.5.3", "0.6.3", "0.6.6", "0.6.7", "0.6.8"])
def test_every_anchor_of_trtllm_comm_fits_the_releases_before_the_fix(
    unpacked: Unpacked, version: str
) -> None:
    group = _group("trtllm-comm")
    outcomes = _outcomes(group.patches, unpacked("flashinfer-python", version))
    assert set(outcomes.values()) == {Outcome.APPLICABLE}


@pytest.mark.wheels
@pytest.mark.parametrize("version", ["0.6.17", "0.7.4"])
def test_both_gates_of_trtllm_comm_are_open_upstream(unpacked: Unpacked, version: str) -> None:
    group = _group("trtllm-comm")
    outcomes = _outcomes(group.patches, unpacked("flashinfer-python", version))
    assert outcomes["jit-majors"] is Outcome.NOT_NEEDED
    assert outcomes["pdl-and-body-guards"] in (Outcome.NOT_NEEDED, Outcome.CONFLICT)


# flashinfer#2708: nobody sets the macro in 0.6.6, only MoE lacks it in 0.6.7, none in 0.6.8.
@pytest.mark.wheels
@pytest.mark.parametrize(
    ("version", "lacking"),
    [
        ("0.5.3", {"gemm-fp4", "gemm-groupwise", "moe"}),
        ("0.6.3", {"gemm-fp4", "gemm-groupwise", "moe"}),
        ("0.6.6", {"gemm-fp4", "gemm-groupwise", "moe"}),
        ("0.6.7", {"moe"}),
        ("0.6.8", set()),
        ("0.7.4", set()),
    ],
)
def test_the_pdl_flag_is_added_where_it_lacks(
    unpacked: Unpacked, version: str, lacking: set[str]
) -> None:
    outcomes = _outcomes(_group("gdc").patches, unpacked("flashinfer-python", version))
    assert {name for name, o in outcomes.items() if o is Outcome.APPLICABLE} == lacking
    assert {name for name, o in outcomes.items() if o is Outcome.NOT_NEEDED} == (
        outcomes.keys() - lacking
    )


@pytest.mark.wheels
@pytest.mark.parametrize(
    ("version", "variant"), [("0.6.3", 0), ("0.6.6", 1), ("0.6.8", 1), ("0.6.17", 1)]
)
def test_the_router_gates_are_found_in_the_file_of_their_release(
    unpacked: Unpacked, version: str, variant: int
) -> None:
    root = unpacked("flashinfer-python", version)
    for index, each in enumerate(_group("dsv3-router").variants):
        expected = Outcome.APPLICABLE if index == variant else Outcome.MISSING
        assert set(_outcomes(each.patches, root).values()) == {expected}


class Compiler:
    """nvcc with the flags and the include order of a release's JIT build."""

    def __init__(
        self, nvcc: Path, toolkit: Path, tvm_ffi: Path, data: Path, vendored: Path
    ) -> None:
        self.nvcc, self.data = nvcc, data
        system = [
            sysconfig.get_path("include"),
            toolkit / "include",
            toolkit / "include" / "cccl",
            tvm_ffi / "tvm_ffi" / "include",
            data / "include",
            data / "csrc",
            vendored / "cutlass" / "include",
            vendored / "cutlass" / "tools" / "util" / "include",
            vendored / "spdlog" / "include",
        ]
        self.flags = [
            "-DPy_LIMITED_API=0x03090000",
            "-D_GLIBCXX_USE_CXX11_ABI=1",
            "-std=c++17",
            "--expt-relaxed-constexpr",
            "-use_fast_math",
            "-DNDEBUG",
            "-O3",
            *(
                f"-DFLASHINFER_ENABLE_{name}"
                for name in ("F16", "BF16", "FP8_E4M3", "FP8_E5M2", "FP8_E8M0", "FP4_E2M1")
            ),
            *(part for folder in system for part in ("-isystem", str(folder))),
        ]

    def run(self, target: str, *arguments: str | Path) -> str:
        code = f"-gencode=arch=compute_{target},code=sm_{target}"
        done = subprocess.run(
            [self.nvcc, *self.flags, code, *arguments],
            cwd=self.data,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def live_lines(self, target: str, unit: str = UNIT) -> Counter[tuple[str, str]]:
        """File and text of every line that the compiler sees of the package's own files."""
        lines: Counter[tuple[str, str]] = Counter()
        file = ""
        for line in self.run(target, "-E", unit).splitlines():
            marker = re.match(r'#\s*(?:line\s+)?\d+ "([^"]*)"', line)
            if marker:
                file = marker[1].removeprefix(f"{self.data}/")
            elif line.strip() and not file.startswith(("/", "<")):
                lines[file, _without_place(line.replace(f"{self.data}/", ""))] += 1
        return lines


def _without_place(line: str) -> str:
    """Macros of tvm-ffi and FlashInfer write __FILE__ and __LINE__ into the text."""
    return re.sub(r'("[^"]*\.(?:cu|cuh|h)"), \d+', r"\1, N", line.strip())


def _patched(root: Path, patches: Iterable[Patch], to: Path) -> Path:
    """The release's csrc and include with these patches carried out on their bytes."""
    for name in ("csrc", "include"):
        shutil.copytree(root / "flashinfer" / "data" / name, to / name)
    tree = FolderTree(root)
    edits: dict[str, list[Edit]] = {}
    for patch in patches:
        if isinstance(patch.operation, PythonGate):
            continue  # no part of what the compiler reads
        finding = find(patch.operation, tree)
        assert finding.outcome is Outcome.APPLICABLE, finding.reason
        for path, more in finding.edits.items():
            edits.setdefault(path, []).extend(more)
    for path, all_of_file in edits.items():
        target = to / path.removeprefix("flashinfer/data/")
        target.write_bytes(apply_edits(tree.read(path), all_of_file))
    return to


@pytest.fixture
def compiler(
    unpacked: Unpacked, nvcc: Path, toolkit: Path, tmp_path: Path
) -> Callable[[Iterable[Patch], str], Compiler]:
    """A compiler for flashinfer-python 0.6.3 with some patches carried out."""
    root = unpacked("flashinfer-python", "0.6.3")
    tvm_ffi = unpacked("apache-tvm-ffi", "0.1.15.post2")

    def make(patches: Iterable[Patch], name: str) -> Compiler:
        data = _patched(root, patches, tmp_path / name)
        return Compiler(nvcc, toolkit, tvm_ffi, data, root / "flashinfer" / "data")

    return make


@pytest.mark.wheels
@pytest.mark.nvcc
@pytest.mark.slow
def test_nvcc_sees_the_same_lines_on_12_as_on_10_and_nothing_else_changes(
    compiler: Callable[[Iterable[Patch], str], Compiler],
) -> None:
    patches = _group("trtllm-comm").patches
    guards = [patch for patch in patches if isinstance(patch.operation, CudaGuard)]
    before, guarded = compiler([], "before"), compiler(guards, "guards")
    after = compiler(patches, "all")

    reference = before.live_lines("100a")
    missing = reference - before.live_lines("120a")
    assert sum(missing.values()) == 75
    assert {file for file, _ in missing} == {HEADER.removeprefix("flashinfer/data/")}

    fixed = after.live_lines("100a")
    for target in ("120a", "120f", "121a"):
        assert guarded.live_lines(target) == reference
        assert after.live_lines(target) == fixed
    for target in ("80", "89", "90a", "100a", "103a"):
        assert guarded.live_lines(target) == before.live_lines(target)


ONE_KERNEL = """
#include "flashinfer/comm/trtllm_allreduce.cuh"
namespace flashinfer::trtllm_allreduce::reduce_fusion {
template cudaError_t lamport_style_one_shot_all_reduce_norm_kernel_launcher<half, 2, true, true>(
    AllReduceParams<half>, bool, cudaStream_t);
}
"""


def _statements(ptx: str) -> dict[str, int]:
    """PTX statements of each kernel; labels and declarations are none."""
    bodies = re.findall(r"\.entry (\w+)\([^{]*\{(.*?)\n\}", ptx, re.DOTALL)
    return {
        name: len(re.findall(r"^\s+@?[%a-z][^:\n]*;", body, re.MULTILINE)) for name, body in bodies
    }


@pytest.mark.wheels
@pytest.mark.nvcc
@pytest.mark.slow
def test_the_lamport_kernel_is_empty_before_and_whole_after(
    compiler: Callable[[Iterable[Patch], str], Compiler], tmp_path: Path
) -> None:
    unit = tmp_path / "one.cu"
    unit.write_text(ONE_KERNEL)
    counts = {}
    for name, patches in (("before", ()), ("after", _group("trtllm-comm").patches)):
        nvcc = compiler(patches, name)
        for target in ("100a", "120f"):
            out = tmp_path / f"{name}.{target}.ptx"
            nvcc.run(target, "-ptx", unit, "-o", out)
            counts[name, target] = _statements(out.read_text())
    assert len(counts["before", "120f"]) == 8  # one kernel for each cluster size
    assert set(counts["before", "120f"].values()) == {1}  # nothing but `ret`
    assert min(counts["before", "100a"].values()) > 100
    assert counts["after", "120f"] == counts["before", "100a"] == counts["after", "100a"]
    nvcc.run("120a", "-c", unit, "-o", tmp_path / "one.o")


@pytest.mark.wheels
@pytest.mark.nvcc
def test_the_whole_unit_passes_the_front_end(
    compiler: Callable[[Iterable[Patch], str], Compiler], tmp_path: Path
) -> None:
    """cudafe++ instantiates every template of host and device; code generation takes minutes."""
    nvcc = compiler(_group("trtllm-comm").patches, "all")
    done = subprocess.run(
        [
            nvcc.nvcc,
            *nvcc.flags,
            "-gencode=arch=compute_120a,code=sm_120a",
            "--dryrun",
            "--keep",
            "--keep-dir",
            tmp_path,
            "-c",
            UNIT,
            "-o",
            tmp_path / "x.o",
        ],
        cwd=nvcc.data,
        capture_output=True,
        text=True,
        check=True,
    )
    commands = [line.removeprefix("#$ ") for line in done.stderr.splitlines()]
    front = next(index for index, line in enumerate(commands) if line.startswith("cudafe++"))
    script = [re.sub(r"^(\w+)=(.*)$", r'export \1="\2"', line) for line in commands[: front + 1]]
    subprocess.run(
        ["bash", "-euc", "\n".join(script)], cwd=nvcc.data, check=True, capture_output=True
    )
    assert (tmp_path / "trtllm_allreduce.cudafe1.cpp").stat().st_size > 0


@pytest.mark.wheels
@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("target", "filled"), [("120", False), ("120a", True), ("120f", True), ("121a", True)]
)
def test_the_pdl_flag_fills_the_barrier_on_a_and_f_targets(
    unpacked: Unpacked, nvcc: Path, tmp_path: Path, target: str, filled: bool
) -> None:
    """flashinfer#2913, with CUTLASS as 0.6.6 brings it."""
    unit = tmp_path / "gdc.cu"
    unit.write_text("#include <cutlass/arch/grid_dependency_control.h>\n")
    cutlass = unpacked("flashinfer-python", "0.6.6") / "flashinfer" / "data" / "cutlass" / "include"

    def waits(*flags: str) -> bool:
        done = subprocess.run(
            [
                nvcc,
                "-std=c++17",
                "--expt-relaxed-constexpr",
                "-isystem",
                cutlass,
                *flags,
                f"-gencode=arch=compute_{target},code=sm_{target}",
                "-E",
                unit,
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        barrier = done.stdout.rpartition("void wait_on_dependent_grids")[2]
        return "griddepcontrol.wait" in barrier

    assert not waits()
    assert waits("-DCUTLASS_ENABLE_GDC_FOR_SM100=1") is filled
