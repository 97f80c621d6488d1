"""Golden pairs for our own snippets: what must not change first, then each shape of gate."""

from __future__ import annotations

import pytest

from patcher.arch import EMPTY, ArchSet
from patcher.edits import apply_edits
from patcher.python.index import Index
from patcher.python.match import match_gates
from patcher.python.model import GateSpec, Kind, Status
from patcher.python.rewrite import rewrite
from patcher.tree import FolderTree

from .conftest import Write, capabilities, names

BOTH = capabilities("12.0", "12.1")
UTILS = """
import torch

def get_compute_capability(device):
    return torch.cuda.get_device_capability(device)

def is_sm90_supported():
    return torch.cuda.get_device_capability()[0] == 9

def is_sm100_supported():
    return torch.cuda.get_device_capability()[0] == 10 and torch.version.cuda >= "12.8"

def is_sm120_supported():
    return torch.cuda.get_device_capability()[0] == 12

def is_sm110a_supported(device):
    return torch.cuda.get_device_capability(device) == (11, 0)

def is_sm120a_supported(device):
    return torch.cuda.get_device_capability(device) == (12, 0)

def is_sm121a_supported(device):
    return torch.cuda.get_device_capability(device) == (12, 1)
"""
HEAD = "from .utils import get_compute_capability, is_sm90_supported, is_sm100_supported\n"


def tree_of(write: Write, text: str) -> FolderTree:
    return write({"pkg/utils.py": UTILS, "pkg/a.py": text})


def run(write: Write, text: str, gate: str, *, open_: ArchSet = BOTH, close: ArchSet = EMPTY,
        within: str = "", count: int = 1, value: str | None = None) -> tuple[Status, str]:
    tree = tree_of(write, text)
    spec = GateSpec(gate, within, open_, close, count, value)
    source = tree.read("pkg/a.py")
    made = rewrite(source, "pkg/a.py", spec, Index(tree, "pkg"))
    after = apply_edits(source, made.edits)
    if made.status is Status.REWRITTEN:
        again = rewrite(after, "pkg/a.py", spec, Index(tree, "pkg"))
        assert (again.status, again.edits) == (Status.ALREADY, ()), again.reason
        for before, then in zip(made.before, made.after, strict=True):
            assert before ^ then <= made.effective
            assert (open_ - then).bits == 0
    return made.status, after.decode()


UNCHANGED = [
    ("f(supported_major_versions=[9, 10, 12])\n", "supported_major_versions", Status.ALREADY),
    ("f(supported_major_versions=None)\n", "supported_major_versions", Status.ALREADY),
    ("f(other=[9])\n", "supported_major_versions", Status.NO_MATCH),
    ('"""f(supported_major_versions=[9, 10])"""\n', "supported_major_versions", Status.NO_MATCH),
    ("# major == 10\nx = 1\n", "major == 10", Status.NO_MATCH),
    ("def f(a_major):\n    return a_major == 10\n", "a_major == 10", Status.NO_MATCH),
    ("def f(x:\n", "supported_major_versions", Status.UNREADABLE),
    ("f(supported_major_versions=given())\n", "supported_major_versions", Status.UNREADABLE),
    (HEAD + "x = is_sm90_supported() or y\n", "is_sm110_supported", Status.NO_MATCH),
    (HEAD + "major = get_compute_capability(0)[0]\nif major >= 10:\n    pass\n",
     "major >= 10", Status.ALREADY),
    (HEAD + "major = get_compute_capability(0)[0]\nif major in (10, 12):\n    pass\n",
     "major == 10", Status.ALREADY),  # fixed upstream in another spelling
    ("f(supported_major_versions=[9])\nf(supported_major_versions=[10])\n",
     "supported_major_versions", Status.WRONG_COUNT),
    ("f(supported_major_versions=[9])\nf(supported_major_versions=[10, 12])\n",
     "supported_major_versions", Status.REWRITTEN),
]


