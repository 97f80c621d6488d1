"""Fetch single files out of a large wheel on the package index, by range requests.

    python corpus/members.py torch==2.9.1 cp312 DEST torch/lib/libc10_cuda.so ...

pip names the wheel and its hash; only the zip directory and the members asked for are
transferred, each checked against the CRC that the zip records. A whole wheel of torch is
900 MB, the libraries that decide its ABI a fraction of that.
"""

from __future__ import annotations

import fnmatch
import io
import json
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from pathlib import Path

BLOCK = 4 << 20


class RangeFile(io.RawIOBase):
    """A seekable file over HTTP range requests, one cached block at a time."""

    def __init__(self, address: str) -> None:
        self._address = address
        with urllib.request.urlopen(urllib.request.Request(address, method="HEAD")) as reply:
            self._size = int(reply.headers["Content-Length"])
        self._position = 0
        self._block: tuple[int, bytes] = (-1, b"")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._position + size)
        parts = []
        while self._position < end:
            index, inside = divmod(self._position, BLOCK)
            part = self._load(index)[inside : inside + end - self._position]
            parts.append(part)
            self._position += len(part)
        return b"".join(parts)

    def _load(self, index: int) -> bytes:
        if self._block[0] != index:
            last = min(self._size, (index + 1) * BLOCK) - 1
            header = {"Range": f"bytes={index * BLOCK}-{last}"}
            with urllib.request.urlopen(urllib.request.Request(self._address, headers=header)) as r:
                self._block = (index, r.read())
        return self._block[1]


def locate(requirement: str, python: str) -> str:
    """Where pip would take the wheel from."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--no-deps",
                   "--ignore-installed", "--only-binary", ":all:", "--python-version", python,
                   "--target", folder, "--report", str(report), requirement]
        subprocess.run(command, check=True)
        address: str = json.loads(report.read_text())["install"][0]["download_info"]["url"]
    return address


def fetch(requirement: str, python: str, destination: Path, patterns: list[str]) -> list[Path]:
    """Extract the members that match into ``destination``; what is there already stays."""
    written = []
    with zipfile.ZipFile(RangeFile(locate(requirement, python))) as wheel:
        for info in wheel.infolist():
            if not any(fnmatch.fnmatch(info.filename, p) for p in patterns):
                continue
            place = destination / info.filename
            if not (place.is_file() and place.stat().st_size == info.file_size):
                place.parent.mkdir(parents=True, exist_ok=True)
                with wheel.open(info) as source, open(place, "wb") as target:
                    shutil.copyfileobj(source, target, BLOCK)
            written.append(place)
    return written


if __name__ == "__main__":
    wanted, version, folder, *members = sys.argv[1:]
    for path in fetch(wanted, version, Path(folder), members):
        print(path)
