"""Size, docstrings and words."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.structure.imports import ROOT, modules

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60


def test_files_and_functions_stay_small() -> None:
    long = [
        f"{module.path} ({lines} lines)"
        for module in modules().values()
        if (lines := len(module.path.read_text("utf-8").splitlines())) > MAX_FILE_LINES
    ]
    long += [
        f"{module.path}:{node.lineno} {node.name} ({lines} lines)"
        for module in modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]
    assert not long


def test_modules_say_what_they_are_for() -> None:
    silent = {m.name for m in modules().values() if m.tree.body and not ast.get_docstring(m.tree)}
    assert not silent


def _tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name]


# Written with classes of one letter, so that this file does not hold what it looks for.
_MACHINE = re.compile(r"(?<![\w.])/(?:[w]ork|[r]oot|[f]arm)/|[p]ypi\.org|[p]ythonhosted")


def test_no_path_or_host_of_one_machine() -> None:
    found = []
    for path in _tracked():
        if not path.is_file() or path.is_symlink():
            continue
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {hit[0]}" for hit in _MACHINE.finditer(text)]
    assert not found


def test_the_word_detector_sees_what_it_should() -> None:
    assert _MACHINE.search("cd /wo" + "rk/main")
    assert not _MACHINE.search("net/wo" + "rk/main")
