"""Checks that are not one comparison in one place. Who passes is worked out by hand."""

from __future__ import annotations

import pytest

from patcher.arch import ArchSet, known_targets
from patcher.gates import Gate
from patcher.host import find_host_gates

ALL = {target.number for target in known_targets()}


def gates(body: str, before: str = "") -> list[Gate]:
    return find_host_gates("a.cu", f"{before}\nvoid run(int device) {{\n{body}\n}}\n".encode())


def numbers(worlds: ArchSet) -> set[int]:
    return {capability.number for capability in worlds.capabilities}


QUERY = """
  int major = 0, minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
"""

# A local variable, a tuple, a lambda that is called at once or by name, a helper of the file.
PASSED = [
    ("int sm = getSMVersion();\nbool const ok = sm >= 90 && sm < 120;\nTORCH_CHECK(ok);",
     {n for n in ALL if 90 <= n < 120}),
    ("int a, b;\nstd::tie(a, b) = GetCudaComputeCapability();\nif (a != 9) throw Error();", {90}),
    ("auto sm = [&] {" + QUERY + "return major * 10 + minor; }();\nTORCH_CHECK(sm == 90);", {90}),
    (QUERY + "auto usable = [&](bool) { return major == 10 && minor != 1; };\n"
     'if (!usable(true)) { FLASHINFER_ERROR("no"); }', {100, 103, 107}),
    ("if (!is_hopper()) throw Error();", {90}),
    ("TVM_FFI_ICHECK(detail::is_hopper()) << 1;", {90}),
    (("int sm = getSMVersion();\nif (sm == 90) {\n  a();\n} else if (sm == 100) {\n  b();\n}"
      " else {\n  throw Error();\n}"), {100}),  # of those that come there; 9.0 is served before
]
HELPER = "static bool is_hopper() {" + QUERY + "  return major == 9;\n}"


@pytest.mark.parametrize(("body", "passed"), PASSED)
def test_who_passes(body: str, passed: set[int]) -> None:
    (gate,) = [g for g in gates(body, HELPER) if g.within == "run"]
    assert numbers(gate.worlds.open) == passed
    assert 120 in numbers(gate.worlds.closed)


RANGES = """
  int version = get_sm_version_num();
  if (version >= 100 && version < 110) {
    datacenter();
    return;
  }
  if (version >= 90 && version < 100) {
    hopper();
    return;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, "no kernel for ", version);
"""


def test_ranges_that_return_before_a_refusal() -> None:
    (gate,) = gates(RANGES)
    assert gate.rule == "dispatch"
    assert numbers(gate.worlds.open) == {n for n in ALL if 90 <= n < 110}
    assert numbers(gate.worlds.closed) == {n for n in ALL if n < 90 or n >= 110}


def test_a_range_that_is_perhaps_compiled_is_unknown() -> None:
    """The first range is there with a flag only: no claim for its targets, the rest holds."""
    text = RANGES.replace("  if (version >= 100", "#if ENABLE_SM100\n  if (version >= 100", 1)
    text = text.replace("  if (version >= 90", "#endif\n  if (version >= 90", 1)
    (gate,) = gates(text)
    assert numbers(gate.worlds.open) == {90}
    assert numbers(gate.worlds.unknown) == {n for n in ALL if 100 <= n < 110}
    assert {120, 121} <= numbers(gate.worlds.closed)
    assert gate.decided_by == ("ENABLE_SM100",)


@pytest.mark.parametrize("text", [
    "switch (sm) {\n  case 90: a(); break;\n  case kBig:\n    b(); break;\n  default: throw E();}",
    "switch (getSMVersion()) { case 90: case 100: return a(); default: TORCH_CHECK(false); }",
])
def test_a_switch_that_refuses_the_rest(text: str) -> None:
    (gate,) = gates("int sm = getSMVersion();\n" + text, "constexpr int kBig = 100;")
    assert (gate.rule, numbers(gate.worlds.open)) == ("dispatch", {90, 100})
    assert 120 in numbers(gate.worlds.closed)


def test_a_directive_in_the_middle_of_a_condition() -> None:
    """sgl-kernel's fp8_blockwise_moe_kernel.cu: 10.3 depends on the toolkit, 12.0 is out."""
    (gate,) = gates("int sm = getSMVersion();\nif (!(sm == 100\n#if CUDA_VERSION >= 12090\n"
                    "    || sm == 103\n#endif\n)) {\n  TORCH_CHECK(false, sm);\n}")
    assert numbers(gate.worlds.open) == {100}
    assert numbers(gate.worlds.unknown) == {103}
    assert {90, 120, 121} <= numbers(gate.worlds.closed)
    assert gate.decided_by == ("CUDA_VERSION >= 12090",)


def test_heads_that_share_a_body() -> None:
    """Two arms open the same block: together they are no code that a brace counter can read."""
    old, new = gates("int sm = getSMVersion();\n#ifdef OLD\nif (sm != 90) {\n#else\n"
                     "if (sm != 90 && sm != 100) {\n#endif\n  throw Error();\n}\n")
    assert (old.location.line, numbers(old.worlds.open)) == (5, {90})
    assert (new.location.line, numbers(new.worlds.open)) == (7, {90, 100})


@pytest.mark.parametrize("body", [
    RANGES.replace("TORCH_CHECK_NOT_IMPLEMENTED(false,", "fallback("),  # no refusal
    RANGES.replace("version >= 90 && version < 100", "version >= 75"),  # every known target
    "int sm = getSMVersion();\nTORCH_CHECK_NOT_IMPLEMENTED(x.dim() == 2, sm);",
    "if (x.empty()) { return; }\nint sm = getSMVersion();\nthrow Error();",
    "int sm = getSMVersion();\nswitch (sm) { case 90: a(); break; default: b(); }",
])
def test_what_is_no_gate(body: str) -> None:
    found = gates(body)
    assert not [g for g in found if g.worlds.closed & ArchSet.of("sm_120a")]
