"""Fetch the parts of releases that patchsets look at: a wheel's members, a source archive's files.

    python corpus/slices.py                       every release of releases.json
    python corpus/slices.py sglang==0.5.23        some of them
    python corpus/slices.py --pin sglang==0.5.23  write its hash into releases.json

uv names the archives (it runs no code of theirs). Of a wheel only the members that
``releases.json`` lists are transferred, by range requests; its RECORD is pinned there and each
member is checked against it. A source archive is pinned and fetched whole. What is kept is an
archive with the same name that holds the members alone, below ``slices/wheels`` or
``slices/sources``.
"""

from __future__ import annotations

import argparse
import base64
import csv
import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from members import RangeFile

from patcher.toml import parse_toml

CORPUS = Path(__file__).resolve().parent
RELEASES = CORPUS / "releases.json"
SLICES = CORPUS / "slices"
_ALWAYS = ("*.dist-info/METADATA", "*.dist-info/RECORD", "*.dist-info/WHEEL",
           "*.dist-info/top_level.txt")
_TIMEOUT = 600


class SliceError(Exception):
    """An archive could not be had, or is not the one that was pinned."""


@dataclass(frozen=True)
class Kind:
    """Releases of one project in one form, and which of their files are kept."""

    name: str
    form: str  # wheels or sources
    members: tuple[str, ...]
    releases: dict[str, str]  # version -> SHA-256 of the RECORD, or of the source archive
    left_out: tuple[str, ...] = ()

    def keeps(self, path: str) -> bool:
        wanted = any(fnmatch(path, each) for each in (*self.members, *_ALWAYS))
        return wanted and not any(fnmatch(path, each) for each in self.left_out)


def load() -> list[Kind]:
    """What releases.json lists."""
    return [Kind(row["name"], row["form"], tuple(row["members"]), row["releases"],
                 tuple(row.get("left_out", ())))
            for row in json.loads(RELEASES.read_text("utf-8"))["kinds"]]


def slice_of(kind: Kind, version: str, *, pinning: bool = False) -> tuple[Path, str]:
    """The sliced archive, made when it is not here yet, and the hash that pins it.

    Raises SliceError when the bytes are not the pinned ones.
    """
    pinned = kind.releases.get(version, "")
    stem = f"{re.sub(r'[-.]+', '_', kind.name)}-{version}"
    folder = SLICES / kind.form
    here = next(iter(sorted(folder.glob(f"{stem}-*.whl")) + sorted(folder.glob(f"{stem}.tar.gz"))),
                None)
    if here is not None and not pinning:
        return here, pinned
    address = _address(kind, version)
    place = folder / address.rsplit("/", 1)[1]
    folder.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(f".{os.getpid()}-{place.name}")
    make = _wheel if kind.form == "wheels" else _source
    try:
        digest = make(kind, address, fresh, "" if pinning else pinned)
        fresh.replace(place)
    finally:
        fresh.unlink(missing_ok=True)
    return place, digest


def _address(kind: Kind, version: str) -> str:
    """Where uv says that the archive is; a wheel for Linux on x86_64, for any Python."""
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        raise SliceError("uv is not here to name archives: pip install uv")
    command = [uv, "pip", "compile", "--quiet", "--no-deps", "--universal", "--format",
               "pylock.toml", "--python-version", "3.12", "-"]
    done = subprocess.run(command, input=f"{kind.name}=={version}\n", capture_output=True,
                          text=True, timeout=_TIMEOUT, check=False)
    if done.returncode:
        raise SliceError(f"no release {kind.name} {version}: {done.stderr.strip()[-200:]}")
    (package,) = parse_toml(done.stdout, "uv")["packages"]
    if kind.form == "sources":
        found = [package["sdist"]["url"]] if "sdist" in package else []
    else:
        found = [row["url"] for row in package.get("wheels", [])
                 if re.search(r"-any\.whl$|-manylinux\w+x86_64\.whl$", row["url"])]
    if not found:
        raise SliceError(f"{kind.name} {version} has no {kind.form}")
    return str(found[0])


def _wheel(kind: Kind, address: str, place: Path, pinned: str) -> str:
    with zipfile.ZipFile(RangeFile(address)) as wheel, \
            zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as made:
        record = next(n for n in wheel.namelist() if fnmatch(n, "*.dist-info/RECORD"))
        listing = wheel.read(record)
        digest = hashlib.sha256(listing).hexdigest()
        if pinned and digest != pinned:
            raise SliceError(f"{address.rsplit('/', 1)[1]}: its RECORD is not the pinned one")
        hashes = {row[0]: row[1] for row in csv.reader(io.StringIO(listing.decode())) if row}
        for info in wheel.infolist():
            if info.is_dir() or not kind.keeps(info.filename):
                continue
            data = wheel.read(info)
            said = hashes.get(info.filename, "")
            if info.filename != record and said != _record_hash(data):
                raise SliceError(f"{info.filename} is not what its wheel's RECORD says")
            made.writestr(info.filename, data)
    return digest


def _record_hash(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
    return "sha256=" + digest.rstrip(b"=").decode()


def _source(kind: Kind, address: str, place: Path, pinned: str) -> str:
    with urllib.request.urlopen(address, timeout=_TIMEOUT) as reply:
        data: bytes = reply.read()
    digest = hashlib.sha256(data).hexdigest()
    if pinned and digest != pinned:
        raise SliceError(f"{address.rsplit('/', 1)[1]} is not the pinned archive")
    with tarfile.open(fileobj=io.BytesIO(data)) as archive, tarfile.open(place, "w:gz") as made:
        for info in _files(archive):
            if kind.keeps(info.name.partition("/")[2]):
                made.addfile(info, archive.extractfile(info))
    return digest


def _files(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for info in archive:
        if info.isfile() and not info.name.startswith("/") and ".." not in info.name.split("/"):
            yield info


def _pin(name: str, form: str, version: str, digest: str) -> None:
    with RELEASES.open("r+", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)  # several of these may run at once
        document: dict[str, Any] = json.load(handle)
        for row in document["kinds"]:
            if (row["name"], row["form"]) == (name, form):
                row["releases"][version] = digest
        handle.seek(0)
        handle.write(json.dumps(document, indent=1) + "\n")
        handle.truncate()


def main() -> int:
    """Fetch; 1 when some release cannot be had, which is said for each."""
    parser = argparse.ArgumentParser(description="Fetch the parts of releases that are looked at.")
    parser.add_argument("requirements", nargs="*", metavar="NAME==VERSION")
    parser.add_argument("--form", choices=("wheels", "sources"), help="only this form")
    parser.add_argument("--pin", action="store_true", help="write the hashes into releases.json")
    arguments = parser.parse_args()
    failed = 0
    for kind in load():
        if arguments.form not in (None, kind.form):
            continue
        named = [r.partition("==")[2] for r in arguments.requirements
                 if r.partition("==")[0] == kind.name]
        for version in named if arguments.requirements else kind.releases:
            try:
                place, digest = slice_of(kind, version, pinning=arguments.pin)
            except (SliceError, OSError, zipfile.BadZipFile) as error:
                print(f"{kind.name} {version}: {error}", file=sys.stderr)
                failed = 1
                continue
            if arguments.pin:
                _pin(kind.name, kind.form, version, digest)
            print(f"{place.name}  {place.stat().st_size >> 10} KiB  {digest[:12]}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
