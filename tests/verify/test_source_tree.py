"""``verify`` on a source tree, whose CUDA code stands beside the import package, not in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.nvcc
KERNEL = """\
#include "store.cuh"
__global__ void kernel(int *p) { store(p); }
"""
HEADER = """\
__device__ inline void store(int *p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 1200
  *p = %s;
#endif
}
"""
PATCHSET = """\
sm-patch: 1
name: stored
package: stored
groups:
  - id: main
    applies-to: source-tree
    patches:
      - id: guard
        cuda-guard:
          file: csrc/include/store.cuh
          condition: defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 1200
          count: 1
          open: ["12.1"]
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "stored"
    for path, text in (("pyproject.toml", '[project]\nname = "stored"\nversion = "1"\n'),
                       ("stored/__init__.py", ""), ("csrc/kernel.cu", KERNEL),
                       ("csrc/include/store.cuh", HEADER % 42), (".git/objects/ab/cd", "x")):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (tmp_path / "stored.yaml").write_text(PATCHSET)
    return root


def _verify(tree: Path) -> Any:
    """The document of one run; its caches are the test's own and stay between runs."""
    folder = tree.parent
    done = subprocess.run(
        [sys.executable, "-m", "patcher", "verify", str(folder / "stored.yaml"), "--root",
         str(tree), "--arch", "sm_121a", "--format", "json"], capture_output=True, text=True,
        check=False, env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")})
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_what_stands_beside_the_import_package_is_compiled(tree: Path) -> None:
    """By hand: nothing is stored on 12.1 before; the guard is not touched elsewhere."""
    (row,) = _verify(tree)["units"]
    assert (row["unit"], row["arch"], row["verdict"]) == ("csrc/kernel.cu", "sm_121a", "ok")
    assert [kernel["name"] for kernel in row["before"]["hollow"]] == ["_Z6kernelPi"]
    assert row["after"]["hollow"] == []
    assert row["unchanged"] == ["host", "sm_90a", "sm_100a"]


def test_a_change_in_csrc_is_not_answered_from_memory(tree: Path) -> None:
    assert [row["cached"] for row in _verify(tree)["units"]] == [False]
    (tree / ".git/objects/ab/cd").write_text("y")  # nothing is compiled from it
    assert [row["cached"] for row in _verify(tree)["units"]] == [True]
    (tree / "csrc/include/store.cuh").write_text(HEADER % 43)
    assert [(row["cached"], row["verdict"]) for row in _verify(tree)["units"]] == [(False, "ok")]
