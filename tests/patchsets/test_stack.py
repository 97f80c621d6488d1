"""The patchsets of SGLang, vLLM and the CuTe DSL on the files of real releases.

Each is applied to a copy, its gates are read again, and it is reverted to the byte. Which
capabilities must pass is written here, not taken from the patchsets.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patcher.arch import DEVICE, ArchSet, Capability
from patcher.cli import main
from patcher.errors import Exit
from patcher.python.index import Index
from patcher.python.match import match_gates
from patcher.python.model import GateSpec
from patcher.tree import FolderTree

pytestmark = [pytest.mark.wheels, pytest.mark.slow]
Sliced = Callable[..., Path]
TWELVE = ArchSet.of(Capability(12, 0), Capability(12, 1))
SPARK = ArchSet.of(Capability(12, 1))
COMM = "sglang/srt/layers/communicator.py"
NORM = "sglang/srt/layers/layer_boundary/residual/add_norm.py"
FUSION = "sglang/srt/layers/flashinfer_comm_fusion.py"
CALLS = "is_sm90_supported() or is_sm100_supported()"
FACTS = "get_platform().is_sm90 or get_platform().is_sm100"
BOTH_VARIABLES = "_is_sm90_supported or _is_sm100_supported"


def _unpack(archive: Path, root: Path) -> None:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(root)
        return
    with tarfile.open(archive) as source:
        # the first releases of 3.10 and 3.11 know no filter; the archive is the pinned one
        safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        source.extractall(root.parent, **safe)
    shutil.move(str(root.parent / archive.name.removesuffix(".tar.gz")), root)


def _bytes(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes()
            for path in sorted(root.rglob("*")) if path.is_file()}


def _run(verb: str, *arguments: str, root: Path) -> int:
    return main([verb, *arguments, "--root", str(root), "--state", str(root.parent / "state"),
                 *(() if verb == "revert" else ("--cuda", "13.0", "--arch", "sm_120a"))])


def _passes(root: Path, path: str, gate: str, within: str = "") -> ArchSet:
    """The devices that pass the one gate of that name."""
    tree = FolderTree(root)
    found = match_gates(tree.read(path), path, GateSpec(gate, within, DEVICE, ArchSet(0), 1, None),
                        Index(tree, path))
    (one,) = found
    return one.worlds_before & DEVICE


def _passes_wider(root: Path, path: str, function: str) -> ArchSet:
    """The devices for which the ``or`` of predicates in a function lets pass, by its own text."""
    text = (root / path).read_text("utf-8")
    body = text[text.index(f"def {function}("):]
    (gate,) = re.findall(r"\(((?:[\w.()]+ or )+[\w.()]+)\)", body[:1500])[:1]
    return _passes(root, path, gate, function)


@pytest.mark.parametrize(("version", "places"), [
    ("0.5.8.post1", [(COMM, "apply_flashinfer_allreduce_fusion")]),
    ("0.5.13", [(COMM, "apply_flashinfer_allreduce_fusion")]),
    ("0.5.14", [(COMM, "apply_flashinfer_allreduce_fusion"), (FUSION, "_resolve_backend")]),
    ("0.5.18", [(COMM, "apply_flashinfer_allreduce_fusion"), (FUSION, "_resolve_backend")]),
    ("0.5.19", [(COMM, "apply_flashinfer_allreduce_fusion"), (FUSION, "_resolve_backend")]),
    ("0.5.21", [(NORM, "apply_flashinfer_allreduce_fusion"), (FUSION, "_resolve_backend")]),
    ("0.5.23", [(NORM, "flashinfer_ar_fusion_applies"), (FUSION, "_resolve_backend")]),
])
def test_sglang_lets_12_pass_and_nobody_else_more(sliced: Sliced, tmp_path: Path, version: str,
                                                  places: list[tuple[str, str]]) -> None:
    root = tmp_path / "root"
    _unpack(sliced("sglang", version), root)
    shutil.copy(Path(__file__).parents[2] / "patchsets" / "sglang-sm120.yaml", tmp_path)
    patchset = tmp_path / "sglang-sm120.yaml"  # FlashInfer is not in this root
    patchset.write_text(patchset.read_text().replace(
        "    requires: [flashinfer-sm120/trtllm-comm]\n", ""))
    before, first = _bytes(root), [_passes_wider(root, *place) for place in places]
    assert not any(worlds & TWELVE for worlds in first)
    assert _run("apply", str(patchset), root=root) == Exit.DONE
    assert [_passes_wider(root, *place) for place in places] == [w | TWELVE for w in first]
    for path, data in _bytes(root).items():
        if path.endswith(".py") and data != before[path]:
            compile(data, path, "exec")
    assert _run("revert", "sglang-sm120", root=root) == Exit.DONE
    assert _bytes(root) == before


@pytest.mark.parametrize(("sglang", "flashinfer"), [
    ("0.5.7", "0.5.3"), ("0.5.8.post1", "0.6.1"), ("0.5.9", "0.6.3")])
def test_the_whole_feature_is_one_transaction(sliced: Sliced, tmp_path: Path, sglang: str,
                                              flashinfer: str) -> None:
    root = tmp_path / "root"
    _unpack(sliced("sglang", sglang), root)
    _unpack(sliced("flashinfer-python", flashinfer), root)
    before = _bytes(root)
    assert _run("apply", "allreduce-fusion-sm120", root=root) == Exit.DONE
    after = _bytes(root)
    changed = {path for path in after if after[path] != before.get(path)}
    assert {path.partition("/")[0] for path in changed} == {"flashinfer", "sglang"}
    majors = _passes(root, "flashinfer/jit/comm.py", "supported_major_versions",
                     "gen_trtllm_comm_module")
    assert not TWELVE - majors
    assert majors == _majors(before["flashinfer/jit/comm.py"]) | TWELVE
    assert _run("revert", "allreduce-fusion-sm120", root=root) == Exit.DONE
    assert _bytes(root) == before


def _majors(source: bytes) -> ArchSet:
    """What the module of a release is built for: its own list, read by eye once: [9, 10]."""
    assert b"supported_major_versions=[9, 10]" in source
    return ArchSet.of(*(t for t in DEVICE if t.capability.major in (9, 10)))


@pytest.mark.parametrize("broken", ["flashinfer/jit/comm.py", COMM])
@pytest.mark.parametrize("more", [(), ("--keep-going",)])
def test_half_of_it_never_stays_when_one_side_conflicts(
        sliced: Sliced, tmp_path: Path, broken: str, more: tuple[str, ...]) -> None:
    root = tmp_path / "root"
    _unpack(sliced("sglang", "0.5.9"), root)
    _unpack(sliced("flashinfer-python", "0.6.3"), root)
    text = (root / broken).read_text("utf-8")
    (root / broken).write_text(text.replace("supported_major_versions=[9, 10]", "majors=M()")
                               .replace(BOTH_VARIABLES, "_anything()"))
    before = _bytes(root)
    assert _run("apply", "allreduce-fusion-sm120", *more, root=root) == Exit.REFUSED
    assert _bytes(root) == before


def test_sglang_0_5_7_turns_on_what_flashinfer_0_5_3_refuses_and_both_ways_out(
        sliced: Sliced, tmp_path: Path) -> None:
    """sglang#15650: the servers' default includes 12.x, FlashInfer's list does not."""
    root = tmp_path / "root"
    _unpack(sliced("sglang", "0.5.7"), root)
    _unpack(sliced("flashinfer-python", "0.5.3"), root)
    default = ("sglang/srt/server_args.py", "is_sm90_supported() or is_blackwell_supported()",
               "ServerArgs._handle_model_specific_adjustments")
    comm = ("flashinfer/jit/comm.py", "supported_major_versions", "gen_trtllm_comm_module")
    caller, callee = _passes(root, *default), _passes(root, *comm)
    assert not TWELVE - caller
    assert not callee & TWELVE
    before = _bytes(root)
    assert _run("apply", "sglang-sm120", "--group", "allreduce-fusion-off", root=root) == Exit.DONE
    narrowed = (default[0], CALLS, default[2])
    assert _passes(root, *narrowed) == caller - TWELVE
    assert _run("revert", "sglang-sm120", root=root) == Exit.DONE
    assert _bytes(root) == before
    assert _run("apply", "allreduce-fusion-sm120", root=root) == Exit.DONE
    assert _passes(root, *comm) == callee | TWELVE
    assert _passes(root, *default) == caller


