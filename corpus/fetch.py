#!/usr/bin/env python3
"""Get the pinned real wheels that demo and tests work on, by name and by hash, with pip.

    python corpus/fetch.py                        every pin
    python corpus/fetch.py flashinfer-python==0.6.3 flashinfer-python==0.7.4
    python corpus/fetch.py --pin NAME==VERSION    add a release to pins.json

pip checks each file against the index's own digest and against ours; nothing is
installed and no code of a wheel runs. Standard library only: it works before any install.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from zipfile import ZipFile

CORPUS = Path(__file__).resolve().parent
PINS = CORPUS / "pins.json"
WHEELS = CORPUS / "wheels"
UNPACKED = CORPUS / "unpacked"


@dataclass(frozen=True)
class Pin:
    """One wheel: the requirement, its exact file and its SHA-256."""

    name: str
    version: str
    file: str
    sha256: str

    @property
    def requirement(self) -> str:
        return f"{self.name}=={self.version}"

    @property
    def folder(self) -> Path:
        """Where it lies unpacked: the wheel's own spelling of the name, and the version."""
        return UNPACKED / "-".join(self.file.split("-")[:2])


class FetchError(Exception):
    """A wheel could not be had, or is not the one that was pinned."""


def load_pins() -> list[Pin]:
    """The pins, in file order."""
    return [Pin(**row) for row in json.loads(PINS.read_text("utf-8"))["wheels"]]


def sha256(path: Path) -> str:
    """SHA-256 of a file, as hex."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def fetch(pin: Pin, wheels: Path = WHEELS) -> Path:
    """The pinned wheel, downloaded when it is not here yet; says source and hash.

    Raises FetchError when pip cannot get it or the bytes are not the pinned ones.
    """
    path = wheels / pin.file
    if path.is_file() and sha256(path) == pin.sha256:
        source = "already here"
    else:
        _pip_download([f"{pin.requirement} --hash=sha256:{pin.sha256}"], wheels, _tags(pin.file))
        source = "package index, through pip"
    if not path.is_file() or sha256(path) != pin.sha256:
        raise FetchError(f"{pin.requirement}: pip did not bring {pin.file}")
    print(f"{pin.name} {pin.version}  source: {source}  sha256: {pin.sha256}", flush=True)
    return path


def _tags(file: str) -> list[str]:
    """pip's options for a wheel of another Python or platform than ours."""
    python, abi, platforms = file.removesuffix(".whl").split("-")[-3:]
    if platforms == "any":
        return []
    options = ["--implementation", python[:2], "--python-version", python[2:], "--abi", abi]
    for platform in platforms.split("."):
        options += ["--platform", platform]
    return options


def _pip_download(requirements: list[str], to: Path, options: list[str]) -> None:
    to.mkdir(parents=True, exist_ok=True)
    hashed = ["--require-hashes"] if "--hash" in requirements[0] else []
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listing:
        listing.write("\n".join(requirements) + "\n")
        listing.flush()
        command = [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
            *("--no-deps", "--only-binary=:all:", *hashed, *options),
            *("--dest", str(to), "--requirement", listing.name),
        ]
        done = subprocess.run(
            command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
    if done.returncode:
        wanted = requirements[0].split()[0]
        raise FetchError(f"pip download {wanted} failed:\n{done.stdout.strip()}")


def unpack(wheel: Path, folder: Path) -> Path:
    """Unpack a wheel into ``folder`` unless it is there; safe against a parallel unpack.

    Raises FetchError for a member that would leave the folder.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        with ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.startswith("/") or ".." in name.split("/"):
                    raise FetchError(f"{wheel.name}: unsafe member {name!r}")
            archive.extractall(stage)
        stage.chmod(0o755)
        try:
            stage.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster, with the same bytes
                raise
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return folder


def add_pin(requirement: str) -> Pin:
    """Download a release, pin the file that came, and keep it.

    Raises FetchError when there is no wheel for it.
    """
    name, _, version = requirement.partition("==")
    with tempfile.TemporaryDirectory() as folder:
        _pip_download([requirement], Path(folder), [])
        (wheel,) = Path(folder).glob("*.whl")
        pin = Pin(name, version, wheel.name, sha256(wheel))
        WHEELS.mkdir(parents=True, exist_ok=True)
        shutil.move(str(wheel), WHEELS / wheel.name)
    pins = [old for old in load_pins() if old.file != pin.file] + [pin]
    rows = [asdict(pin) for pin in sorted(pins, key=lambda pin: (pin.name, pin.file))]
    PINS.write_text(json.dumps({"version": 1, "wheels": rows}, indent=2) + "\n", "utf-8")
    return pin


def _select(requirements: list[str]) -> list[Pin]:
    pins = load_pins()
    if not requirements:
        return pins
    by_requirement = {pin.requirement: pin for pin in pins}
    unknown = [text for text in requirements if text not in by_requirement]
    if unknown:
        raise FetchError(f"not pinned: {' '.join(unknown)}; add with --pin")
    return [by_requirement[text] for text in requirements]


def main() -> int:
    """Fetch and unpack; 1 with one message when a wheel cannot be had."""
    parser = argparse.ArgumentParser(description="Get the pinned real wheels.")
    parser.add_argument("requirements", nargs="*", metavar="NAME==VERSION")
    parser.add_argument("--pin", metavar="NAME==VERSION", help="add a release to pins.json")
    parser.add_argument("--no-unpack", action="store_true", help="only download")
    arguments = parser.parse_args()
    try:
        pins = [add_pin(arguments.pin)] if arguments.pin else _select(arguments.requirements)
        for pin in pins:
            wheel = fetch(pin)
            if not arguments.no_unpack:
                unpack(wheel, pin.folder)
    except FetchError as error:
        print(f"fetch: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
