"""The wheel: names of shipped patchsets work away from the checkout."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.network
def test_an_installed_wheel_knows_the_shipped_patchsets(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("sm_patch-*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    binaries = tmp_path / "venv" / "bin"
    subprocess.run(
        [binaries / "python", "-m", "pip", "install", "--quiet", wheel],
        check=True,
        capture_output=True,
    )
    listed = subprocess.run(
        [binaries / "sm-patch", "patchsets", "--root", ROOT / "corpus" / "mini" / "0.6.3"],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert listed.returncode == 0, listed.stderr
    for name in ("flashinfer-sm120", "trtllm-comm", "gdc", "dsv3-router"):
        assert name in listed.stdout
