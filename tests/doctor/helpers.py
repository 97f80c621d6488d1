"""Calls of the doctor and of nvcc that the tests share."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from patcher.doctor.model import Result, Status

SOURCES = {
    "plain": "",
    "target": "#include <nv/target>\n",
    "atomic": "#include <cuda/std/atomic>\n",
    "fp16": "#include <cuda_fp16.h>\n",
    "groups": "#include <cooperative_groups.h>\n",
    "cub": "#include <cub/cub.cuh>\n",
}
_KERNEL = "__global__ void k(float* p) { p[threadIdx.x] += 1.f; }\nint main() { return 0; }\n"


def sm_patch(*arguments: str | Path, expect: int = 0, **variables: str) -> str:
    """Run the verb as typed; returns stdout."""
    done = subprocess.run([sys.executable, "-m", "patcher", *map(str, arguments)], check=False,
                          capture_output=True, text=True, env={**os.environ, **variables})
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout


def doctor(site: Path, *arguments: str, expect: int = 0, **variables: str) -> list[dict[str, Any]]:
    """The checks of a site-packages folder, of its own toolkit when it has one."""
    home = site / "nvidia" / "cu13"
    cuda = ["--cuda", str(home)] if (home / "bin/nvcc").is_file() else []
    text = sm_patch("doctor", "--root", site, *cuda, "--format", "json", *arguments,
                    expect=expect, **variables)
    checks: list[dict[str, Any]] = json.loads(text)["checks"]
    return checks


def bad(checks: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The errors and warnings by id."""
    return {c["id"]: c for c in checks if c["status"] in ("error", "warning")}


def wrong(results: list[Result]) -> dict[str, Result]:
    return {r.id: r for r in results if r.status in (Status.ERROR, Status.WARNING)}


def nvcc(site: Path, kind: str, work: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run the nvcc of a site-packages folder on one of SOURCES."""
    source = work / f"{kind}.cu"
    source.write_text(SOURCES[kind] + _KERNEL)
    command: list[str | Path] = [
        site / "nvidia" / "cu13" / "bin" / "nvcc", "-std=c++17",
        "-gencode=arch=compute_120a,code=sm_120a", *flags, source, "-o", work / f"{kind}.out"]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def snapshot(folder: Path) -> dict[str, str]:
    """Every entry below a folder: link target, or mode and hash."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"link {os.readlink(path)}"
        elif path.is_file():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[name] = f"{path.stat().st_mode:o} {digest}"
        else:
            found[name] = "folder"
    return found
