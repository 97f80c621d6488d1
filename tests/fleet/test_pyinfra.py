"""The operation, run by the real pyinfra on this host."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

SCRIPTS = Path(sys.executable).parent
GATE = "flashinfer/jit/comm.py"

pytestmark = [pytest.mark.slow, pytest.mark.wheels]


def test_the_operation_changes_once_and_then_has_nothing_to_do(
    copy_of: Callable[..., Path], tmp_path: Path
) -> None:
    root = copy_of("flashinfer-python", "0.6.3", "a folder with 'quotes'")
    before = (root / GATE).read_bytes()
    (tmp_path / "deploy.py").write_text(
        "from sm_patchset import patchset\n"
        "from pyinfra import host\n"
        "patchset(patchsets=['flashinfer-sm120'], reverted=host.data.get('reverted') == 'yes',\n"
        f"         options=['--root', {str(root)!r}, '--group', 'trtllm-comm'],\n"
        f"         executable={str(SCRIPTS / 'sm-patch')!r})\n", "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "fleet" / "pyinfra")}

    def deploy(*options: str) -> str:
        done = subprocess.run([SCRIPTS / "pyinfra", "@local", "deploy.py", "-y", *options],
                              cwd=tmp_path, env=environment, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    deploy("--dry")
    assert (root / GATE).read_bytes() == before
    assert "[@local] Success" in deploy()
    assert b"supported_major_versions=[9, 10, 12]" in (root / GATE).read_bytes()
    assert "[@local] No changes" in deploy()
    assert "[@local] Success" in deploy("--data", "reverted=yes")
    assert (root / GATE).read_bytes() == before