def test_preconditions_are_said_before_anything_is_written(
        sliced: Sliced, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "root"
    _unpack(sliced("sglang", "0.5.9"), root)
    _unpack(sliced("flashinfer-python", "0.6.3"), root)
    assert _run("apply", "allreduce-fusion-sm120", "--check", root=root) == Exit.CHECK_FAILED
    said = " ".join(capsys.readouterr().err.split())
    assert "one node" in said
    assert "nnodes == 1" in said


@pytest.mark.parametrize(("version", "path"), [
    ("0.14.1", "vllm/compilation/collective_fusion.py"),
    ("0.16.0", "vllm/compilation/passes/fusion/allreduce_rms_fusion.py"),
    ("0.33.0", "vllm/compilation/passes/fusion/allreduce_rms_fusion.py")])
def test_vllm_gets_rows_for_12_and_its_docstring_stays(sliced: Sliced, tmp_path: Path,
                                                       version: str, path: str) -> None:
    root = tmp_path / "root"
    _unpack(sliced("vllm", version), root)
    _unpack(sliced("flashinfer-python", "0.7.2"), root)  # whose own gates are open
    before = _bytes(root)
    first = _passes(root, path, "FI_ALLREDUCE_FUSION_MAX_SIZE_MB")
    assert not first & TWELVE
    assert _run("apply", "vllm-sm120", root=root) == Exit.DONE
    for name in ("FI_ALLREDUCE_FUSION_MAX_SIZE_MB", "_FI_ALLREDUCE_ONE_SHOT_MAX_SIZES_MB"):
        assert _passes(root, path, name) == first | TWELVE
    changed = {p for p, data in _bytes(root).items() if data != before[p]}
    assert changed == {path}  # not vllm/config/compilation.py, where the name is in a docstring
    assert _run("revert", "vllm-sm120", root=root) == Exit.DONE
    assert _bytes(root) == before


SOURCE = ("--group", "sm120-family", "--group", "sm121-archs", "--group", "marlin-w4a8")


@pytest.fixture
def tree(sliced: Sliced, tmp_path: Path) -> Path:
    """vLLM 0.18.0's sources, as far as its patchset looks at them."""
    root = tmp_path / "vllm"
    _unpack(sliced("vllm", "0.18.0", "sources"), root)
    return root


def test_vllm_sources_change_in_three_languages_and_come_back(tree: Path) -> None:
    before = _bytes(tree)
    assert _run("apply", "vllm-sm120", *SOURCE, root=tree) == Exit.DONE
    after = _bytes(tree)
    assert {p for p in after if after[p] != before[p]} == {
        "CMakeLists.txt", "csrc/cutlass_extensions/common.hpp",
        "csrc/quantization/marlin/generate_kernels.py", "csrc/quantization/marlin/marlin.cu",
        "csrc/moe/marlin_moe_wna16/generate_kernels.py", "csrc/moe/marlin_moe_wna16/ops.cu",
        "vllm/model_executor/layers/quantization/utils/marlin_utils.py"}
    marlin = "vllm/model_executor/layers/quantization/utils/marlin_utils.py"
    asked = [_passes(tree, marlin, f"current_platform.is_device_capability({number})")
             for number in (120, 121)]
    assert asked[0] | asked[1] >= SPARK
    assert _run("revert", "vllm-sm120", root=tree) == Exit.DONE
    assert _bytes(tree) == before


def test_its_wheel_is_not_touched_by_what_is_for_sources(
        sliced: Sliced, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "root"
    _unpack(sliced("vllm", "0.18.0"), root)
    before = _bytes(root)
    assert _run("apply", "vllm-sm120", "--group", "marlin-w4a8", root=root) == Exit.REFUSED
    said = capsys.readouterr()
    assert "is for a source-tree" in said.out + said.err
    assert _bytes(root) == before


KERNEL = """\
#include <cstdio>
#include <utility>
#define CUTLASS_DEVICE __device__
%s
struct Body { __device__ void operator()(int *p) { *p = 42; } };
__global__ void kernel(int *p) { enable_sm120_only<Body>{}(p); }
"""


@pytest.mark.nvcc
def test_the_wrapper_runs_its_kernel_on_12_1_and_is_the_same_on_12_0(
        tree: Path, nvcc: Path, tmp_path: Path) -> None:
    """vllm#35568, with the wrapper as it stands in the release and the real compiler."""
    header = tree / "csrc/cutlass_extensions/common.hpp"

    def ptx(target: str) -> str:
        text = header.read_text("utf-8")
        start = text.index("template <typename Kernel>\nstruct enable_sm120_only")
        unit = tmp_path / "unit.cu"
        unit.write_text(KERNEL % text[start:text.index("};", start) + 2])
        number = target.removeprefix("sm_")
        gencode = f"-gencode=arch=compute_{number},code=compute_{number}"
        subprocess.run([nvcc, "-std=c++17", "-ptx", gencode, unit, "-o", tmp_path / "unit.ptx"],
                       check=True)
        made = (tmp_path / "unit.ptx").read_text()
        return made[made.index(".visible .entry"):]

    before = {target: ptx(target) for target in ("sm_120a", "sm_120f", "sm_121a")}
    assert "trap;" in before["sm_121a"]
    assert ", 42;" not in before["sm_121a"]
    assert _run("apply", "vllm-sm120", "--group", "sm120-family", root=tree) == Exit.DONE
    after = {target: ptx(target) for target in before}
    assert "trap;" not in after["sm_121a"]
    assert ", 42;" in after["sm_121a"]
    assert [after[t] for t in ("sm_120a", "sm_120f")] == [before[t] for t in ("sm_120a", "sm_120f")]


def test_cmake_itself_builds_for_12_1a_afterwards(tree: Path, tmp_path: Path) -> None:
    """The release's own function on its own lists, with 12.1 asked for and CUDA 12.9."""
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("cmake is not here")

    def built() -> dict[str, str]:
        listing = (tree / "CMakeLists.txt").read_text("utf-8")
        (supported,) = re.findall(r'set\(CUDA_SUPPORTED_ARCHS ("7\.0[^"]*12[^"]*")\)', listing)
        wanted = {}
        for name in ("SCALED_MM_ARCHS", "FP4_ARCHS"):
            (wanted[name],) = re.findall(
                rf'cuda_archs_loose_intersection\({name} ("12\.0a[^"]*")', listing)
        script = tmp_path / "ask.cmake"
        text = (tree / "cmake/utils.cmake").read_text("utf-8")
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
    assert _run("apply", "vllm-sm120", "--group", "sm121-archs", root=tree) == Exit.DONE
    assert built() == {"SCALED_MM_ARCHS": "12.1a", "FP4_ARCHS": "12.1a"}


FILTER = ('find: "arch.is_family_of(Arch.sm_100f) or arch.is_family_of(Arch.sm_110f)"',
          'replace: "arch.is_family_of(Arch.sm_100f) or arch.is_family_of(Arch.sm_120f)"')


def _targets(worlds: ArchSet) -> set[str]:
    return {name for name in worlds.names if name.startswith("sm_")}


@pytest.mark.parametrize("version", ["4.4.0", "4.4.2"])
def test_the_dsl_takes_12_1a_for_block_scaling_and_not_for_tcgen05(
        sliced: Sliced, tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str) -> None:
    root = tmp_path / "root"
    _unpack(sliced("nvidia-cutlass-dsl-libs-base", version), root)
    before = _bytes(root)
    folder = "nvidia_cutlass_dsl/python_packages/cutlass/cute/nvgpu"
    warp = (f"{folder}/warp/mma.py", "arch == Arch.sm_120a",
            "MmaSM120BlockScaledOp.__post_init__")
    assert _targets(_passes(root, *warp)) == {"sm_120a"}
    assert _run("apply", "cutlass-dsl-sm121", root=root) == Exit.DONE
    opened = (warp[0], "arch in (Arch.sm_120a, Arch.sm_121a)", warp[2])
    assert _targets(_passes(root, *opened)) == {"sm_120a", "sm_121a"}
    changed = {p for p, data in _bytes(root).items() if data != before[p]}
    assert changed == {f"{folder}/warp/mma.py"}
    text = (root / folder / "warp/mma.py").read_text("utf-8")
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
    ours = _bytes(root)
    assert _run("apply", str(wrong), root=root) == Exit.REFUSED
    assert "known to be wrong (tcgen05)" in capsys.readouterr().out
    # a second op of the file, its list a filter over families: refused for the same reason
    wrong.write_text(wrong.read_text().replace('find: "        Arch.sm_103a,\\n    ]"', FILTER[0])
                     .replace('replace: "        Arch.sm_103a,\\n        Arch.sm_121a,\\n    ]"',
                              FILTER[1]))
    assert FILTER[0] in wrong.read_text()
    assert FILTER[1] in wrong.read_text()
    assert _run("apply", str(wrong), root=root) == Exit.REFUSED
    assert "known to be wrong (tcgen05)" in capsys.readouterr().out
    assert _bytes(root) == ours
    assert _run("revert", "cutlass-dsl-sm121", root=root) == Exit.DONE
    assert _bytes(root) == before


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
    root = tmp_path / "root"
    _unpack(sliced(name, version), root)
    foreign = tmp_path / "foreign.yaml"
    foreign.write_text(FOREIGN.format(name=name, path=path, old=old, new=new, count=count))
    assert _run("diff", str(foreign), root=root) == code
    said = capsys.readouterr()
    assert f"known to be wrong ({row})" in said.err
