"""Fetch source archives and unpack them, for the tests that read real builds.

    python corpus/sources.py vllm==0.33.0 flash-attn==2.8.3.post2

uv names each archive and its hash and runs no code of it. Only plain files are unpacked, into
corpus/sources/NAME-VERSION.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path

from patcher.toml import parse_toml

SOURCES = Path(__file__).resolve().parent / "sources"


def address(requirement: str) -> tuple[str, str]:
    """Where uv says that the archive is, and its SHA-256."""
    uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    done = subprocess.run(
        [uv, "pip", "compile", "--quiet", "--no-deps", "--universal", "--format", "pylock.toml",
         "--python-version", "3.12", "-"], input=requirement, text=True, capture_output=True,
        check=True)
    row = parse_toml(done.stdout, "uv")["packages"][0]["sdist"]
    return row["url"], row["hashes"]["sha256"]


def fetch(requirement: str) -> Path:
    """Download, check and unpack one archive; nothing happens when it is there."""
    target = SOURCES / requirement.replace("==", "-")
    if target.is_dir():
        return target
    url, digest = address(requirement)
    with tempfile.TemporaryDirectory(dir=_made(SOURCES)) as folder:
        archive = Path(folder) / "archive"
        urllib.request.urlretrieve(url, archive)
        if hashlib.sha256(archive.read_bytes()).hexdigest() != digest:
            raise SystemExit(f"{requirement}: not the archive that uv named")
        with tarfile.open(archive) as tar:
            members = [m for m in tar.getmembers() if m.isfile() or m.isdir()]
            # the first releases of 3.10 and 3.11 know no filter; the archive is the pinned one
            safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            tar.extractall(folder, members, **safe)
        (top,) = (p for p in Path(folder).iterdir() if p.is_dir())
        top.rename(target)
    return target


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(fetch(name))
