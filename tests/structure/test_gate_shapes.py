"""The table of gate shapes names tests that exist."""

from __future__ import annotations

import ast
import re

from tests.conftest import REPOSITORY

_ROW = re.compile(r"^\| (.+) \| `(tests/[\w/]+\.py)::(\w+)` \|$", re.MULTILINE)


def test_every_shape_has_its_test() -> None:
    text = (REPOSITORY / "docs" / "gate-shapes.md").read_text("utf-8")
    rows = _ROW.findall(text)
    shapes = [line for line in text.splitlines()
              if line.startswith("| ") and not line.startswith(("| shape", "| report"))]
    assert len(rows) == len(shapes), "a row without a test"
    for shape, path, name in rows:
        tree = ast.parse((REPOSITORY / path).read_text("utf-8"))
        found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name in found, f"{shape}: {path} has no {name}"
