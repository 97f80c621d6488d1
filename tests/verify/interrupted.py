"""A compilation that takes long enough to be interrupted, and who still works afterwards."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any


def write_slow(toy: Path, instances: int) -> None:
    """A unit that cicc works at for many seconds."""
    many = "".join(f"template __global__ void slow<{n}>(int *);\n" for n in range(instances))
    (toy / "toy/csrc/other.cu").write_text(
        "template <int N> __global__ void slow(int *p) { for (int i = 0; i < N; i++) "
        f"p[i] = p[i + N] * N + p[i + 1]; }}\n{many}")


def wait_for_cicc(process: subprocess.Popen[Any], folder: str) -> None:
    """Until cicc itself works below a folder, not only what starts it."""
    deadline = time.monotonic() + 60
    while not users_of(folder, "bin/cicc --"):
        assert process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def users_of(folder: str, name: str = "") -> list[int]:
    """Processes that work below a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            place = os.readlink(entry / "cwd")
        except (OSError, ValueError):
            continue
        if place.startswith(folder) and name in line:
            found.append(int(entry.name))
    return found

