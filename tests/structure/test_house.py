"""Size, docstrings and words."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from tests.structure.imports import ROOT, Module, modules

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60


@pytest.mark.parametrize("module", modules().values(), ids=lambda module: module.name)
def test_files_and_functions_stay_small(module: Module) -> None:
    assert len(module.path.read_text("utf-8").splitlines()) <= MAX_FILE_LINES
    long = [
        f"{node.name} ({(node.end_lineno or 0) - node.lineno + 1} lines)"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION_LINES
    ]
    assert not long


@pytest.mark.parametrize("module", modules().values(), ids=lambda module: module.name)
def test_modules_say_what_they_are_for(module: Module) -> None:
    assert ast.get_docstring(module.tree) or not module.tree.body


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
