"""Run-time checks of the capability. Which targets pass is worked out from each condition."""

from __future__ import annotations

import pytest

from patcher.gates import Gate
from patcher.host import find_host_gates
from patcher.host.values import words

QUERY = """
  int major = 0, minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
"""


def gates(body: str, before: str = "") -> list[Gate]:
    return find_host_gates("a.cu", f"{before}\nvoid run(int device) {{\n{body}\n}}\n".encode())


def numbers(gate: Gate) -> set[int]:
    return {c.number for c in gate.worlds.open.capabilities}


@pytest.mark.parametrize(
    ("body", "passed"),
    [
        (QUERY + "TVM_FFI_ICHECK_EQ(major, 10) << major;", {100, 101, 103, 107}),
        (QUERY + "TVM_FFI_ICHECK(major == 10 && (minor == 0 || minor == 3));", {100, 103}),
        (QUERY + 'TORCH_CHECK(major * 10 + minor == 90, "Hopper");', {90}),
        (QUERY + "int sm = major * 10 + minor;\nFLASHINFER_CHECK(sm == 120 || sm == 121);",
         {120, 121}),
        (("int sm = tensorrt_llm::common::getSMVersion();\n"
          'if (sm != 90) {\n  TLLM_THROW("only Hopper");\n}'), {90}),
        (("cudaDeviceProp p;\ncudaGetDeviceProperties(&p, device);\n"
          'if (p.major == 9) {\n  launch();\n} else {\n  FLASHINFER_ERROR("no");\n}'), {90}),
        ("auto [big, small] = GetCudaComputeCapability();\nFLASHINFER_CHECK(big == 9);", {90}),
        ("auto cc = GetCudaComputeCapability();\nif (cc.first != 9) throw Error();", {90}),
        ("static const std::tuple<int, int> props = [this] {\n" + QUERY
         + "  return std::make_tuple(major, minor);\n}();\n"
         "TVM_FFI_ICHECK_EQ(std::get<0>(props), 9);", {90}),
    ],
)
def test_who_passes(body: str, passed: set[int]) -> None:
    (gate,) = gates(body)
    assert numbers(gate) == passed
    assert not gate.worlds.open & gate.worlds.closed
    assert gate.within == "run"


def test_a_member_set_by_the_constructor() -> None:
    source = b"""
static constexpr int kSM_100 = 100;
struct Runner {
  Runner() : mSM(getSMVersion()) { FLASHINFER_CHECK(mSM == kSM_100, "Unsupported"); }
  int mSM;
};
"""
    (gate,) = find_host_gates("a.cuh", source)
    assert numbers(gate) == {100}
    assert gate.within == "Runner::Runner"


def test_branches_around_a_check_leave_others_unreached() -> None:
    (gate,) = gates(
        "int sm = getSMVersion();\nif (sm >= 90) {\n  a();\n} else if (sm >= 80) {\n"
        "  TLLM_CHECK(sm == 89);\n}"
    )
    assert numbers(gate) == {89}
    assert {c.number for c in gate.worlds.closed.capabilities} == {80, 86, 87, 88}
    assert 120 in {c.number for c in gate.worlds.unreached.capabilities}


@pytest.mark.parametrize(
    "body",
    [
        "int sm_version = config.sm_version;\nTLLM_CHECK(sm_version == 90);",  # not the device's
        QUERY + "TVM_FFI_ICHECK(b.is_contiguous()) << \"must be column-major\";",
        QUERY + "// TVM_FFI_ICHECK_EQ(major, 10)\n",
        QUERY + "if (major >= 9) { fast(); } else { slow(); }",  # a choice, not a refusal
        QUERY + "TVM_FFI_ICHECK(major >= 7);",  # all known targets pass
    ],
)
def test_what_is_no_gate(body: str) -> None:
    assert not gates(body)


def test_each_name_that_makes_a_file_worth_reading_holds_a_stem() -> None:
    names = [*words("number"), *words("pair"), *words("attributes"), *words("properties")]
    assert len(names) > 10
    assert not [name for name in names if not any(stem in name for stem in words("stems"))]
