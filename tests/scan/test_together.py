"""What is written in two languages for the same devices is one decision; in one language it need
not be: two dozen kernels for sm_100 in one folder are two dozen decisions."""

from __future__ import annotations

import pytest

from patcher.arch import Capability
from patcher.gates import Layer
from patcher.scan.together import together
from tests.report import made


@pytest.mark.parametrize(("second", "layer", "one"), [
    ("csrc/marlin/marlin.cu", Layer.HOST, True),
    ("csrc/marlin/ops.cpp", Layer.HOST, True),
    ("cmake/marlin.cmake", Layer.BUILD, True),
    ("demo/marlin/jit.py", Layer.BUILD, False),  # what a build function reads is Python, too
    ("demo/marlin/check.py", Layer.PYTHON, False),
])
def test_languages_are_those_of_the_files(second: str, layer: Layer, one: bool) -> None:
    gates = [made.gate("demo/marlin/utils.py", 3, layer=Layer.PYTHON),
             made.gate(second, 7, layer=layer)]
    rows = together(gates)
    assert [row.name for row in rows] == (["marlin"] if one else [])
    for row in rows:
        assert row.passes == (Capability(9, 0), Capability(10, 0))
        assert row.gates == tuple(gates)
