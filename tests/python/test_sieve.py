"""Long files are cut before they are parsed, and no gate goes with what is cut."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from patcher.python.blocks import SMALL_FILE
from patcher.python.find import find_gates
from patcher.python.index import Index
from patcher.tree import FolderTree

BORING = "\n".join(f"def boring_{n}(x):\n" + "    x = x + 1\n" * 20 for n in range(200))
PADDING = "        y = 0\n" * 12


def gates(tmp_path: Path, code: str) -> list[tuple[int, str]]:
    """Line and condition of what is found in a long file with this code at its end."""
    text = f"{BORING}\n{code}"
    assert len(text) > SMALL_FILE
    (tmp_path / "p").mkdir()
    (tmp_path / "p/m.py").write_text(text)
    before = BORING.count("\n") + 1
    return [(gate.location.line - before, gate.condition)
            for gate in find_gates(FolderTree(tmp_path), "p")]


@pytest.mark.parametrize("condition", [
    "arch // 10 == 12", "device_cc == (10, 7)", "(major, minor) == (10, 7)",
    "(major, minor) not in ((9, 0), (10, 0))", "arch in (90, 100)", "sm_arch == 107",
    "torch.cuda.get_device_capability()[0] == 9",
])
def test_each_form_of_a_test_is_seen(tmp_path: Path, condition: str) -> None:
    code = "def f(self, arch, major, minor, device_cc, sm_arch):\n"
    code += PADDING.replace("        ", "    ")
    code += f"    if {condition}:\n        return 1\n    return 2\n"
    assert [line for line, _ in gates(tmp_path, code)] == [14]


def test_a_test_kept_in_an_attribute_is_followed_into_another_long_method(tmp_path: Path) -> None:
    found = gates(tmp_path, (
        "class C:\n    def __init__(self):\n"
        "        capability = torch.cuda.get_device_capability()\n"
        "        quick = capability[0] == 9\n        self.quick = quick\n" + PADDING
        + "    def forward(self, x):\n" + PADDING
        + "        if self.quick:\n            return x\n        return 0\n"))
    assert (31, "self.quick") in found


def test_a_table_by_architecture_is_seen(tmp_path: Path) -> None:
    found = gates(tmp_path, (
        "ROUTES = {'sm_90a': 1, 'sm_100a': 2}\n"
        f"def route(arch):\n{PADDING}".replace("        ", "    ")
        + "    return ROUTES.get(arch, {})\n"))
    assert [line for line, _ in found] == [15]


@pytest.mark.parametrize("end", ["", "\n"])
def test_blocks_that_a_name_brings_back_are_parsed_where_they_stand(end: str) -> None:
    code = ("class C:\n    def first(self):\n" + PADDING + "    def second(self):\n" + PADDING
            + "        self.wanted = 1\n\n@wraps\ndef third():\n"
            + PADDING.replace("        ", "    ") + "    return wanted\n\nlast = wanted" + end)
    source = f"{BORING}\n{code}".encode()
    index = Index(None, "p")
    module = index.scanned("p/m.py", source)
    assert module is not None
    assert b"def second" not in module.source
    wide = index.widened(module, ["wanted"])
    assert wide is not None
    assert b"def second" in wide.source
    assert b"def third" in wide.source
    assert b"def first" not in wide.source
    assert ast.dump(wide.tree, include_attributes=True) == ast.dump(
        ast.parse(wide.source), include_attributes=True)


@pytest.mark.parametrize(("text", "may_hold"), [
    ("acc == 1", False), ("a_major != b", False), ("if search == 3:", False),
    ("asm in names", False), ("nvcc is None", False),
    ("from cutlass.utils import blackwell_helpers as cutlass_blackwell", False),
    ("device_cc == (10, 7)", True), ("sm_major > 9", True), ("arch == 90", True),
    ("sm in (90, 100)", True), ("if is_blackwell():", True), ("compute_cap = 9", True),
])
def test_what_only_ends_like_an_architecture_is_no_reason(text: str, may_hold: bool) -> None:
    source = f"{text}\n".encode()
    assert Index(None, "p").marks("p/m.py", source).may_hold == may_hold


def test_a_file_with_more_lines_than_line_ends_is_read(tmp_path: Path) -> None:
    """Its encoding makes line ends of what is none, so that its nodes lie behind its last line."""
    source = (b"# coding: unicode_escape\n" + rb"def f(arch):\n\n\n\n\n    return 1\n" + b"\n"
              + b"def g(arch):\n    if arch == 90:\n        return 1\n    return 2\n")
    assert (ast.parse(source).body[-1].end_lineno or 0) > source.count(b"\n") + 2
    (tmp_path / "p").mkdir()
    (tmp_path / "p/m.py").write_bytes(source)
    find_gates(FolderTree(tmp_path), "p")  # nothing is said of what it finds there
