"""The shipped patchset on real FlashInfer wheels: exact bytes, caches, prebuilt modules."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.cli import main
from tests.conftest import WHEELS
from tests.engine.helpers import snapshot
from tests.engine.test_installers import Uv, uv

__all__ = ["uv"]  # a fixture

Verb = Callable[..., tuple[int, str, str]]
COMM = "flashinfer/jit/comm.py"
HEADER = "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh"
pytestmark = pytest.mark.wheels


@pytest.fixture
def verb(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
         tmp_path: Path) -> Verb:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("FLASHINFER_WORKSPACE_BASE", "SM_PATCH_STATE"):
        monkeypatch.delenv(name, raising=False)

    def call(*words: str | Path) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        return code, out, err
    return call


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.5.3", "0.6.3", "0.6.6"])
def test_patched_releases_come_back_byte_for_byte(copy_of: Callable[..., Path], verb: Verb,
                                                  version: str) -> None:
    root = copy_of("flashinfer-python", version)
    before = snapshot(root)
    code, out, err = verb("apply", "flashinfer-sm120", "--root", root, "--group", "trtllm-comm")
    assert code == 0, err
    assert out.startswith("applied flashinfer-sm120/trtllm-comm")
    changed = {path for path, what in snapshot(root).items() if before.get(path) != what}
    assert {COMM, HEADER} <= changed
    # 13 guards exclude 12.x before (flashinfer#3903), none after
    guard = b"(__CUDA_ARCH__ < 1200)"
    assert (before[HEADER][2].count(guard), (root / HEADER).read_bytes().count(guard)) == (13, 0)
    assert verb("apply", "flashinfer-sm120", "--root", root, "--group", "trtllm-comm",
                "--check")[0] == 0
    assert verb("status", "--root", root, "--check")[0] == 0
    assert verb("revert", "--root", root)[0] == 0
    assert snapshot(root) == before


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.6.17", "0.7.4"])
def test_fixed_releases_are_left_alone(copy_of: Callable[..., Path], verb: Verb,
                                       version: str) -> None:
    root = copy_of("flashinfer-python", version)
    before = snapshot(root)
    code, out, _ = verb("apply", "flashinfer-sm120", "--root", root, "--group", "trtllm-comm")
    assert (code, out[:13]) == (0, "nothing to do")
    assert "not-needed" in out
    assert snapshot(root) == before
    assert verb("status", "--root", root)[1].startswith("nothing is applied")


@pytest.fixture
def live(uv: Uv, tmp_path: Path) -> Path:
    """site-packages of an environment in which uv installed FlashInfer 0.6.6, and only it."""
    wheels = sorted(WHEELS.glob("flashinfer_python-0.6.6-*.whl"))
    if not wheels:
        pytest.skip("the wheel of flashinfer-python 0.6.6 is not here; run `make corpus`")
    uv("venv", tmp_path / "live")
    uv("pip", "install", "--python", tmp_path / "live", "--no-deps", wheels[0])
    return next((tmp_path / "live/lib").glob("python*/site-packages"))


@pytest.mark.slow
def test_a_live_environment_is_asked_first(live: Path, verb: Verb, tmp_path: Path) -> None:
    """Without tvm-ffi's headers the module could not be built: better refused than opened."""
    before = snapshot(live)
    where = ("--python", tmp_path / "live", "--group", "trtllm-comm")
    assert verb("apply", "flashinfer-sm120", *where, "--check")[0] == 3
    code, _, err = verb("apply", "flashinfer-sm120", *where)
    assert code == 3
    assert "--force" in err
    assert snapshot(live) == before
    assert verb("apply", "flashinfer-sm120", *where, "--force")[0] == 0
    assert verb("revert", "--python", tmp_path / "live")[0] == 0
    assert snapshot(live) == before


@pytest.mark.slow
@pytest.mark.nvcc
def test_a_prebuilt_module_is_named_set_aside_and_brought_back(
        copy_of: Callable[..., Path], verb: Verb, nvcc: Path) -> None:
    root = copy_of("flashinfer-python", "0.6.6")
    folder = root / "flashinfer_jit_cache/jit_cache/trtllm_comm"
    folder.mkdir(parents=True)
    (folder / "k.cu").write_text("__global__ void k(int* p) { *p = 1; }\n")
    subprocess.run([nvcc, "-shared", "-Xcompiler", "-fPIC", "-cudart", "none", "-gencode",
                    "arch=compute_100a,code=sm_100a", "k.cu", "-o", "trtllm_comm.so"],
                   cwd=folder, check=True)
    before = snapshot(root)
    where = ("--root", root, "--group", "trtllm-comm")
    code, out, err = verb("apply", "flashinfer-sm120", *where)
    assert code == 0  # for a folder the run-time machine is unknown: it warns
    assert "trtllm_comm.so" in err + out
    assert "--aot aside" in err + out
    assert "effective: no" in verb("status", "--root", root)[1]
    code, out, _ = verb("apply", "flashinfer-sm120", *where, "--aot", "aside")
    assert code == 0
    assert not folder.exists()
    assert "effective: yes" in verb("status", "--root", root)[1]
    assert verb("apply", "flashinfer-sm120", *where, "--check")[0] == 0  # it stays aside
    # the package of prebuilt modules is installed anew: the choice holds for the new one
    shutil.copytree(f"{folder}.sm-patch-aside", folder)
    assert "effective: no" in verb("status", "--root", root)[1]
    code, out, err = verb("apply", "flashinfer-sm120", *where, "--aot", "aside")
    assert (code, err.count("in the way")) == (0, 0), out + err
    assert not folder.exists()
    assert "effective: yes" in verb("status", "--root", root)[1]
    assert verb("revert", "--root", root)[0] == 0
    assert snapshot(root) == before