@pytest.mark.parametrize(("text", "gate", "status"), UNCHANGED)
def test_what_is_right_or_foreign_stays(write: Write, text: str, gate: str,
                                        status: Status) -> None:
    found, after = run(write, text, gate)
    assert found is status
    if status is not Status.REWRITTEN:
        assert after == text


M = "major = get_compute_capability(0)[0]\n"
SM = "major, minor = get_compute_capability(0)\nsm = major * 10 + minor\n"
CHANGED = [
    # lists, with the separators, line breaks, comments and quotes they had
    ("f(supported_major_versions=[9, 10])\n", "supported_major_versions",
     "f(supported_major_versions=[9, 10, 12])\n"),
    ("f(supported_major_versions=[9,10],x=1)\n", "supported_major_versions",
     "f(supported_major_versions=[9,10,12],x=1)\n"),
    ("f(\n    supported_major_versions=[\n        9,\n        10,  # data centre\n    ],\n)\n",
     "supported_major_versions",
     ("f(\n    supported_major_versions=[\n        9,\n        10,\n        12,  # data centre\n"
     "    ],\n)\n")),
    ("f(\r\n    supported_major_versions=[\r\n        9,\r\n        10,\r\n    ])\r\n",
     "supported_major_versions",
     ("f(\r\n    supported_major_versions=[\r\n        9,\r\n        10,\r\n        12,\r\n"
     "    ])\r\n")),
    ("MAJORS = (9,)\nf(supported_major_versions=list(MAJORS))\n", "supported_major_versions",
     "MAJORS = (9,)\nf(supported_major_versions=[*MAJORS, 12])\n"),
    ("MAJORS = (9,)\n", "MAJORS", "MAJORS = (9, 12)\n"),
    ("CCS = frozenset({90, 100})\n", "CCS", "CCS = frozenset({90, 100, 120, 121})\n"),
    ("ARCHS = ['90a', '100a']\n", "ARCHS", "ARCHS = ['90a', '100a', '120a', '121a']\n"),
    ('ARCHS = ["9.0"]\n', "ARCHS", 'ARCHS = ["9.0", "12.0", "12.1"]\n'),
    ("ARCHS = ((9, 0), (10, 0))\n", "ARCHS", "ARCHS = ((9, 0), (10, 0), (12, 0), (12, 1))\n"),
    # decorators
    ("@supported_compute_capability([100, 103])\ndef check(a): pass\n",
     "supported_compute_capability",
     "@supported_compute_capability([100, 103, 120, 121])\ndef check(a): pass\n"),
    ("CCS = [100]\n@supported_compute_capability(CCS)\ndef check(a): pass\n",
     "supported_compute_capability",
     "CCS = [100]\n@supported_compute_capability([*CCS, 120, 121])\ndef check(a): pass\n"),
    # predicates, with their import
    (HEAD + "x = is_sm90_supported() or is_sm100_supported()\n", "is_sm100_supported",
     HEAD.replace("100_supported", "100_supported, is_sm120_supported")
     + "x = is_sm90_supported() or is_sm100_supported() or is_sm120_supported()\n"),
    (HEAD + "x = is_sm100_supported() and y\n", "is_sm100_supported",
     HEAD.replace("100_supported", "100_supported, is_sm120_supported")
     + "x = (is_sm100_supported() or is_sm120_supported()) and y\n"),
    (HEAD + "if not is_sm100_supported():\n    raise ValueError\n", "is_sm100_supported()",
     HEAD.replace("100_supported", "100_supported, is_sm120_supported")
     + "if not (is_sm100_supported() or is_sm120_supported()):\n    raise ValueError\n"),
    (("from .utils import (\n    is_sm90_supported,\n    is_sm100_supported,\n)\n"
     "_is_sm90 = is_sm90_supported()\n_is_sm100 = ok and is_sm100_supported()\n"
     "def f():\n    return (_is_sm100 or _is_sm90) and z\n"), "_is_sm100 or _is_sm90",
     ("from .utils import (\n    is_sm90_supported,\n    is_sm100_supported,\n"
     "    is_sm120_supported,\n)\n"
     "_is_sm90 = is_sm90_supported()\n_is_sm100 = ok and is_sm100_supported()\n"
     "_is_sm120 = ok and is_sm120_supported()\n"
     "def f():\n    return (_is_sm100 or _is_sm90 or _is_sm120) and z\n")),
    ("from .utils import is_sm110a_supported\nx = is_sm110a_supported(d)\n",
     "is_sm110a_supported",
     ("from .utils import is_sm110a_supported, is_sm120a_supported, is_sm121a_supported\n"
     "x = is_sm110a_supported(d) or is_sm120a_supported(d) or is_sm121a_supported(d)\n")),
    ("x = p.is_device_capability_family(100)\n", "p.is_device_capability_family(100)",
     "x = p.is_device_capability_family(100) or p.is_device_capability_family(120)\n"),
    # comparisons, memberships, ranges; with their opposites
    (HEAD + M + "if major == 10:\n    y()\n", "major == 10",
     HEAD + M + "if major in (10, 12):\n    y()\n"),
    (HEAD + M + "if major==10 and y:\n    y()\n", "major == 10",
     HEAD + M + "if major in (10, 12) and y:\n    y()\n"),
    (HEAD + M + "if major != 10:\n    raise E\n", "major != 10",
     HEAD + M + "if major not in (10, 12):\n    raise E\n"),
    (HEAD + M + "if not (major == 10):\n    return_()\n", "major == 10",
     None),  # not a refusal: opening means where it is false, so 12 already passes
    (HEAD + M + "if major not in [9, 10]:\n    raise E\n", "major not in [9, 10]",
     HEAD + M + "if major not in [9, 10, 12]:\n    raise E\n"),
    (HEAD + "def f(capability):\n    return capability.major in [9, 10]\n",
     "capability.major in [9, 10]",
     HEAD + "def f(capability):\n    return capability.major in [9, 10, 12]\n"),
    (HEAD + "if get_compute_capability(0) in ((10, 0), (10, 3)):\n    y()\n",
     "get_compute_capability(0) in ((10,0),(10,3))",
     HEAD + "if get_compute_capability(0) in ((10, 0), (10, 3), (12, 0), (12, 1)):\n    y()\n"),
    (HEAD + SM + "x = a and 90 <= sm < 120\n", "90 <= sm < 120",
     HEAD + SM + "x = a and (90 <= sm < 120 or sm in (120, 121))\n"),
    (HEAD + SM + "x = sm >= 100 and sm < 110\n", "sm < 110 and sm >= 100",
     HEAD + SM + "x = sm >= 100 and sm < 110 or sm in (120, 121)\n"),
    (HEAD + SM + "if sm >= 120:\n    raise E\n", "sm >= 120",
     HEAD + SM + "if sm >= 120 and sm not in (120, 121):\n    raise E\n"),
    # tables
    ("SIZES = {9: 1, 10: 2}\n", "SIZES", "SIZES = {9: 1, 10: 2, 12: 2}\n"),
    ("SIZES = {\n    '90': f(\n        1),\n}\n", "SIZES",
     "SIZES = {\n    '90': f(\n        1),\n" + "    '120': f(\n        1),\n"
     + "    '121': f(\n        1),\n}\n"),
]


