"""Long files are cut before they are parsed, and no gate goes with what is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from patcher.python.blocks import SMALL_FILE
from patcher.python.find import find_gates
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
