"""Diffs without the wheel: what uv's and pip's own caches still hold."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.cli import main
from tests.engine.test_installers import TEXT, one, uv, uv_install

__all__ = ["one", "uv"]  # fixtures

EDITED = TEXT.replace("[9, 10]", "[9, 10, 12]")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "SM_PATCH_STATE", "XDG_CACHE_HOME",
                 "PIP_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))  # the fixture's


def edit(venv: Path, in_place: bool = False) -> None:
    gate = next(venv.glob("lib/*/site-packages/tiny/gate.py"))
    if not in_place:
        gate.unlink()
    gate.write_text(EDITED)


def audit(capsys: pytest.CaptureFixture[str], venv: Path) -> str:
    capsys.readouterr()
    assert main(["audit", "tiny", "--python", str(venv)]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("mode", ["hardlink", "copy"])
def test_uvs_cache_gives_the_diff(tmp_path: Path, uv: Callable[..., None], one: Path, mode: str,
                                  capsys: pytest.CaptureFixture[str]) -> None:
    uv_install(uv, tmp_path / "a", one, "--link-mode", mode)
    edit(tmp_path / "a")
    out = audit(capsys, tmp_path / "a")
    assert "-MAJORS = [9, 10]" in out
    assert "+MAJORS = [9, 10, 12]" in out
    assert "no diff" not in out


def test_a_cache_that_was_edited_too_or_is_gone_is_told(
        tmp_path: Path, uv: Callable[..., None], one: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    uv_install(uv, tmp_path / "a", one, "--link-mode", "hardlink")
    if next((tmp_path / "a").glob("lib/*/site-packages/tiny/gate.py")).stat().st_nlink < 2:
        pytest.skip("this file system has no hard links")
    edit(tmp_path / "a", in_place=True)
    out = audit(capsys, tmp_path / "a")
    assert "modified tiny/gate.py" in out
    assert "no diff" in out
    assert "poisoned" in out
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "nothing"))
    uv_install(uv, tmp_path / "b", one, "--link-mode", "copy")
    edit(tmp_path / "b")
    lines = audit(capsys, tmp_path / "b").splitlines()
    at = lines.index("modified tiny/gate.py")
    assert "--pristine WHEEL" in lines[at + 1]
    assert lines[-1].startswith("next: pip download")


@pytest.mark.parametrize("place", ["wheels/aa/bb/tiny-1.0-py3-none-any.whl",
                                   "http-v2/a/b/c/d/e/abcdef.body"])
def test_pips_cache_gives_the_diff(tmp_path: Path, uv: Callable[..., None], one: Path, place: str,
                                   monkeypatch: pytest.MonkeyPatch,
                                   capsys: pytest.CaptureFixture[str]) -> None:
    """Wheels that pip built stand below ``wheels``, its downloads as bodies below ``http-v2``."""
    uv_install(uv, tmp_path / "a", one, "--link-mode", "copy")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "nothing"))
    asked = subprocess.run([sys.executable, "-m", "pip", "cache", "dir"], check=True, text=True,
                           capture_output=True, env=dict(os.environ))
    there = Path(asked.stdout.strip()) / place
    there.parent.mkdir(parents=True)
    there.with_name("page.body").write_text("<html>an index page</html>")
    there.write_bytes(one.read_bytes())
    edit(tmp_path / "a")
    assert "+MAJORS = [9, 10, 12]" in audit(capsys, tmp_path / "a")
