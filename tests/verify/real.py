"""Verify a real FlashInfer, as typed, with a cache of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def verify(root: Path, *arguments: str, code: int, arch: tuple[str, ...] = ("sm_120a",),
           **environ: str) -> list[dict[str, Any]]:
    """The rows of one run, whose exit code must be this."""
    targets = [word for name in arch for word in ("--arch", name)]
    run = subprocess.run(
        [sys.executable, "-m", "patcher", "verify", *arguments, "--root", root, *targets,
         "--format", "json"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "XDG_CACHE_HOME": str(root.parent / "cache"), **environ})
    assert run.returncode == code, run.stderr
    rows: list[dict[str, Any]] = json.loads(run.stdout)["units"]
    return rows
