"""The patchsets of SGLang, vLLM and the CuTe DSL on the files of real releases, as a stack.

Features over two packages in one transaction, sources in three languages, the real compiler and
CMake, and what must be refused. Each single variant is in test_boundaries.py.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.arch import DEVICE, ArchSet, Capability
from patcher.errors import Exit
from tests.patchsets.installed import Installed, unpack
from tests.patchsets.places import sizes_file

pytestmark = [pytest.mark.wheels, pytest.mark.slow]
Sliced = Callable[..., Path]
TWELVE = ArchSet.of(Capability(12, 0), Capability(12, 1))
SPARK = ArchSet.of(Capability(12, 1))
COMM = "sglang/srt/layers/communicator.py"
CALLS = "is_sm90_supported() or is_sm100_supported()"
BOTH_VARIABLES = "_is_sm90_supported or _is_sm100_supported"


SGLANG, VLLM = "allreduce-fusion-sm120", "allreduce-fusion-vllm-sm120"


@pytest.mark.parametrize(("patchset", "caller", "version", "flashinfer"), [
    (SGLANG, "sglang", "0.5.7", "0.5.3"), (SGLANG, "sglang", "0.5.8.post1", "0.6.1"),
    (SGLANG, "sglang", "0.5.9", "0.6.3"), (VLLM, "vllm", "0.12.0", "0.5.3"),
    (VLLM, "vllm", "0.18.0", "0.6.6")])
def test_the_whole_feature_is_one_transaction(
        sliced: Sliced, tmp_path: Path, patchset: str, caller: str, version: str,
        flashinfer: str) -> None:
    root = Installed(tmp_path / "root")
    unpack(sliced(caller, version), root.root)
    unpack(sliced("flashinfer-python", flashinfer), root.root)
    before = root.bytes()
    assert root.run("apply", patchset) == Exit.DONE
    after = root.bytes()
    changed = {path for path in after if after[path] != before.get(path)}
    assert {path.partition("/")[0] for path in changed} == {"flashinfer", caller}
    majors = root.passes("flashinfer/jit/comm.py", "supported_major_versions",
                         "gen_trtllm_comm_module")
    assert not TWELVE - majors
    assert majors == _majors(before["flashinfer/jit/comm.py"]) | TWELVE
    assert root.run("revert", patchset) == Exit.DONE
    assert root.bytes() == before


def _majors(source: bytes) -> ArchSet:
    """What the module of a release is built for: its own list, read by eye once: [9, 10]."""
    assert b"supported_major_versions=[9, 10]" in source
    return ArchSet.of(*(t for t in DEVICE if t.capability.major in (9, 10)))


@pytest.mark.parametrize("broken", ["flashinfer/jit/comm.py", COMM])
@pytest.mark.parametrize("more", [(), ("--keep-going",)])
def test_half_of_it_never_stays_when_one_side_conflicts(
        sliced: Sliced, tmp_path: Path, broken: str, more: tuple[str, ...]) -> None:
    root = Installed(tmp_path / "root")
    unpack(sliced("sglang", "0.5.9"), root.root)
    unpack(sliced("flashinfer-python", "0.6.3"), root.root)
    text = (root.root / broken).read_text("utf-8")
    (root.root / broken).write_text(text.replace("supported_major_versions=[9, 10]", "majors=M()")
                               .replace(BOTH_VARIABLES, "_anything()"))
    before = root.bytes()
    assert root.run("apply", "allreduce-fusion-sm120", *more) == Exit.REFUSED
    assert root.bytes() == before


def test_half_of_it_never_stays_in_vllm_either(sliced: Sliced, tmp_path: Path) -> None:
    root = Installed(tmp_path / "root")
    unpack(sliced("vllm", "0.18.0"), root.root)
    unpack(sliced("flashinfer-python", "0.6.6"), root.root)
    path = root.root / sizes_file("0.18.0")
    text = path.read_text("utf-8")
    assert "\nFI_ALLREDUCE_FUSION_MAX_SIZE_MB: " in text
    path.write_text(text.replace("\nFI_ALLREDUCE_FUSION_MAX_SIZE_MB: ", "\nOTHER: "))
    before = root.bytes()
    assert root.run("apply", VLLM, "--keep-going") == Exit.REFUSED
    assert root.bytes() == before


def test_sglang_0_5_7_turns_on_what_flashinfer_0_5_3_refuses_and_both_ways_out(
        sliced: Sliced, tmp_path: Path) -> None:
    """sglang#15650: the servers' default includes 12.x, FlashInfer's list does not."""
    root = Installed(tmp_path / "root")
    unpack(sliced("sglang", "0.5.7"), root.root)
    unpack(sliced("flashinfer-python", "0.5.3"), root.root)
    default = ("sglang/srt/server_args.py", "is_sm90_supported() or is_blackwell_supported()",
               "ServerArgs._handle_model_specific_adjustments")
    comm = ("flashinfer/jit/comm.py", "supported_major_versions", "gen_trtllm_comm_module")
    caller, callee = root.passes(*default), root.passes(*comm)
    assert not TWELVE - caller
    assert not callee & TWELVE
    before = root.bytes()
    assert root.run("apply", "sglang-sm120", "--group", "allreduce-fusion-off") == Exit.DONE
    narrowed = (default[0], CALLS, default[2])
    assert root.passes(*narrowed) == caller - TWELVE
    assert root.run("revert", "sglang-sm120") == Exit.DONE
    assert root.bytes() == before
    assert root.run("apply", "allreduce-fusion-sm120") == Exit.DONE
    assert root.passes(*comm) == callee | TWELVE
    assert root.passes(*default) == caller


