"""The line that ``warm`` prints for a module that was never built, against the package's source.

It is never run here: what it imports and calls is looked up in the package's own files.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.wheels, pytest.mark.slow]

# by the groups that plain apply takes, of docs/flashinfer-sm120.md
MODULES = {"trtllm_comm", "gemm_sm120", "fp4_gemm_cutlass_sm120", "fused_moe_120"}
_LINE = re.compile(r"^absent +(\S+): (python -c .*)$", re.M)


@pytest.mark.parametrize("version", ["0.5.3", "0.6.3", "0.6.6"])
def test_the_line_names_what_the_package_has(
    version: str, copy_of: Callable[..., Path], tmp_path: Path
) -> None:
    root = copy_of("flashinfer-python", version)
    environ = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}

    def run(*arguments: str) -> str:
        done = subprocess.run([sys.executable, "-m", "patcher", *arguments, "--root", root],
                              capture_output=True, text=True, check=False, env=environ)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("apply", "flashinfer-sm120", "--arch", "sm_120a", "--force")
    lines = dict(_LINE.findall(run("warm", "flashinfer-sm120")))
    assert set(lines) == MODULES
    for line in lines.values():
        python, option, script = shlex.split(line)  # a shell sees three words
        assert (python, option) == ("python", "-c")
        imported, called = ast.parse(script).body
        assert isinstance(imported, ast.ImportFrom)
        assert imported.module is not None
        function = _function(root / imported.module.replace(".", "/"), imported.names[0].name)
        assert _required(function) == 0
        assert isinstance(function.returns, ast.Name)
        assert function.returns.id == "JitSpec"
        assert isinstance(called, ast.Expr)
        assert ast.unparse(called) == f"{imported.names[0].asname}().build(False)"
    build = _function(root / "flashinfer/jit/core", "build", within="JitSpec")
    assert _required(build) == 2  # self and verbose


def _function(module: Path, name: str, within: str = "") -> ast.FunctionDef:
    path = module / "__init__.py" if module.is_dir() else module.with_suffix(".py")
    tree: ast.AST = ast.parse(path.read_text("utf-8"))
    if within:
        (tree,) = (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == within)
    assert isinstance(tree, (ast.Module, ast.ClassDef))
    (found,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)
    return found


def _required(function: ast.FunctionDef) -> int:
    """How many arguments a call must give."""
    return len(function.args.args) - len(function.args.defaults)
