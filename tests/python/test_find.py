"""Gates in snippets of our own: what is none comes first."""

from __future__ import annotations

import pytest

from patcher.arch import ArchSet
from patcher.gates import Cause, Effect, Gate, Layer
from patcher.python.find import excludes, find_gates, hardware_only

from .conftest import Write, names

TARGET = ArchSet.of("sm_120a")
REFERENCES = ArchSet.of("sm_90a", "sm_100a")
HEAD = """import torch
from other import current_platform, flag

def get_compute_capability(device):
    return torch.cuda.get_device_capability(device)

def is_sm100a_supported(device):
    major, _ = get_compute_capability(device)
    return major == 10 and torch.version.cuda >= "12.8"

"""


def found(write: Write, text: str) -> list[Gate]:
    return find_gates(write({"pkg/a.py": HEAD + text}), "pkg")


NO_GATES = [
    '"""if get_compute_capability(d)[0] == 10: pass\nSIZES = {90: 1, 100: 2}[get()]"""\n',
    "def f(a_major, k_major):\n    if a_major == 10 or k_major in [9, 10]:\n        g()\n",
    "if torch.version.cuda_major == 12 and CUDA_VERSION.major >= 12:\n    g()\n",
    "def f(sm_count, sm_scale):\n    if sm_count > 100 and sm_scale == 1:\n        g()\n",
    ("from other import is_hip\n_is_hip = is_hip()\n"
    "if _is_hip:\n    if torch.cuda.get_device_capability() >= (9, 4):\n        g()\n"),
    "if torch.cuda.get_device_capability() >= (9, 4) and flag:\n    g()\n",
    "f(supported_major_version_names=['a'])\n",
    "if flag:\n    g()\n",
    "_is_sm100_supported = is_sm100a_supported(0)\n",  # a name, not yet a gate
]


@pytest.mark.parametrize("text", NO_GATES)
def test_what_is_no_gate(write: Write, text: str) -> None:
    assert found(write, text) == []


D = ["10.0", "10.1", "10.3", "10.7"]
GATES = [
    ("nvcc.get_nvcc_flags_list(supported_major_versions=[9, 10])\n", "PY-MAJORS", ["9.0", *D],
     Effect.ERROR),
    ("MAJORS = (10, 11)\nf(supported_major_versions=list(MAJORS))\n", "PY-MAJORS",
     [*D, "11.0"], Effect.ERROR),
    ("@supported_compute_capability([100, 103])\ndef check(): pass\n", "PY-DECORATOR",
     ["10.0", "10.3"], Effect.ERROR),
    ("CCS = [100]\n@supported_compute_capability(CCS)\ndef check(): pass\n", "PY-DECORATOR",
     ["10.0"], Effect.ERROR),
    ("if get_compute_capability(0)[0] not in [9, 10]:\n    raise RuntimeError('no')\ng()\n",
     "PY-REFUSAL", ["9.0", *D], Effect.ERROR),
    ("def f():\n    if get_compute_capability(0) != (10, 0):\n        return None\n    g()\n",
     "PY-REFUSAL", ["10.0"], Effect.FEATURE),
    ("if get_compute_capability(0)[0] == 10:\n    g()\nelse:\n    h()\n", "PY-IF", D,
     Effect.ALTERNATIVE),
    ("if get_compute_capability(0)[0] == 10:\n    g()\nelse:\n    raise ValueError\n", "PY-IF", D,
     Effect.ERROR),
    ("x = 'trtllm' if get_compute_capability(0)[0] == 10 else 'xqa'\n", "PY-CHOICE", D,
     Effect.ALTERNATIVE),
    ("def f(sm_version):\n    allowed = ['sm_100', 'sm_103']\n    assert sm_version in allowed\n",
     "PY-ASSERT", ["10.0", "10.3"], Effect.ERROR),
    (("class B:\n    @classmethod\n    def supports(cls, capability):\n"
     "        return capability.major in [9, 10]\n"), "PY-RETURN", ["9.0", *D], Effect.FEATURE),
    ("ENABLED = get_compute_capability(0)[0] == 9 or get_compute_capability(0)[0] == 10\n",
     "PY-VALUE", ["9.0", *D], Effect.FEATURE),
    ("SIZES = {9: 1, 10: 2}\ndef f():\n    return SIZES[get_compute_capability(0)[0]]\n",
     "PY-TABLE", ["9.0", *D], Effect.ERROR),
    (("def f():\n    return {'9.0': 1}.get('.'.join(x), 0) or {90: 1}.get("
     "current_platform.get_device_capability().to_int(), {})\n"), "PY-TABLE", ["9.0"],
     Effect.FEATURE),
    (("class Op:\n    admissible_archs = [Arch.sm_100a, Arch.sm_103a]\n"
     "    x = get_device_capability\n"), "PY-ARCHS", ["10.0", "10.3"], Effect.ERROR),
    ("class Op:\n    CUDA_MAXIMUM_COMPUTE_CAPABILITY = (9, 0)\n    y = 'capability'\n", "PY-BOUND",
     ["7.5", "8.0", "8.6", "8.7", "8.8", "8.9", "9.0"], Effect.ERROR),
    ("flags = [\"-gencode=arch=compute_100a,code=sm_100a\"]\n", "PY-GENCODE", ["10.0"],
     Effect.FEATURE),
]