@pytest.mark.parametrize(("text", "gate", "after"), CHANGED)
def test_each_shape_opens(write: Write, text: str, gate: str, after: str | None) -> None:
    status, found = run(write, text, gate)
    if after is None:
        assert (status, found) == (Status.ALREADY, text)
    else:
        assert (status, found) == (Status.REWRITTEN, after)


CLOSED = [
    ("f(supported_major_versions=[9, 10, 12])\n", "supported_major_versions",
     "f(supported_major_versions=[9, 10])\n"),
    ("SIZES = {9: 1, 12: 2}\n", "SIZES", "SIZES = {9: 1}\n"),
    (HEAD + M + "if major in (10, 12):\n    y()\n", "major in (10, 12)",
     HEAD + M + "if major in (10,):\n    y()\n"),
    (HEAD + M + "x = major >= 10\n", "major >= 10", HEAD + M + "x = major >= 10 and major != 12\n"),
    (HEAD + "from .utils import is_sm120_supported\n"
     "x = is_sm100_supported() or is_sm120_supported()\n",
     "is_sm100_supported() or is_sm120_supported()",
     HEAD + "from .utils import is_sm120_supported\nx = is_sm100_supported()\n"),
]


@pytest.mark.parametrize(("text", "gate", "after"), CLOSED)
def test_each_shape_closes(write: Write, text: str, gate: str, after: str) -> None:
    assert run(write, text, gate, open_=EMPTY, close=BOTH) == (Status.REWRITTEN, after)


