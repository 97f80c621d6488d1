"""Editable projects behind links, and environments copied elsewhere, with real pip and uv."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.cli import main
from tests.engine.helpers import snapshot
from tests.engine.test_installers import HEADER, TEXT, one, uv, uv_install

__all__ = ["one", "uv"]  # fixtures

Uv = Callable[..., None]
GUARD = "#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200)"
OPEN = "#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900)"
JIT = "def gen():\n    return build(supported_major_versions=[9, 10])\n"
KERNEL = f"__global__ void body() {{\n{GUARD}\n  work();\n#endif\n}}\n"
UNIT = "void launch(int n) { stride(n); }\n"
# no build requirement, so that nothing is fetched; the links are made at install time
BACKEND = '''\
import base64, hashlib, os, zipfile
from pathlib import Path

ROOT = Path(__file__).parent

def build_editable(folder, config_settings=None, metadata_directory=None):
    data = ROOT / "flashinfer/data"
    data.mkdir(exist_ok=True)
    for name in ("include", "csrc"):
        link = data / name
        if not link.is_symlink():
            link.symlink_to(ROOT / name)
    info = "flashinfer_python-0.6.3.dist-info"
    members = {
        "flashinfer_python.pth": f"{ROOT}\\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\\nName: flashinfer-python\\nVersion: 0.6.3\\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\n"
                         "Tag: py3-none-any\\n"}
    rows = [f"{n},sha256=" + base64.urlsafe_b64encode(hashlib.sha256(t.encode()).digest())
            .rstrip(b"=").decode() + f",{len(t)}" for n, t in members.items()]
    members[f"{info}/RECORD"] = "\\n".join([*rows, f"{info}/RECORD,,"]) + "\\n"
    wheel = "flashinfer_python-0.6.3-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, wheel), "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return wheel
'''
PROJECT = {
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\n'
                      'backend-path = ["."]\n[project]\nname = "flashinfer-python"\n'
                      'version = "0.6.3"\n',
    "backend.py": BACKEND, "flashinfer/__init__.py": "", "flashinfer/jit.py": JIT,
    "include/flashinfer/kernel.cuh": KERNEL, "csrc/unit.cu": UNIT,
}
PATCHSET = """\
sm-patch: 1
name: editable
package: flashinfer-python
archs: [sm_120a]
groups:
  - id: main
    patches:
      - id: gate
        python-gate: {file: flashinfer/jit.py, within: gen, gate: supported_major_versions,
                      open: ["12.0", "12.1"]}
      - id: guard
        unreached: allow
        cuda-guard:
          file: flashinfer/data/include/flashinfer/kernel.cuh
          condition: defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
          open: ["12.0", "12.1"]
      - id: stride
        affects: all
        reason: every architecture reads it so
        text: {file: flashinfer/data/csrc/unit.cu, find: stride(n), replace: stride(8)}
"""
PATCHED = {"flashinfer/jit.py": JIT.replace("10]", "10, 12]"), "csrc/unit.cu":
           UNIT.replace("stride(n)", "stride(8)"),
           "include/flashinfer/kernel.cuh": KERNEL.replace(GUARD, OPEN)}
TINY = """\
sm-patch: 1
name: tiny-one
package: tiny
archs: [sm_120a]
groups:
  - id: main
    patches:
      - id: other
        affects: all
        reason: every architecture reads it so
        text: {file: tiny/gate.py, find: OTHER = 1, replace: OTHER = 2}