@pytest.mark.parametrize(("text", "rule", "open_", "effect"), GATES)
def test_each_shape(write: Write, text: str, rule: str, open_: list[str], effect: Effect) -> None:
    (gate,) = found(write, text)
    assert (gate.rule, names(gate.worlds.open), gate.effect) == (rule, open_, effect)
    assert excludes(gate, TARGET, REFERENCES)
    assert gate.layer is (Layer.BUILD if rule == "PY-GENCODE" else Layer.PYTHON)
    worlds = gate.worlds
    parts = [worlds.open, worlds.closed, worlds.unreached, worlds.unknown]
    assert not any((a & b).bits for n, a in enumerate(parts) for b in parts[n + 1:])
    assert worlds.unreached.host


def test_suffixes_only_where_the_gate_names_targets(write: Write) -> None:
    text = "class Op:\n    admissible_archs = [Arch.sm_100a]\n    c = 'capability'\n"
    (gate,) = found(write, text)
    assert gate.worlds.open.names == ["sm_100a"]
    (gate,) = found(write, "f(supported_major_versions=[12])\n")
    assert gate.worlds.open.names == ["sm_120", "sm_120a", "sm_120f", "sm_121", "sm_121a",
                                      "sm_121f"]


def test_a_release_leaves_the_reference_unknown_and_still_excludes(write: Write) -> None:
    (gate,) = found(write, "def f(d):\n    if is_sm100a_supported(d):\n        g()\n")
    assert (names(gate.worlds.open), names(gate.worlds.unknown)) == ([], D)
    assert gate.decided_by == ("torch.version.cuda",)
    assert excludes(gate, TARGET, REFERENCES)


def test_a_later_arm_serves_the_target(write: Write) -> None:
    text = ("def f(sm_major):\n    if sm_major in [10, 11]:\n        return g()\n"
            "    elif sm_major == 12:\n        return h()\n    else:\n        raise ValueError\n")
    first, second = found(write, text)
    assert not excludes(first, TARGET, REFERENCES)
    assert "sm_120a" in first.worlds.unreached
    assert names(second.worlds.open) == ["12.0", "12.1"]
    assert not excludes(second, TARGET, REFERENCES)


def test_code_behind_a_gate_is_unreached_elsewhere(write: Write) -> None:
    text = ("def f(sm_major, sm_minor):\n    if sm_major != 12:\n        raise ValueError\n"
            "    if sm_minor == 1:\n        g()\n")
    outer, inner = found(write, text)
    assert names(outer.worlds.open) == ["12.0", "12.1"]
    assert (names(inner.worlds.open), names(inner.worlds.closed)) == (["12.1"], ["12.0"])


def test_a_misleading_name_excludes_nothing(write: Write) -> None:
    gates = found(write, "class E:\n    def __init__(self):\n"
                  "        self.is_sm100 = current_platform.has_device_capability(100)\n"
                  "    def f(self):\n        if self.is_sm100:\n            g()\n")
    assert [names(g.worlds.closed)[-1] for g in gates] == ["9.0"]
    assert not any(excludes(g, TARGET, REFERENCES) for g in gates)


