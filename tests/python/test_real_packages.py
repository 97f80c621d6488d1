"""Real releases: the gates that reports and source text name, and edits that keep every byte."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.arch import EMPTY, ArchSet
from patcher.edits import apply_edits
from patcher.gates import Cause, Effect, Gate
from patcher.python.find import excludes, find_gates
from patcher.python.index import Index
from patcher.python.model import GateSpec, Rewrite, Status
from patcher.python.rewrite import rewrite
from patcher.tree import FolderTree

from .conftest import capabilities, names

Unpacked = Callable[[str, str], Path]
pytestmark = pytest.mark.wheels
BOTH = capabilities("12.0", "12.1")
TARGETS = [ArchSet.of(name) for name in ("sm_120a", "sm_120f", "sm_121a")]
REFERENCES = ArchSet.of("sm_90a", "sm_100a")
D = ["10.0", "10.1", "10.3", "10.7"]


@pytest.fixture(scope="module")
def gates(unpacked: Unpacked) -> Callable[[str, str], list[Gate]]:
    """All gates of a release, found once."""
    known: dict[tuple[str, str], list[Gate]] = {}

    def of(distribution: str, version: str) -> list[Gate]:
        key = distribution, version
        if key not in known:
            folder = distribution.partition("-")[0]
            known[key] = find_gates(FolderTree(unpacked(distribution, version)), folder)
        return known[key]

    return of


def at(found: list[Gate], path: str, within: str) -> list[Gate]:
    return [g for g in found if g.location.path == path and g.within == within]


@pytest.mark.parametrize("version", ["0.5.3", "0.6.3", "0.6.6"])
def test_trtllm_comm_excludes_every_12x_target(gates: Callable[..., list[Gate]],
                                               version: str) -> None:
    """flashinfer PR 3903: ``[9, 10]`` in gen_trtllm_comm_module."""
    (gate,) = at(gates("flashinfer-python", version), "flashinfer/jit/comm.py",
                 "gen_trtllm_comm_module")
    assert gate.condition == "supported_major_versions=[9, 10]"
    assert names(gate.worlds.open) == ["9.0", *D]
    assert (gate.rule, gate.effect) == ("PY-MAJORS", Effect.ERROR)
    assert all(excludes(gate, target, REFERENCES) for target in TARGETS)


@pytest.mark.slow
def test_later_release_opened_it_and_quotes_why_the_other_stays(
        gates: Callable[..., list[Gate]]) -> None:
    """0.7.4: the fusion is open; of MNNVL a comment says that SM12x is excluded on purpose."""
    found = gates("flashinfer-python", "0.7.4")
    (comm,) = at(found, "flashinfer/jit/comm.py", "gen_trtllm_comm_module")
    (mnnvl,) = at(found, "flashinfer/jit/comm.py", "gen_trtllm_mnnvl_comm_module")
    assert not excludes(comm, BOTH, REFERENCES)
    assert excludes(mnnvl, BOTH, REFERENCES)
    assert mnnvl.cause is Cause.INTENDED
    assert "SM12x) are intentionally excluded" in mnnvl.evidence[0].text


def test_counts_of_the_explicit_shapes(gates: Callable[..., list[Gate]],
                                       unpacked: Unpacked) -> None:
    """Against ``ast`` over the same files: every keyword list and every decorator is a gate."""
    root = unpacked("flashinfer-python", "0.6.3")
    keywords = decorators = 0
    for path in (root / "flashinfer").rglob("*.py"):
        if "/data/" in str(path):
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.keyword) and node.arg == "supported_major_versions":
                keywords += 1
            if isinstance(node, ast.FunctionDef):
                decorators += sum("supported_compute_capability" in ast.unparse(d)
                                  for d in node.decorator_list)
    found = Counter(rule for g in gates("flashinfer-python", "0.6.3")
                    for rule in [g.rule] * g.count)
    assert found["PY-MAJORS"] == keywords
    assert found["PY-DECORATOR"] == decorators


@pytest.mark.parametrize(("path", "within", "open_"), [
    ("flashinfer/gemm/routergemm_dsv3.py", "_mm_M1_16_K7168_N256_shape_checks", ["10.0"]),
    ("flashinfer/jit/mla.py", "gen_mla_module", [*D, "11.0"]),
    ("flashinfer/deep_gemm.py", "must_be_k_major", ["9.0", "10.0", "10.3"]),
    ("flashinfer/cute_dsl/blockscaled_gemm.py",
     "Sm100BlockScaledPersistentDenseGemmKernel.__init__", ["10.0", "10.3"]),
    ("flashinfer/gemm/gemm_base.py", "tgv_gemm_sm100", ["10.0", "10.3"]),
    ("flashinfer/jit/gdn.py", "gen_gdn_prefill_sm90_module", ["9.0"]),
    ("flashinfer/mla.py", "trtllm_batch_decode_with_kv_cache_mla", D),
])
def test_named_gates_of_0_6_3(gates: Callable[..., list[Gate]], path: str, within: str,
                              open_: list[str]) -> None:
    """Read from the source: each lists these and no 12.x."""
    found = [g for g in at(gates("flashinfer-python", "0.6.3"), path, within)
             if excludes(g, BOTH, REFERENCES)]
    assert open_ in [names(g.worlds.open) for g in found]


def test_a_version_of_cudnn_is_no_gate(gates: Callable[..., list[Gate]]) -> None:
    found = at(gates("flashinfer-python", "0.6.3"), "flashinfer/gemm/gemm_base.py",
               "_check_cudnn_fp4_availability")
    assert found == []


def test_a_ladder_with_an_arm_for_12_excludes_nothing(gates: Callable[..., list[Gate]]) -> None:
    found = at(gates("flashinfer-python", "0.6.3"), "flashinfer/gemm/gemm_base.py",
               "get_cutlass_fp4_gemm_module")
    assert len(found) >= 2
    assert not any(excludes(g, BOTH, REFERENCES) for g in found)


def test_sglang_fusion_and_the_table_without_12(gates: Callable[..., list[Gate]]) -> None:
    found = gates("sglang", "0.5.9")
    (fusion,) = at(found, "sglang/srt/layers/communicator.py", "apply_flashinfer_allreduce_fusion")
    assert names(fusion.worlds.unknown) == ["9.0", *D]
    assert excludes(fusion, BOTH, REFERENCES)
    tables = [g for g in found if g.rule == "PY-TABLE" and "torch_symm_mem" in g.location.path]
    assert {tuple(names(g.worlds.open)) for g in tables} == {("9.0", *D)}
    assert all(g.effect is Effect.ERROR for g in tables)
    assert not [g for g in found if "9, 4" in g.condition]  # a ROCm number


EDITS = [
    ("flashinfer-python", "0.6.3", "flashinfer/jit/comm.py", "supported_major_versions",
     "gen_trtllm_comm_module", 1),
    ("flashinfer-python", "0.5.3", "flashinfer/jit/comm.py", "supported_major_versions",
     "gen_trtllm_comm_module", 1),
    ("flashinfer-python", "0.6.3", "flashinfer/gemm/routergemm_dsv3.py",
     "supported_compute_capability", "", 2),
    ("flashinfer-python", "0.6.3", "flashinfer/mla.py",
     "get_compute_capability(query.device)[0] == 10", "", 1),
    ("sglang", "0.5.9", "sglang/srt/layers/communicator.py", "_is_sm100_supported",
     "apply_flashinfer_allreduce_fusion", 1),
    ("sglang", "0.5.8.post1", "sglang/srt/layers/communicator.py",
     "_is_sm100_supported or _is_sm90_supported", "", 1),
    ("sglang", "0.5.9", "sglang/srt/server_args.py",
     "is_sm100_supported() or is_sm90_supported()", "", 1),
    ("sglang", "0.5.9", "sglang/srt/models/deepseek_v2.py", "90 <= _device_sm < 120", "", 1),
    ("sglang", "0.5.9", "sglang/srt/distributed/device_communicators/all_reduce_utils.py",
     "TORCH_SYMM_MEM_ALL_REDUCE_MAX_SIZES", "", 1),
]


def plan(root: Path, path: str, source: bytes, spec: GateSpec) -> Rewrite:
    return rewrite(source, path, spec, Index(FolderTree(root), path))


@pytest.mark.parametrize(("distribution", "version", "path", "gate", "within", "count"), EDITS)
def test_real_edits_keep_the_rest_and_plan_to_nothing(
        unpacked: Unpacked, distribution: str, version: str, path: str, gate: str, within: str,
        count: int) -> None:
    root = unpacked(distribution, version)
    source = (root / path).read_bytes()
    spec = GateSpec(gate, within, BOTH, count=count)
    made = plan(root, path, source, spec)
    assert made.status is Status.REWRITTEN, made.reason
    assert names(made.effective) == ["12.0", "12.1"]
    for before, after in zip(made.before, made.after, strict=True):
        assert after == before | BOTH
    new = apply_edits(source, made.edits)
    old_lines, new_lines = source.splitlines(), new.splitlines()
    kept = sum((Counter(old_lines) & Counter(new_lines)).values())
    assert len(old_lines) - kept <= count  # only the gates' own lines go
    assert plan(root, path, new, spec).status is Status.ALREADY
    back = plan(root, path, new, GateSpec(gate, within, EMPTY, BOTH, count))
    if back.status is Status.REWRITTEN:
        assert back.after == made.before


@pytest.mark.parametrize(("version", "status"), [
    ("0.5.3", Status.REWRITTEN), ("0.6.6", Status.REWRITTEN), ("0.6.17", Status.ALREADY),
    ("0.7.4", Status.ALREADY)])
def test_gates_decide_over_versions(unpacked: Unpacked, version: str, status: Status) -> None:
    root, path = unpacked("flashinfer-python", version), "flashinfer/jit/comm.py"
    made = plan(root, path, (root / path).read_bytes(),
                GateSpec("supported_major_versions", "gen_trtllm_comm_module", BOTH))
    assert made.status is status
    assert bool(made.edits) == (status is Status.REWRITTEN)


def test_a_switch_of_the_whole_family_is_not_that_gate(unpacked: Unpacked) -> None:
    """``device_capability_majors`` names five definitions: never one by accident."""
    root, path = unpacked("sglang", "0.5.9"), "sglang/srt/utils/common.py"
    made = plan(root, path, (root / path).read_bytes(), GateSpec("device_capability_majors", "",
                                                                 BOTH))
    assert made.status is Status.WRONG_COUNT
