"""A patched wheel: the changes in place, a version that says so, and a RECORD that is right.

The version gets the local part ``smpatch.DIGEST`` in METADATA, in the file's
name and in the names of the metadata folders, and nowhere else: what a package
says of itself (FlashInfer's ``_build_meta``) decides which cubins it fetches.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from patcher.changes import Change, Create, Modify
from patcher.errors import InputError, Refused
from patcher.package.model import Package
from patcher.repack import Member, repack

SHOWN = 12  # characters of the digest in the version
_VERSION = re.compile(rb"^Version:[^\r\n]*", re.MULTILINE)
_SIGNATURES = ("RECORD.jws", "RECORD.p7s")  # they sign the RECORD that was


@dataclass(frozen=True, slots=True)
class Patched:
    """A wheel that was written. ``digest`` is that of the package with these changes."""

    path: Path
    sha256: str
    version: str
    digest: str


def write_wheel(package: Package, changes: Iterable[Change], folder: Path) -> Patched:
    """Write the wheel behind ``package`` with ``changes`` into ``folder``.

    Raises Refused for changes that a wheel cannot hold (links), InputError for
    a wheel without RECORD, with a member twice, or that cannot be copied.
    """
    files = _contents(changes)
    digest = _digest(package, files)
    version = patched_version(package.version or "", digest)
    wheel = package.root
    rename = _Renamed(package, version)
    name = rename.file(wheel.name)
    with ZipFile(wheel) as archive:
        names = [info.filename for info in archive.infolist()]
    if len(set(names)) != len(names):
        raise InputError("a member stands in it twice", where=str(wheel))
    members = list(_members(package, names, files, rename))
    return Patched(folder / name, repack(wheel, members, folder / name), version, digest)


def patched_version(version: str, digest: str) -> str:
    """``0.6.3+smpatch.0123456789ab``; after the local part, when there is one already."""
    from packaging.version import InvalidVersion, Version

    try:
        known = Version(version)
        local = f"{known.local}." if known.local else ""
        return str(Version(f"{known.public}+{local}smpatch.{digest[:SHOWN]}"))
    except InvalidVersion:
        raise InputError(f"the wheel's version {version!r} is not one that can be extended") \
            from None


@dataclass(frozen=True, slots=True)
class _File:
    data: bytes
    mode: int | None  # None keeps that of the member


def _contents(changes: Iterable[Change]) -> dict[str, _File]:
    found: dict[str, _File] = {}
    for change in changes:
        if isinstance(change, Modify):
            found[change.path] = _File(change.new, None)
        elif isinstance(change, Create):
            found[change.path] = _File(change.new, change.mode)
        else:
            raise Refused("a wheel cannot hold this change, as installers know files only",
                          where=change.path, next_step="apply it after the install")
    return found


def _digest(package: Package, files: Mapping[str, _File]) -> str:
    """As ``engine.digest.package_digest`` gives it for an installed package with these files."""
    digest = hashlib.sha256(f"{package.name} {package.version or ''}\n".encode())
    for path in sorted(files, key=str.encode):
        digest.update(f"{path}\0{hashlib.sha256(files[path].data).hexdigest()}\n".encode())
    return digest.hexdigest()


class _Renamed:
    """Names with the new version in place of the old one."""

    def __init__(self, package: Package, version: str) -> None:
        if package.dist_info is None or not package.record:
            raise InputError("not a wheel with a RECORD", where=str(package.root))
        self.info = package.dist_info
        self._old = self.info.removesuffix(".dist-info")
        self._new = f"{self._old.partition('-')[0]}-{version}"
        self.version = version

    def file(self, name: str) -> str:
        """The wheel's file name: NAME-VERSION-TAGS.whl."""
        parts = name.split("-")
        if len(parts) < 5:
            raise InputError("not a wheel's file name", where=name)
        return "-".join([parts[0], self.version, *parts[2:]])

    def member(self, name: str) -> str:
        for folder in (".dist-info/", ".data/"):
            if name.startswith(self._old + folder):
                return self._new + name[len(self._old):]
        return name


def _members(package: Package, names: Iterable[str], files: Mapping[str, _File],
             rename: _Renamed) -> Iterator[Member]:
    """Every member in its old order; new files and RECORD come last."""
    record = f"{rename.info}/RECORD"
    written: dict[str, bytes] = {}
    signed = {f"{rename.info}/{name}" for name in _SIGNATURES}
    for name in names:
        if name == record or name in signed:
            continue
        file = files.get(name)
        if name == f"{rename.info}/METADATA":
            file = _File(_with_version(package.tree.read(name), rename.version), None)
        if file is None:
            yield Member(rename.member(name), name)
            continue
        written[name] = file.data
        yield Member(rename.member(name), None, file.data, file.mode or 0o644)
    for name in sorted(files.keys() - written.keys()):
        written[name] = files[name].data
        yield Member(name, None, files[name].data, files[name].mode or 0o644)
    rows = _record(package.tree.read(record).decode(), written, {record}, signed, rename)
    yield Member(rename.member(record), None, rows)


def _with_version(metadata: bytes, version: str) -> bytes:
    changed, count = _VERSION.subn(f"Version: {version}".encode(), metadata, count=1)
    if not count:
        raise InputError("METADATA names no version")
    return changed


def _record(text: str, written: Mapping[str, bytes], itself: set[str], dropped: set[str],
            rename: _Renamed) -> bytes:
    """RECORD with the new names, and with the hash and size of everything written."""
    rows, listed = [], set[str]()
    for row in csv.reader(text.splitlines()):
        if not row or row[0] in itself | dropped:
            continue
        listed.add(row[0])
        data = written.get(row[0])
        rest = row[1:] if data is None else _hashed(data)
        rows.append([rename.member(row[0]), *rest])
    rows += [[rename.member(name), *_hashed(written[name])]
             for name in sorted(written.keys() - listed)]
    rows += [[rename.member(name), "", ""] for name in itself]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


def _hashed(data: bytes) -> list[str]:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return [f"sha256={digest}", str(len(data))]
