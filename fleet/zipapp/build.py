"""Build sm-patch.pyz: one file for many Pythons and machines, which needs nothing installed.

    python fleet/zipapp/build.py dist/sm_patch-0.1.0-py3-none-any.whl -o dist/sm-patch.pyz

uv resolves and unpacks the wheels for each target; nothing of them is run. What all targets have
in common is kept once.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
LAUNCHER = Path(__file__).with_name("launcher.py")
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same content gives the same file
Contents = dict[str, bytes]


def install(wheel: Path, python: str, machine: str, folder: Path) -> Contents:
    """The files of the wheel and all it needs on that interpreter and machine.

    Raises:
        subprocess.CalledProcessError: uv found no wheels; it has said why.
    """
    subprocess.run(
        [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", folder,
         "--python-version", python, "--python-platform", f"{machine}-manylinux_2_28",
         "--only-binary", ":all:", "--link-mode", "copy", wheel],
        check=True)
    return {name: path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file() and wanted(name := path.relative_to(folder).as_posix())}


def wanted(name: str) -> bool:
    """Whether a file is needed to run; records of the installation differ by chance."""
    return not (name.startswith(("bin/", ".")) or "__pycache__" in name
                or name.endswith(("/RECORD", "/INSTALLER", "/REQUESTED", "/direct_url.json",
                                  "/uv_cache.json")))


def layout(targets: dict[str, Contents]) -> Iterator[tuple[str, bytes]]:
    """The files in the zip, sorted: ``any/`` for what all targets share, else by target."""
    first, *rest = targets.values()
    shared = {name for name, data in first.items()
              if all(other.get(name) == data for other in rest)}
    yield from ((f"any/{name}", first[name]) for name in sorted(shared))
    for target, contents in sorted(targets.items()):
        yield from ((f"{target}/{name}", data) for name, data in sorted(contents.items())
                    if name not in shared)


def write(targets: dict[str, Contents], output: Path) -> str:
    """Write the zip; its digest."""
    files = list(layout(targets))
    digest = hashlib.sha256()
    for name, data in files:
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    files += [("__main__.py", LAUNCHER.read_bytes()), ("digest", digest.hexdigest().encode()),
              ("targets", " ".join(sorted(targets)).encode())]
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as stream:
        stream.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files:
                archive.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_DEFLATED)
    output.chmod(0o755)
    return digest.hexdigest()


def main() -> int:
    """Build one file."""
    parser = argparse.ArgumentParser(description="Build sm-patch.pyz.")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("dist/sm-patch.pyz"))
    parser.add_argument("--python", action="append", choices=PYTHONS)
    parser.add_argument("--machine", action="append", choices=MACHINES)
    options = parser.parse_args()
    targets = {}
    with tempfile.TemporaryDirectory() as folder:
        for python in options.python or PYTHONS:
            for machine in options.machine or MACHINES:
                name = f"cp{python.replace('.', '')}-{machine}"
                targets[name] = install(options.wheel, python, machine, Path(folder) / name)
    digest = write(targets, options.output)
    size = options.output.stat().st_size / 1e6
    print(f"{options.output}  {size:.1f} MB  {digest[:16]}  {' '.join(sorted(targets))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
