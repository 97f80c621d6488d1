"""The second opinion on Python gates: what it can tell, and that it contradicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from patcher.arch import target
from tests.python.second import Package, answers

MODULE = """
from functools import lru_cache, partial
import torch

def _majors(wanted, device=None):
    return torch.cuda.get_device_capability(device)[0] in wanted

is_datacenter = lru_cache(maxsize=1)(partial(_majors, (9, 10)))

def gate(flag, capability):
    major, minor = torch.cuda.get_device_capability()
    number = major * 10 + minor
    return number
"""


@pytest.mark.parametrize(("expression", "on_100", "on_120"), [
    ("is_datacenter()", {True}, {False}),
    ("is_datacenter() and flag.deep[0].value == 3", {True, False}, {False}),
    ("90 <= number < 120", {True}, {False}),
    ("capability >= (9, 0)", {True}, {True}),
    ("{9: 1, 10: 2}[major]", {True}, {False}),
    ("unknown(number)", {True, False}, {True, False}),
])
def test_answers(tmp_path: Path, expression: str, on_100: set[bool], on_120: set[bool]) -> None:
    (tmp_path / "a.py").write_text(MODULE)
    package = Package(tmp_path, "")
    package.index(["a.py"])
    line = MODULE.count("\n")
    assert answers(package, "a.py", line, expression, target("sm_100a")) == on_100
    assert answers(package, "a.py", line, expression, target("sm_120a")) == on_120
