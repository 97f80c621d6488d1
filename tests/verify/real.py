"""Verify a real FlashInfer, as typed, with a cache of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]


def verify(root: Path, *arguments: str, code: int, arch: tuple[str, ...] = ("sm_120a",),
           kept: bool = True, **environ: str) -> Rows:
    """The rows of one run, whose exit code must be this.

    It is run once more: what is ``kept`` answers the same then, in less than 2 s.
    """
    targets = [word for name in arch for word in ("--arch", name)]
    command = [sys.executable, "-m", "patcher", "verify", *arguments, "--root", str(root),
               *targets, "--format", "json"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(root.parent / "cache"), **environ}
    rows = _rows(command, environment, code)
    if kept:
        started = cpu_seconds()
        again = _rows(command, environment, code)
        assert cpu_seconds() - started < 2  # what it would take on a machine of its own
        assert again == [{**row, "cached": True} for row in rows]
    return rows


def cpu_seconds() -> float:
    """What all that ran and ended took."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _rows(command: list[str], environment: dict[str, str], code: int) -> Rows:
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == code, run.stderr
    rows: Rows = json.loads(run.stdout)["units"]
    return rows