"""
CHANGED = TEXT.replace("OTHER = 1", "OTHER = 2")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "SM_PATCH_STATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for path, text in PROJECT.items():
        place = tmp_path / "project" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return tmp_path / "project"


def editable(installer: str, uv: Uv, prefix: Path, project: Path) -> None:
    uv("venv", "--python", sys.executable, prefix)
    options = ("install", "--no-build-isolation", "--no-deps", "-e", project)
    if installer == "uv":
        uv("pip", *options, "--python", prefix)
    else:
        subprocess.run([sys.executable, "-m", "pip", "--python", prefix, *options, "--quiet",
                        "--no-index", "--disable-pip-version-check"], check=True)


def apply(document: Path, text: str, prefix: Path) -> int:
    document.write_text(text)
    return main(["apply", str(document), "--python", str(prefix), "--arch", "sm_120a",
                 "--cuda", "12.8"])


def first_line(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(list(words)) == 0
    return capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_an_editable_project_changes_behind_its_links(
        tmp_path: Path, uv: Uv, project: Path, installer: str, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    venv = tmp_path / "venv"
    editable(installer, uv, venv, project)
    before = snapshot(project)
    assert before["flashinfer/data/include"][0] == "link"
    assert apply(tmp_path / "editable.yaml", PATCHSET, venv) == 0
    after = snapshot(project)
    changed = {path: data.decode() for path, (_, _, data) in after.items()
               if after[path] != before.get(path)}
    assert (changed, after.keys()) == (PATCHED, before.keys())
    monkeypatch.setenv("HOME", str(tmp_path / "another"))
    at = ("--python", str(venv))
    assert first_line(capsys, "status", *at) == "editable: applied"
    assert first_line(capsys, "revert", "editable", *at) == "reverted editable: 3 files"
    assert snapshot(project) == before


def test_a_link_out_of_an_editable_project_is_refused(
        tmp_path: Path, uv: Uv, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    editable("uv", uv, tmp_path / "venv", project)
    shutil.move(project / "csrc", tmp_path / "elsewhere")
    (project / "csrc").symlink_to(tmp_path / "elsewhere")
    before = snapshot(tmp_path / "elsewhere"), snapshot(project)
    assert apply(tmp_path / "editable.yaml", PATCHSET, tmp_path / "venv") == 3
    assert "leads out of" in capsys.readouterr().out.replace("\n", " ")
    assert (snapshot(tmp_path / "elsewhere"), snapshot(project)) == before


def test_a_copied_environment_never_says_that_it_reverted_a_project_elsewhere(
        tmp_path: Path, uv: Uv, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    venv, copy = tmp_path / "venv", tmp_path / "far/away/venv"
    editable("uv", uv, venv, project)
    before = snapshot(project)
    assert apply(tmp_path / "editable.yaml", PATCHSET, venv) == 0
    shutil.copytree(venv, copy, symlinks=True)
    patched, state = snapshot(project), snapshot(copy / "share")
    at = ("--python", str(copy))
    capsys.readouterr()
    assert main(["status", *at]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("editable: lost")
    assert f"flashinfer-python is in {project} now" in text
    assert "as installed" not in text
    assert main(["revert", "editable", *at]) == 3
    assert "cannot be undone from here" in capsys.readouterr().err
    assert (snapshot(project), snapshot(copy / "share")) == (patched, state)
    assert first_line(capsys, "revert", "editable", "--python", str(venv)).endswith("3 files")
    assert snapshot(project) == before


@pytest.mark.parametrize("mode", ["hardlink", "copy", "symlink"])
def test_a_copied_environment_goes_on_by_itself(
        tmp_path: Path, uv: Uv, one: Path, mode: str, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    venv, copy = tmp_path / "venv", tmp_path / "image/opt/venv"
    uv_install(uv, venv, one, "--link-mode", mode)
    before = snapshot(venv / "lib")
    assert apply(tmp_path / "tiny-one.yaml", TINY, venv) == 0
    patched = snapshot(venv / "lib")
    copy.parent.mkdir(parents=True)
    subprocess.run(["cp", "-a", venv, copy], check=True)
    monkeypatch.setenv("HOME", str(tmp_path / "another"))
    at = ("--python", str(copy))
    assert first_line(capsys, "status", *at) == "tiny-one: applied"
    assert first_line(capsys, "revert", "tiny-one", *at) == "reverted tiny-one: 1 file"
    assert snapshot(copy / "lib") == before
    assert snapshot(venv / "lib") == patched
    shutil.rmtree(venv)
    assert apply(tmp_path / "tiny-one.yaml", TINY, copy) == 0
    assert snapshot(copy / "lib") == patched


def test_site_packages_copied_without_the_state_is_told(
        tmp_path: Path, uv: Uv, one: Path, capsys: pytest.CaptureFixture[str]) -> None:
    venv, copy = tmp_path / "venv", tmp_path / "image/site-packages"
    uv_install(uv, venv, one)
    assert apply(tmp_path / "tiny-one.yaml", TINY, venv) == 0
    copy.parent.mkdir()
    shutil.copytree(next(venv.glob("lib/*/site-packages")), copy)
    before = snapshot(copy)
    at = ("--root", str(copy))
    assert first_line(capsys, "status", *at) == "nothing is applied here"
    assert main(["revert", "tiny-one", *at]) == 0
    err = capsys.readouterr().err
    assert str(tmp_path / "image/.sm-patch/site-packages") in err
    assert "reinstall" in err
    assert first_line(capsys, "audit", "tiny", *at) == "tiny 1.0: 1 file differs"
    assert snapshot(copy) == before
    assert (copy / "tiny/gate.py").read_text() == CHANGED
    assert (copy / "tiny/k.cuh").read_text() == HEADER


def test_a_patched_root_is_copied_with_the_state_beside_it(
        tmp_path: Path, uv: Uv, one: Path, capsys: pytest.CaptureFixture[str]) -> None:
    venv, root = tmp_path / "venv", tmp_path / "build/site-packages"
    uv_install(uv, venv, one)
    root.parent.mkdir()
    shutil.copytree(next(venv.glob("lib/*/site-packages")), root)
    before = snapshot(root)
    (tmp_path / "tiny-one.yaml").write_text(TINY)
    assert main(["apply", str(tmp_path / "tiny-one.yaml"), "--root", str(root), "--arch",
                 "sm_120a", "--cuda", "12.8"]) == 0
    shutil.copytree(root.parent, tmp_path / "image", symlinks=True)
    at = ("--root", str(tmp_path / "image/site-packages"))
    assert first_line(capsys, "status", *at) == "tiny-one: applied"
    assert first_line(capsys, "revert", "tiny-one", *at) == "reverted tiny-one: 1 file"
    assert snapshot(tmp_path / "image/site-packages") == before
    assert os.path.exists(root.parent / ".sm-patch/site-packages/journal.json")


@pytest.mark.parametrize("mode", ["hardlink", "copy", "symlink"])
def test_a_record_without_hashes_is_never_called_missing(
        tmp_path: Path, uv: Uv, one: Path, mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its files can be patched where they are files; a link out is not followed on trust."""
    bare = tmp_path / "bare" / one.name
    bare.parent.mkdir()
    with zipfile.ZipFile(one) as old, zipfile.ZipFile(bare, "w") as new:
        for name in old.namelist():
            listed = "".join(f"{path},,\n" for path in old.namelist())
            new.writestr(name, listed if name.endswith("RECORD") else old.read(name))
    uv_install(uv, tmp_path / "venv", bare, "--link-mode", mode)
    before = snapshot(tmp_path / "venv/lib")
    done = apply(tmp_path / "tiny-one.yaml", TINY, tmp_path / "venv")
    out = " ".join(capsys.readouterr().out.split())
    if mode == "symlink":
        assert (done, snapshot(tmp_path / "venv/lib")) == (3, before)
        assert "tiny-one/main: conflict" in out
        assert "RECORD has no hash" in out
        assert "--link-mode copy" in out
        return
    assert done == 0
    at = ("--python", str(tmp_path / "venv"))
    assert first_line(capsys, "status", *at) == "tiny-one: applied"
    assert first_line(capsys, "revert", "tiny-one", *at) == "reverted tiny-one: 1 file"
    assert snapshot(tmp_path / "venv/lib") == before