@pytest.mark.slow
def test_stale_objects_go_on_apply_and_on_revert(copy_of: Callable[..., Path], verb: Verb,
                                                 tmp_path: Path, ninja: Path) -> None:
    """A header with changed content: whatever its time, the object built from it goes (C11)."""
    root = copy_of("flashinfer-python", "0.6.6")
    folder = tmp_path / "home/.cache/flashinfer/0.6.6/120a/cached_ops/trtllm_comm"
    folder.mkdir(parents=True)
    (folder / "comm.c").write_text("// trtllm_comm\n")
    (folder / "comm.d").write_text(f"{folder}/comm.o: {folder}/comm.c {root / HEADER}\n")
    built = folder / "comm.o"

    def build() -> None:
        """As FlashInfer does: write the build file where there is none, then run ninja."""
        if not (folder / "build.ninja").exists():
            (folder / "build.ninja").write_text(
                "ninja_required_version = 1.3\nrule cc\n  command = cp $in $out && cp $dep $out.d\n"
                "  depfile = $out.d\n  deps = gcc\n"
                f"build {built}: cc {folder}/comm.c\n  dep = {folder}/comm.d\n")
        subprocess.run([ninja, "-C", folder], check=True, capture_output=True)

    build()
    for words in (("apply", "flashinfer-sm120", "--group", "trtllm-comm"), ("revert",)):
        assert built.exists()
        code, out, err = verb(*words, "--root", root, "--format", "json")
        assert code == 0, err
        assert [action["action"] for action in json.loads(out)["caches"]
                if action["path"] == str(built)] == ["delete"]
        assert not built.exists()
        os.utime(root / HEADER, (1, 1))  # an image layer or rsync brings old times back
        build()


@pytest.mark.slow
@pytest.mark.parametrize(("version", "state"), [("0.6.3", "lost"), ("0.7.4", "superseded")])
def test_another_version_over_a_patched_one(copy_of: Callable[..., Path], verb: Verb,
                                            unpacked: Callable[[str, str], Path],
                                            version: str, state: str) -> None:
    """Judged by the gates of what is installed now: 0.6.3 needs it again, 0.7.4 does not."""
    root = copy_of("flashinfer-python", "0.6.6")
    assert verb("apply", "flashinfer-sm120", "--root", root, "--group", "trtllm-comm")[0] == 0
    shutil.rmtree(root)
    shutil.copytree(unpacked("flashinfer-python", version), root, symlinks=True)
    before = snapshot(root)
    code, out, err = verb("status", "--root", root)
    assert (code, out.splitlines()[0]) == (0, f"flashinfer-sm120: {state}"), out + err
    assert verb("revert", "--root", root)[0] == 0
    assert snapshot(root) == before


@pytest.mark.slow
def test_only_what_a_gate_builds_is_asked_about(copy_of: Callable[..., Path], verb: Verb,
                                                tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """jit/comm.py of 0.6.3 builds several modules, and one list of it, in
    gen_trtllm_comm_module, names majors. A patch that names only the file opens that module
    alone, so the others' builds are no matter of it."""
    root = copy_of("flashinfer-python", "0.6.3")
    assert (root / COMM).read_text().count("supported_major_versions") == 1
    assert (root / COMM).read_text().count("gen_jit_spec(") > 2
    document = tmp_path / "whole-file.yaml"
    document.write_text(f"""\
sm-patch: 1
name: whole-file
summary: a gate named by its file
package: flashinfer-python
groups:
  - id: gate
    summary: the gate
    default: true
    patches:
      - id: majors
        python-gate: {{file: {COMM}, gate: supported_major_versions, open: ["12.0", "12.1"]}}
""")
    monkeypatch.setenv("PATH", str(tmp_path))  # no ninja: every module that opens is named
    code, _, err = verb("apply", document, "--root", root, "--cuda", "13.0", "--check")
    assert code == 1, err
    asked = {line.split(": ")[1] for line in err.splitlines() if "there is no ninja" in line}
    assert asked == {"trtllm_comm"}