def test_a_table_takes_the_value_it_is_given(write: Write) -> None:
    assert run(write, "S = {9: 1}\n", "S", value="compute(3)") == (
        Status.REWRITTEN, "S = {9: 1, 12: compute(3)}\n")


def test_within_chooses_the_function(write: Write) -> None:
    text = ("def one():\n    f(supported_major_versions=[9])\n"
            "class C:\n    def two(self):\n        f(supported_major_versions=[10])\n")
    for within in ("C.two", "two"):
        status, after = run(write, text, "supported_major_versions", within=within)
        assert (status, after) == (Status.REWRITTEN, text.replace("[10]", "[10, 12]"))


def test_a_major_list_cannot_open_one_minor(write: Write) -> None:
    """Majors are all such a list can tell apart, so 12.1 opens with 12.0, and that is said."""
    tree = tree_of(write, "f(supported_major_versions=[9])\n")
    spec = GateSpec("supported_major_versions", "", capabilities("12.0"))
    made = rewrite(tree.read("pkg/a.py"), "pkg/a.py", spec, Index(tree, "pkg"))
    assert names(made.effective) == ["12.0", "12.1"]
    (match,) = match_gates(tree.read("pkg/a.py"), "pkg/a.py", spec, Index(tree, "pkg"))
    assert match.kind is Kind.LIST_KEYWORD
    assert names(match.worlds_before) == ["9.0"]
    assert [names(cell) for cell in match.resolution][-1] == ["12.0", "12.1"]


def test_without_a_sibling_a_predicate_stays(write: Write) -> None:
    text = HEAD + "x = is_sm90_supported()\n"
    tree = write({"pkg/utils.py": UTILS.replace("is_sm120", "has_sm120").replace("is_sm121", "no"),
                  "pkg/a.py": text})
    spec = GateSpec("is_sm90_supported", "", BOTH)
    made = rewrite(text.encode(), "pkg/a.py", spec, Index(tree, "pkg"))
    assert (made.status, made.edits) == (Status.UNSUPPORTED, ())


@pytest.mark.parametrize(("source", "after"), [
    ("# coding: latin-1\ns = 'caf\xe9'; f(supported_major_versions=[9])\n".encode("latin-1"),
     b"[9, 12]"),
    ("s = '\u00e9\u4e2d'; f(supported_major_versions=[9])\n".encode(), b"[9, 12]"),
    ("\ufeffs = '\u00e9'; f(supported_major_versions=[9])\n".encode(), b"[9, 12]"),
    (b"x = '\x0c'\n\x0c\nf(supported_major_versions=[9])", b"[9, 12]"),
    (b"a = 1\r\nb = 2\nf(supported_major_versions=[9])\r\n", b"[9, 12]"),
])
def test_encodings_and_line_ends_stay(source: bytes, after: bytes) -> None:
    made = rewrite(source, "a.py", GateSpec("supported_major_versions", "", BOTH), None)
    assert apply_edits(source, made.edits) == source.replace(b"[9]", after)