def test_preconditions_are_said_before_anything_is_written(
        sliced: Sliced, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = Installed(tmp_path / "root")
    unpack(sliced("sglang", "0.5.9"), root.root)
    unpack(sliced("flashinfer-python", "0.6.3"), root.root)
    assert root.run("apply", "allreduce-fusion-sm120", "--check") == Exit.CHECK_FAILED
    said = " ".join(" ".join(capsys.readouterr()).split())
    assert "one node" in said
    assert "nnodes == 1" in said


SOURCE = ("--group", "sm120-family", "--group", "sm121-archs", "--group", "marlin-w4a8")


@pytest.fixture
def tree(sliced: Sliced, tmp_path: Path, request: pytest.FixtureRequest) -> Installed:
    """vLLM's sources, as far as its patchset looks at them."""
    root = Installed(tmp_path / "vllm")
    unpack(sliced("vllm", getattr(request, "param", "0.18.0"), "sources"), root.root)
    return root


def _of(*versions: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("tree", versions, indirect=True)


def test_vllm_sources_change_in_three_languages_and_come_back(tree: Installed) -> None:
    before = tree.bytes()
    assert tree.run("apply", "vllm-sm120", *SOURCE) == Exit.DONE
    after = tree.bytes()
    assert {p for p in after if after[p] != before[p]} == {
        "CMakeLists.txt", "csrc/cutlass_extensions/common.hpp",
        "csrc/quantization/marlin/generate_kernels.py", "csrc/quantization/marlin/marlin.cu",
        "csrc/moe/marlin_moe_wna16/generate_kernels.py", "csrc/moe/marlin_moe_wna16/ops.cu",
        "vllm/model_executor/layers/quantization/utils/marlin_utils.py"}
    marlin = "vllm/model_executor/layers/quantization/utils/marlin_utils.py"
    asked = [tree.passes(marlin, f"current_platform.is_device_capability({number})")
             for number in (120, 121)]
    assert asked[0] | asked[1] >= SPARK
    assert tree.run("revert", "vllm-sm120") == Exit.DONE
    assert tree.bytes() == before


def test_its_wheel_is_not_touched_by_what_is_for_sources(
        sliced: Sliced, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = Installed(tmp_path / "root")
    unpack(sliced("vllm", "0.18.0"), root.root)
    before = root.bytes()
    assert root.run("apply", "vllm-sm120", "--group", "marlin-w4a8") == Exit.REFUSED
    said = capsys.readouterr()
    assert "is for a source-tree" in said.out + said.err
    assert root.bytes() == before


KERNEL = """\
#include <cstdio>
#include <utility>
#define CUTLASS_DEVICE __device__
%s
struct Body { __device__ void operator()(int *p) { *p = 42; } };
__global__ void kernel(int *p) { enable_sm120_only<Body>{}(p); }
"""


@pytest.mark.nvcc
@_of("0.11.0", "0.14.1", "0.16.0", "0.18.0", "0.21.0")
def test_the_wrapper_runs_its_kernel_on_12_1_and_is_the_same_on_12_0(
        tree: Installed, nvcc: Path, tmp_path: Path) -> None:
    """vllm#35568, with the wrapper as it stands in the release and the real compiler."""
    header = tree.root / "csrc/cutlass_extensions/common.hpp"

    def wrapper() -> str:
        text = header.read_text("utf-8")
        start = text.index("template <typename Kernel>\nstruct enable_sm120_only")
        return text[start:text.index("};", start) + 2]

    def ptx(target: str) -> str:
        unit = tmp_path / "unit.cu"
        unit.write_text(KERNEL % wrapper())
        number = target.removeprefix("sm_")
        gencode = f"-gencode=arch=compute_{number},code=compute_{number}"
        subprocess.run([nvcc, "-std=c++17", "-ptx", gencode, unit, "-o", tmp_path / "unit.ptx"],
                       check=True)
        made = (tmp_path / "unit.ptx").read_text()
        return made[made.index(".visible .entry"):]

    before = {target: ptx(target) for target in ("sm_120a", "sm_120f", "sm_121a")}
    # up to 0.14.1 there is nothing else for the others
    assert ("trap;" in before["sm_121a"]) is ("trap" in wrapper())
    assert ", 42;" not in before["sm_121a"]
    assert tree.run("apply", "vllm-sm120", "--group", "sm120-family") == Exit.DONE
    after = {target: ptx(target) for target in before}
    assert "trap;" not in after["sm_121a"]
    assert ", 42;" in after["sm_121a"]
    assert [after[t] for t in ("sm_120a", "sm_120f")] == [before[t] for t in ("sm_120a", "sm_120f")]


TORCH = """\
#pragma once
#include <limits>
#include <stdexcept>
#include <string>
#include <tuple>
#include <variant>
#include <vector>
#define TORCH_CHECK(...) do {} while (0)
"""
MARLIN = """\
#include "quantization/marlin/kernel.h"
#include "quantization/marlin/marlin_template.h"
namespace MARLIN_NAMESPACE_NAME {
template __global__ void Marlin<vllm::kFE4M3fn.id(), vllm::kFE2M1f.id(), vllm::kBFloat16.id(),
                                vllm::kFE8M0fnu.id(), 256, 1, 8, 8, false, 4, 2, false>(
    MARLIN_KERNEL_PARAMS);
}
"""


@pytest.mark.nvcc
@_of("0.16.0", "0.18.0")
def test_marlins_kernel_is_the_same_on_12_1_as_on_12_0(tree: Installed, nvcc: Path,
                                                       tmp_path: Path) -> None:
    """What the group lets be generated, with the release's own template. The kernel needs nothing
    of torch but a macro; its e4m3 mma is the instruction that the five gates are about."""
    for name in ("torch/all.h", "torch/library.h", "ATen/cuda/CUDAContext.h",
                 "c10/cuda/CUDAGuard.h"):
        (tmp_path / "torch" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "torch" / name).write_text(TORCH)
    assert tree.run("apply", "vllm-sm120", "--group", "marlin-w4a8") == Exit.DONE
    unit = tmp_path / "unit.cu"
    unit.write_text(MARLIN)
    made = {}
    for number in ("120a", "121a"):
        ptx = tmp_path / f"{number}.ptx"
        subprocess.run(
            [nvcc, "-std=c++17", "-ptx", "--expt-relaxed-constexpr", "-w",
             "-DMARLIN_NAMESPACE_NAME=marlin", "-I", tmp_path / "torch", "-I", tree.root / "csrc",
             f"-gencode=arch=compute_{number},code=compute_{number}", unit, "-o", ptx], check=True)
        subprocess.run([nvcc.with_name("ptxas"), f"-arch=sm_{number}", ptx, "-o", "/dev/null"],
                       check=True)
        made[number] = ptx.read_text().replace(f"sm_{number}", "")
    assert len(re.findall(r"mma\.sync\S*e4m3", made["121a"])) > 0
    assert "trap;" not in made["121a"]
    assert made["121a"] == made["120a"]


@_of("0.12.0", "0.18.1")
def test_cmake_itself_builds_for_12_1a_afterwards(tree: Installed, tmp_path: Path) -> None:
    """The release's own function on its own lists, with 12.1 asked for and CUDA 12.9."""
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("cmake is not here")

    def built() -> dict[str, str]:
        listing = (tree.root / "CMakeLists.txt").read_text("utf-8")
        (supported,) = re.findall(r'set\(CUDA_SUPPORTED_ARCHS ("7\.0[^"]*12[^"]*")\)', listing)
        wanted = {}
        for name in ("SCALED_MM_ARCHS", "FP4_ARCHS"):
            (wanted[name],) = re.findall(
                rf'cuda_archs_loose_intersection\({name} ("12\.0a[^"]*")', listing)
        script = tmp_path / "ask.cmake"
        text = (tree.root / "cmake/utils.cmake").read_text("utf-8")
        start = text.index("function(cuda_archs_loose_intersection")
        lines = ["cmake_minimum_required(VERSION 3.20)",
                 text[start:text.index("endfunction()", start)], "endfunction()",
                 f'cuda_archs_loose_intersection(CUDA_ARCHS {supported} "12.1")']
        for name, source in wanted.items():
            lines += [f'cuda_archs_loose_intersection({name} {source} "${{CUDA_ARCHS}}")',
                      f'message(STATUS "{name}=${{{name}}}")']
        script.write_text("\n".join(lines))
        said = subprocess.run([cmake, "-P", script], capture_output=True, text=True, check=True)
        return dict(re.findall(r"(\w+_ARCHS)=(\S*)", said.stdout))

    assert built() == {"SCALED_MM_ARCHS": "12.0a", "FP4_ARCHS": "12.0a"}  # not for 12.1
    assert tree.run("apply", "vllm-sm120", "--group", "sm121-archs") == Exit.DONE
    assert built() == {"SCALED_MM_ARCHS": "12.1a", "FP4_ARCHS": "12.1a"}


FILTER = ('find: "arch.is_family_of(Arch.sm_100f) or arch.is_family_of(Arch.sm_110f)"',
          'replace: "arch.is_family_of(Arch.sm_100f) or arch.is_family_of(Arch.sm_120f)"')


def _targets(worlds: ArchSet) -> set[str]:
    return {name for name in worlds.names if name.startswith("sm_")}


@pytest.mark.parametrize("version", ["4.4.0", "4.4.2"])
def test_the_dsl_takes_12_1a_for_block_scaling_and_not_for_tcgen05(
        sliced: Sliced, tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str) -> None:
    """Case C7, cutlass#2802 and cutlass#3082."""
    root = Installed(tmp_path / "root")
    unpack(sliced("nvidia-cutlass-dsl-libs-base", version), root.root)
    before = root.bytes()
    folder = "nvidia_cutlass_dsl/python_packages/cutlass/cute/nvgpu"
    warp = (f"{folder}/warp/mma.py", "arch == Arch.sm_120a",
            "MmaSM120BlockScaledOp.__post_init__")
    assert _targets(root.passes(*warp)) == {"sm_120a"}
    assert root.run("apply", "cutlass-dsl-sm121", arch="sm_121a") == Exit.DONE
    opened = (warp[0], "arch in (Arch.sm_120a, Arch.sm_121a)", warp[2])
    assert _targets(root.passes(*opened)) == {"sm_120a", "sm_121a"}
    changed = {p for p, data in root.bytes().items() if data != before[p]}
    assert changed == {f"{folder}/warp/mma.py"}
    text = (root.root / folder / "warp/mma.py").read_text("utf-8")
    assert "if not arch in (Arch.sm_120a, Arch.sm_121a):" in text
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(f"""\
sm-patch: 1
name: wrong
package: nvidia-cutlass-dsl-libs-base
groups:
  - id: tcgen05
    patches:
      - id: list
        affects: all
        reason: to see it refused
        text:
          file: {folder}/tcgen05/mma.py
          find: "        Arch.sm_103a,\\n    ]"
          replace: "        Arch.sm_103a,\\n        Arch.sm_121a,\\n    ]"
          count: 1
""")
    capsys.readouterr()
    ours = root.bytes()
    assert root.run("apply", str(wrong)) == Exit.REFUSED
    assert "known to be wrong (tcgen05)" in capsys.readouterr().out
    # a second op of the file, its list a filter over families: refused for the same reason
    wrong.write_text(wrong.read_text().replace('find: "        Arch.sm_103a,\\n    ]"', FILTER[0])
                     .replace('replace: "        Arch.sm_103a,\\n        Arch.sm_121a,\\n    ]"',
                              FILTER[1]))
    assert FILTER[0] in wrong.read_text()
    assert FILTER[1] in wrong.read_text()
    assert root.run("apply", str(wrong)) == Exit.REFUSED
    assert "known to be wrong (tcgen05)" in capsys.readouterr().out
    assert root.bytes() == ours
    assert root.run("revert", "cutlass-dsl-sm121") == Exit.DONE
    assert root.bytes() == before


FOREIGN = """\
sm-patch: 1
name: foreign
package: {name}
groups:
  - id: main
    patches:
      - id: one
        affects: all
        reason: to see what is said
        text: {{file: {path}, find: "{old}", replace: "{new}", count: {count}}}
"""
ATTENTION = "sglang/srt/layers/attention"


@pytest.mark.parametrize(("name", "version", "path", "old", "new", "count", "row", "code"), [
    ("vllm", "0.16.0", "vllm/v1/attention/backends/mla/flashmla.py",
     "capability.major in [9, 10]", "capability.major in [9, 10, 12]", 1, "flashmla",
     Exit.REFUSED),
    ("vllm", "0.16.0", "vllm/model_executor/layers/fused_moe/triton_cutlass_moe.py",
     "has_device_capability(100)", "has_device_capability(100) or is_sm120()", 1, "already-open",
     Exit.DONE),
    ("vllm", "0.16.0", "vllm/model_executor/layers/quantization/mxfp4.py", "< (11, 0)",
     "< (13, 0)", 2, "vllm-triton-mxfp4", Exit.DONE),
    ("sglang", "0.5.9", "sglang/srt/utils/common.py", "device_capability_majors=[10],",
     "device_capability_majors=[10, 12],", 1, "sglang-sm100-definition", Exit.REFUSED),
    ("sglang", "0.5.9", f"{ATTENTION}/nsa_backend.py", "device_sm < 110", "device_sm < 130", 1,
     "sglang-nsa-mha", Exit.REFUSED),
    ("sglang", "0.5.23", f"{ATTENTION}/qwen_sparse_attn_backend.py",
     "is_sm100_supported() or is_sm120()", "is_sm100_supported() or is_sm120_supported()", 1,
     "sglang-qsa", Exit.REFUSED),
])
def test_wrong_changes_of_real_files_are_named(
        sliced: Sliced, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str,
        version: str, path: str, old: str, new: str, count: int, row: str, code: Exit) -> None:
    root = Installed(tmp_path / "root")
    unpack(sliced(name, version), root.root)
    foreign = tmp_path / "foreign.yaml"
    foreign.write_text(FOREIGN.format(name=name, path=path, old=old, new=new, count=count))
    assert root.run("diff", str(foreign)) == code
    said = capsys.readouterr()
    assert f"known to be wrong ({row})" in said.err
