"""Shapes that hide an architecture: one snippet for each, with the worlds worked out by hand."""

from __future__ import annotations

import pytest

from patcher.arch import ArchSet
from patcher.gates import Gate
from patcher.python.find import excludes, find_gates

from .conftest import Write, names

TARGET = ArchSet.of("sm_120a")
REFERENCES = ArchSet.of("sm_90a", "sm_100a")
HEAD = "import torch\nfrom other import flag\n\n"
D = ["10.0", "10.1", "10.3", "10.7"]
OLD = ["7.5", "8.0", "8.6", "8.7", "8.8", "8.9"]


def found(write: Write, text: str) -> list[Gate]:
    text = text.replace("CC()", "torch.cuda.get_device_capability()")
    return find_gates(write({"pkg/a.py": HEAD + text}), "pkg")


def function(body: str) -> str:
    return "def f(name=''):\n" + "".join(f"    {line}\n" for line in body.split("\n"))


# (snippet, worlds that pass each of its gates in order)
PASSED = [
    # match: values, alternatives, sequences with captures, guards, a name for the rest
    ("match CC()[0]:\n    case 9 | 10:\n        g()\n    case _:\n        raise E", [["9.0", *D]]),
    (("match CC():\n    case (9, 0):\n        g()\n    case (10, _):\n        h()\n    case _:\n"
      "        raise E"), [["9.0"], D]),
    (("match CC():\n    case (big, small) if 9 <= big < 11:\n        g()\n    case other:\n"
      "        raise E"), [["9.0", *D]]),
    # ranges: chained, half open, range(), a local name of two letters
    ("if (9, 0) <= CC() < (11, 0):\n    g()", [["9.0", *D]]),
    ("sm = CC()[0] * 10 + CC()[1]\nif 90 <= sm < 110:\n    g()", [["9.0", *D]]),
    ("if CC()[0] in range(9, 11):\n    g()", [["9.0", *D]]),
    ("if not CC() < (9, 0) and CC() <= (10, 3):\n    g()", [["9.0", "10.0", "10.1", "10.3"]]),
    # ladders that end in raise: served by an earlier arm is not closed by a later one
    ("if CC()[0] == 9:\n    return g()\nif CC()[0] == 10:\n    return h()\nraise E", [["9.0"], D]),
    ("if CC()[0] == 9:\n    g()\nelif CC()[0] == 10:\n    h()\nelse:\n    raise E", [["9.0"], D]),
    # a missing key
    ("return {9: 1, 10: 2}[CC()[0]]", [["9.0", *D]]),
    ("return {'9.0': 1, '10.0': 2}['.'.join(map(str, CC()))]", [["9.0", "10.0"]]),
    # a property table, and a name looked up by text
    ("if Platform().is_blackwell:\n    g()", [["9.0", *D]]),
    ("if getattr(Platform(), 'is_blackwell'):\n    g()", [["9.0", *D]]),
    ("if getattr(Platform(), TABLE['blackwell']):\n    g()", [["9.0", *D]]),
    # a name of the device: whether all, none or some of a capability's devices have it
    ("if 'B200' not in torch.cuda.get_device_name(0):\n    raise E", [["10.0"]]),
]
PLATFORM = """
class Platform:
    @property
    def is_blackwell(self):
        return CC()[0] in (9, 10)

TABLE = {"blackwell": "is_blackwell"}
"""


@pytest.mark.parametrize(("text", "passed"), PASSED, ids=lambda v: str(v)[:40])
def test_who_passes(write: Write, text: str, passed: list[list[str]]) -> None:
    gates = [g for g in found(write, PLATFORM + function(text)) if g.within == "f"]
    assert [names(g.worlds.open) for g in gates] == passed
    assert all(excludes(g, TARGET, REFERENCES) or g.worlds.unknown for g in gates)


def test_names_that_only_some_devices_have_are_unknown(write: Write) -> None:
    """GH200 is a 9.0 device, too, and its name does not begin like that of an H100."""
    (gate,) = found(write, function("if 'NVIDIA H' in torch.cuda.get_device_name():\n    g()"))
    assert names(gate.worlds.open) == []
    assert "9.0" in names(gate.worlds.unknown)
    assert {"12.0", "12.1"} <= set(names(gate.worlds.closed))
    assert gate.decided_by == ("get_device_name()",)


@pytest.mark.parametrize("other", ["flag", "flag.forced", "self.forced", "flag[0]", "flag()",
                                   "name"])
@pytest.mark.parametrize("first", [True, False])
def test_what_another_branch_gives_a_name_may_pass(write: Write, other: str, first: bool) -> None:
    """vLLM 0.18.0 symm_mem.py: a setting may ask for multimem on any device."""
    asked = "{(9, 0): [4], (10, 0): [8]}[CC()]"
    arms = (other, f"n in {asked}") if first else (f"n in {asked}", other)
    text = ("class C:\n    def __init__(self, forced=None):\n        self.forced = forced\n\n"
            "    def f(self, name, n):\n        multi_sm = False\n        if name:\n"
            f"            multi_sm = {arms[0]}\n        else:\n            multi_sm = {arms[1]}\n"
            "        if multi_sm:\n            g()\n")
    assert [g.rule for g in found(write, text) if TARGET & g.worlds.closed] == ["PY-TABLE"]


def test_a_pattern_that_is_no_test_of_a_value_claims_nothing(write: Write) -> None:
    assert found(write, function("match CC():\n    case [9, *rest]:\n        g()\n"
                                 "    case {'a': 9}:\n        h()")) == []


def test_numbers_of_rocm_are_no_gate_of_ours(write: Write) -> None:
    """9.4 and 9.5 are GPUs of another vendor; 12.0 is greater, which says nothing."""
    for test in ("CC() >= (9, 4)", "torch.version.hip and CC() == (9, 5)"):
        assert found(write, function(f"if {test}:\n    g()")) == []


def test_an_enumeration_that_is_filtered(write: Write) -> None:
    """As the CuTe DSL lists the targets of its tcgen05 operations."""
    (gate,) = found(write, "from cutlass import Arch\n\nclass Op:\n    # capability\n"
                    "    admissible_archs = Arch.filter(\n        lambda arch: "
                    "arch.is_family_of(Arch.sm_100f) or arch.is_family_of(Arch.sm_110f))\n")
    assert (gate.rule, names(gate.worlds.open)) == ("PY-ARCHS", [*D, "11.0"])


def test_a_script_that_is_told_the_architectures(write: Write) -> None:
    """vLLM's generate_kernels.py: the loop variable stands for what the build asks for."""
    gates = found(write, "import sys\nFP8 = False\nfor arch in sys.argv[1].split(','):\n"
                  "    arch = int(arch.replace('.', ''))\n    if arch in [89, 120]:\n"
                  "        FP8 = True\n")
    assert [names(g.worlds.open) for g in gates] == [["8.9", "12.0"]]
    assert "12.1" in names(gates[0].worlds.closed)
