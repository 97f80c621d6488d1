"""Changes known to be wrong are refused whoever writes them, and their neighbours go through.

The shapes are those of the named releases, cut down to the gate (cases C7, C16 and C17 among them).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.arch import ArchSet, Capability
from patcher.cli import main
from patcher.errors import Exit
from patcher.gates import Cause, Effect, Gate, Layer, Location, Severity, Worlds
from patcher.patchset.load import load_patchset
from patcher.patchset.shipped import shipped
from patcher.wrong import known_wrong, of_gate

BOTH = ArchSet.of(Capability(12, 0), Capability(12, 1))
HEAD = "sm-patch: 1\nname: foreign\npackage: {package}\ngroups:\n  - id: main\n    patches:\n"
GATE = """\
      - id: gate
        python-gate: {{file: {path}, gate: "{gate}", {direction}: {worlds}}}
"""
TEXT = """\
      - id: text
        affects: all
        reason: to see what is said
        text: {{file: {path}, find: "{old}", replace: "{new}"}}
"""
FLASHMLA = "vllm/v1/attention/backends/mla/flashmla.py"
FLASHMLA_CODE = """\
class FlashMLABackend:
    @classmethod
    def supports_compute_capability(cls, capability):
        return capability.major in [9, 10]
"""
TCGEN05 = "nvidia_cutlass_dsl/python_packages/cutlass/cute/nvgpu/tcgen05/mma.py"
TCGEN05_CODE = """\
from cutlass.base_dsl.arch import Arch
class BlockScaledMmaOp:
    admissible_archs = [
        Arch.sm_100a,
        Arch.sm_103a,
    ]
"""
COMMON = "sglang/srt/utils/common.py"
COMMON_CODE = """\
def _check(device_capability_majors, cuda_version):
    return torch.cuda.get_device_capability()[0] in device_capability_majors
is_sm100_supported = partial(_check, device_capability_majors=[10], cuda_version=(12, 8))
"""
QSA = "sglang/srt/layers/attention/qwen_sparse_attn_backend.py"
QSA_CODE = """\
def is_sm100_supported():
    return torch.cuda.get_device_capability()[0] == 10
def is_sm120():
    return torch.cuda.get_device_capability() == (12, 0)
def is_sm121():
    return torch.cuda.get_device_capability() == (12, 1)
def resolve():
    if not (is_sm100_supported() or is_sm120()):
        return None
    return kernel
"""
NSA = "sglang/srt/layers/attention/nsa_backend.py"
NSA_CODE = """\
def use_mha(self):
    device_sm = get_device_sm()
    return device_sm == 90 or (device_sm >= 100 and device_sm < 110)
def get_device_sm():
    major, minor = torch.cuda.get_device_capability()
    return major * 10 + minor
"""
MNNVL = "flashinfer/jit/comm.py"
MNNVL_CODE = """\
def gen_trtllm_comm_module():
    return flags(supported_major_versions=[9, 10])
def gen_trtllm_mnnvl_comm_module():
    return flags(supported_major_versions=[9, 10])
