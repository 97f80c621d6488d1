"""Real environments, made by uv without a network."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def uv() -> Callable[..., None]:
    """Runs uv, offline."""
    beside = Path(sys.executable).with_name("uv")
    program = str(beside) if beside.exists() else shutil.which("uv")
    if program is None:
        pytest.skip("uv is not here; it is in the dev extra")

    def run(*arguments: str | Path) -> None:
        subprocess.run([program, *map(str, arguments), "--offline", "--quiet"], check=True)

    return run


@pytest.fixture
def venv(uv: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty venv; the variables that could name another one are gone."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH"):
        monkeypatch.delenv(variable, raising=False)
    folder = tmp_path / "venv"
    uv("venv", "--python", sys.executable, folder)
    return folder


def site_of(venv: Path) -> Path:
    """site-packages as the environment's own Python knows it."""
    answer = subprocess.run(
        [venv / "bin" / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True, capture_output=True, text=True)
    return Path(answer.stdout.strip())


@pytest.fixture
def wheel(tmp_path: Path) -> Callable[..., Path]:
    """Writes a wheel: ``wheel("demo-pkg", "1.0", {"demo/__init__.py": b""})``."""

    def write(name: str, version: str, files: dict[str, bytes]) -> Path:
        stem = f"{name.replace('-', '_')}-{version}"
        info = f"{stem}.dist-info"
        contents = {
            **files,
            f"{info}/METADATA":
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
            f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        lines = []
        for inside, data in contents.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append(f"{inside},sha256={digest},{len(data)}")
        record = "\n".join([*lines, f"{info}/RECORD,,"]) + "\n"
        path = tmp_path / f"{stem}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for inside, data in contents.items():
                archive.writestr(inside, data)
            archive.writestr(f"{info}/RECORD", record)
        return path

    return write