def test_an_intended_exclusion_is_quoted(write: Write) -> None:
    text = ("def gen():\n    # For datacenter targets only.\n"
            "    # RTX/consumer (SM12x) are intentionally excluded here.\n"
            "    flags = context.get_nvcc_flags_list(\n        supported_major_versions=[9, 10]\n"
            "    )\n")
    (gate,) = found(write, text)
    assert gate.cause is Cause.INTENDED
    assert "SM12x) are intentionally excluded" in gate.evidence[0].text


def test_a_comment_about_something_else_intends_nothing(write: Write) -> None:
    (gate,) = found(write, "# the cache is intentionally small\n"
                    "f(supported_major_versions=[9, 10])\n")
    assert gate.cause is Cause.UNKNOWN


def test_hardware_needs_words_that_name_it(write: Write) -> None:
    tree = write({"pkg/tcgen05/mma.py":
                  "class Op:\n    admissible_archs = [Arch.sm_100a]\n    c = 'capability'\n",
                  "pkg/warp/mma.py":
                  "class Op:\n    admissible_archs = [Arch.sm_100a]\n    c = 'capability'\n"})
    tensor_memory, warp = find_gates(tree, "pkg")
    assert tensor_memory.cause is Cause.HARDWARE
    assert warp.cause is Cause.UNKNOWN
    assert hardware_only(tensor_memory, list(TARGET))
    assert not hardware_only(tensor_memory, list(ArchSet.of("sm_110a")))


def test_backends_are_open_where_one_checker_is(write: Write) -> None:
    text = ("@supported_compute_capability([100])\ndef one(): pass\n"
            "@supported_compute_capability([90])\ndef two(): pass\n"
            "@backend_requirement({'a': one, 'b': two})\ndef api(): pass\n"
            "def free(): pass\n@backend_requirement({'a': one, 'b': free})\ndef other(): pass\n")
    gates = [g for g in found(write, text) if g.rule == "PY-BACKENDS"]
    assert [(g.names, names(g.worlds.open)) for g in gates] == [(("api",), ["9.0", "10.0"])]


def test_tests_and_foreign_folders_are_left_out(write: Write) -> None:
    text = "f(supported_major_versions=[9])\n"
    tree = write({"pkg/tests/a.py": text, "pkg/data/cutlass/python/a.py": text,
                  "pkg/examples/a.py": text, "pkg/b.py": text})
    assert [gate.location.path for gate in find_gates(tree, "pkg")] == ["pkg/b.py"]


def test_equal_gates_of_a_function_are_one_row(write: Write) -> None:
    text = "def f(d):\n" + "    if is_sm100a_supported(d):\n        g()\n    h()\n" * 3
    (gate,) = found(write, text)
    assert gate.lines == (12, 15, 18)  # the head has 10 lines


def test_a_generated_file_is_one_row_for_each_set(write: Write) -> None:
    body = "".join(f"def f{n}(arch):\n    if arch != 'sm_100a':\n        raise ValueError\n"
                   for n in range(30))
    tree = write({"pkg/cake_planner/plan.py": "capability = 1\n" + body})
    (gate,) = find_gates(tree, "pkg")
    assert gate.count == 30


HOSTILE = [
    "x = " + "not " * 500 + "capability\n",
    "x = capability" + " + 1" * 5000 + "\n",
    "capability = " + "(" * 150 + ")" * 150 + "\n",
    "if capability == 1: pass\n" + "elif capability == 2: pass\n" * 2000,
    "def f(capability): return f(capability)\nif f(capability) == (10, 0): g()\n",
    "capability = capability\nif capability == (10, 0): g()\n",
    "class A(A):\n    def f(self):\n        if self.capability == 10: g()\n",
    "from pkg.a import *\nfrom .a import capability\nif capability == 10: g()\n",
    "a = [0] * 10 ** 9\ncapability = a\nif capability in [[9] * 99999999]: g()\n",
    "capability = 'x' * 10 ** 9\nif f'{capability:999999999}' == '1': g()\n",
    "capability = 9 ** 9 ** 9 ** 9\nif capability == 1: g()\n",
    "capability = \x00\n", "capability = (\n",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_sources_end_quickly_and_claim_nothing(write: Write, text: str) -> None:
    assert not any(excludes(g, TARGET, REFERENCES) for g in find_gates(write({"pkg/a.py": text}),
                                                                      "pkg"))