"""
MXFP4 = "vllm/model_executor/layers/quantization/mxfp4.py"
MXFP4_CODE = "ok = (9, 0) <= current_platform.get_device_capability() < (11, 0)\n"
NAMED = "vllm/model_executor/layers/fused_moe/triton_cutlass_moe.py"
NAMED_CODE = "is_sm100 = current_platform.has_device_capability(100)\n"
CVT = "flashinfer/data/include/flashinfer/fp4.cuh"
CVT_CODE = "#if defined(CUDA_PTX_FP4FP6_CVT_ENABLED)\nint convert();\n#endif\n"


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
            capsys: pytest.CaptureFixture[str]) -> Callable[[str, str, str], tuple[int, str]]:
    """``planned(path, code, patches)``: what diff says of it on a package of that file alone."""
    monkeypatch.setenv("SM_PATCH_STATE", str(tmp_path / "state"))

    def run(path: str, code: str, patches: str) -> tuple[int, str]:
        top = path.partition("/")[0]
        target = tmp_path / "root" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(code)
        (tmp_path / "root" / top / "__init__.py").touch()
        info = tmp_path / "root" / f"{top}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {top}\nVersion: 1.0\n")
        (info / "RECORD").write_text(f"{path},,\n{top}/__init__.py,,\n")
        patchset = tmp_path / "foreign.yaml"
        patchset.write_text(HEAD.format(package=top) + patches)
        code_ = main(["diff", str(patchset), "--root", str(tmp_path / "root"), "--cuda", "13.0",
                      "--arch", "sm_120a"])
        said = capsys.readouterr()
        return code_, said.err + said.out

    return run


def gate(path: str, name: str, worlds: str = '["12.0", "12.1"]', direction: str = "open") -> str:
    return GATE.format(path=path, gate=name, worlds=worlds, direction=direction)


def text(path: str, old: str, new: str) -> str:
    return TEXT.format(path=path, old=old, new=new)


@pytest.mark.parametrize(("path", "code", "patches", "row"), [
    (FLASHMLA, FLASHMLA_CODE, gate(FLASHMLA, "capability.major in [9, 10]"), "flashmla"),
    (FLASHMLA, FLASHMLA_CODE, text(FLASHMLA, "[9, 10]", "[9, 10, 12]"), "flashmla"),
    (FLASHMLA, FLASHMLA_CODE, text(FLASHMLA, "return capability.major in [9, 10]", "return True"),
     "flashmla"),
    (TCGEN05, TCGEN05_CODE, text(TCGEN05, "Arch.sm_103a,", "Arch.sm_103a, Arch.sm_120a,"),
     "tcgen05"),
    (COMMON, COMMON_CODE, gate(COMMON, "device_capability_majors"), "sglang-sm100-definition"),
    (COMMON, COMMON_CODE, text(COMMON, "majors=[10]", "majors=[10, 12]"),
     "sglang-sm100-definition"),
    (QSA, QSA_CODE, gate(QSA, "is_sm120", '["12.1"]'), "sglang-qsa"),
    (NSA, NSA_CODE, gate(NSA, "device_sm == 90 or (device_sm >= 100 and device_sm < 110)"),
     "sglang-nsa-mha"),
    (NSA, NSA_CODE, text(NSA, "device_sm < 110", "device_sm < 130"), "sglang-nsa-mha"),
    (CVT, CVT_CODE, text(CVT, "#if defined(CUDA_PTX_FP4FP6_CVT_ENABLED)", "#if 0"),
     "fp4-conversion-off"),
])
def test_a_wrong_change_is_refused_with_its_reason(
        planned: Callable[[str, str, str], tuple[int, str]], path: str, code: str, patches: str,
        row: str) -> None:
    code_, said = planned(path, code, patches)
    assert code_ == Exit.REFUSED
    assert f"known to be wrong ({row})" in said


@pytest.mark.parametrize(("path", "code", "patches", "row"), [
    (MXFP4, MXFP4_CODE, text(MXFP4, "< (11, 0)", "< (13, 0)"), "vllm-triton-mxfp4"),
    (NAMED, NAMED_CODE, text(NAMED, "has_device_capability(100)",
                             "has_device_capability(100) or is_sm120"), "already-open"),
])
def test_a_doubtful_one_is_warned_about(
        planned: Callable[[str, str, str], tuple[int, str]], path: str, code: str, patches: str,
        row: str) -> None:
    code_, said = planned(path, code, patches)
    assert code_ == Exit.DONE
    assert f"known to be wrong ({row})" in said


@pytest.mark.parametrize(("path", "code", "patches"), [
    # the same words elsewhere, the other direction, another device
    ("vllm/v1/attention/backends/mla/other.py", FLASHMLA_CODE,
     gate("vllm/v1/attention/backends/mla/other.py", "capability.major in [9, 10]")),
    (FLASHMLA, FLASHMLA_CODE, gate(FLASHMLA, "capability.major in [9, 10]", '["11.0"]')),
    (COMMON, COMMON_CODE.replace("is_sm100", "is_sm120").replace("[10]", "[13]"),
     text(COMMON, "majors=[13]", "majors=[12]")),
])
def test_its_neighbours_go_through(planned: Callable[[str, str, str], tuple[int, str]],
                                   path: str, code: str, patches: str) -> None:
    code_, said = planned(path, code, patches)
    assert "known to be wrong" not in said
    assert code_ == Exit.DONE, said


def test_the_module_for_one_node_may_be_opened_the_one_for_many_may_not(
        planned: Callable[[str, str, str], tuple[int, str]]) -> None:
    for function, refused in (("gen_trtllm_comm_module", False),
                              ("gen_trtllm_mnnvl_comm_module", True)):
        patches = gate(MNNVL, "supported_major_versions").replace(
            "{file", f"{{within: {function}, file", 1)
        _, said = planned(MNNVL, MNNVL_CODE, patches)
        assert ("known to be wrong" in said) is refused, (function, said)


def _gate(path: str, condition: str, within: str = "") -> Gate:
    return Gate(layer=Layer.PYTHON, rule="PY-MEMBERSHIP", location=Location(path, 1, 1),
                condition=condition, worlds=Worlds(), within=within, cause=Cause.SOFTWARE,
                effect=Effect.FEATURE, severity=Severity.WARNING)


@pytest.mark.parametrize(("path", "condition", "row"), [
    (FLASHMLA, "capability.major in [9, 10]", "flashmla"),
    (TCGEN05, "admissible_archs = [Arch.sm_100a]", "tcgen05"),
    (COMMON, "device_capability_majors=[10]", "sglang-sm100-definition"),
])
def test_draft_has_a_reason_not_to_propose_it(path: str, condition: str, row: str) -> None:
    found = of_gate(_gate(path, condition), BOTH)
    assert found is not None
    assert found.id == row


def test_no_shipped_patchset_holds_such_a_gate() -> None:
    for path in shipped().values():
        for group in load_patchset(str(path)).groups:
            for patch in group.every_patch:
                operation = patch.operation
                name = getattr(operation, "gate", "")
                if name and getattr(operation, "open", None):
                    within = getattr(operation, "within", "")
                    assert of_gate(_gate(getattr(operation, "file", ""), name, within),
                                   operation.open) is None  # type: ignore[union-attr]


def test_every_row_has_evidence_and_says_what_to_do() -> None:
    rows = known_wrong()
    assert len({row.id for row in rows}) == len(rows)
    for row in rows:
        assert row.evidence, row.id
        assert row.references, row.id
        assert row.why, row.id
        assert row.instead, row.id
    assert json.loads((Path(__file__).parents[2] / "patcher/data/known_wrong.json").read_text())
