"""A zip file anew with some members replaced, the same bytes on every machine.

Members that stay are copied as they are compressed, those that change are
stored: what a compressor makes of them differs between releases of zlib, and a
lock file pins the hash of the whole.
"""

from __future__ import annotations

import os
import struct
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from patcher.errors import InputError

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s4B4H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_MAX = 0xFFFFFFFE  # beyond it the format needs its 64-bit extension
_UTF8 = 0x800  # flag: the name is UTF-8
_ENCRYPTED = 0x1
_EPOCH = (1980, 1, 1, 0, 0, 0)  # what a member that we write gets
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the new file: ``source`` is copied under ``name``, or ``data`` stored."""

    name: str
    source: str | None = None
    data: bytes = b""
    mode: int = 0o644


def repack(archive: Path, members: Iterable[Member], target: Path) -> str:
    """Write ``target`` from the members in order, whole or not at all; gives its SHA-256.

    Raises InputError for an archive that cannot be copied so (encrypted, broken,
    larger than 4 GiB), or a target that cannot be written.
    """
    try:
        with ZipFile(archive) as known, archive.open("rb") as old:
            infos = {info.filename: info for info in known.infolist()}
            handle, name = tempfile.mkstemp(dir=target.parent, prefix=".new-")
            try:
                with os.fdopen(handle, "w+b") as new:
                    os.fchmod(new.fileno(), 0o644)
                    _write(new, old, infos, members)
                    digest = _digest(new)
                os.replace(name, target)
            except BaseException:
                os.unlink(name)
                raise
    except (OSError, BadZipFile, struct.error) as error:
        raise InputError(f"cannot write {target}: {error}", where=str(archive)) from error
    return digest


def _digest(file: BinaryIO) -> str:
    import hashlib

    digest = hashlib.sha256()
    file.seek(0)
    while block := file.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()


def _write(new: BinaryIO, old: BinaryIO, infos: Mapping[str, ZipInfo],
           members: Iterable[Member]) -> None:
    directory, count = [], 0
    for member in members:
        offset = new.tell()
        info = _described(member, infos)
        if max(offset, info.file_size, info.compress_size) > _MAX or count >= 0xFFFE:
            raise BadZipFile("too large for a plain zip file")
        name = info.filename.encode()
        new.write(_LOCAL.pack(b"PK\3\4", 20, _UTF8, info.compress_type, *_stamp(info), info.CRC,
                              info.compress_size, info.file_size, len(name), 0) + name)
        if member.source is None:
            new.write(member.data)
        else:
            _copy(old, infos[member.source], new)
        directory.append(_CENTRAL.pack(
            b"PK\1\2", 20, 3, 20, 0, _UTF8, info.compress_type, *_stamp(info), info.CRC,
            info.compress_size, info.file_size, len(name), 0, 0, 0, 0, info.external_attr,
            offset) + name)
        count += 1
    start = new.tell()
    new.write(b"".join(directory))
    new.write(_END.pack(b"PK\5\6", 0, 0, count, count, new.tell() - start, start, 0))


def _described(member: Member, infos: Mapping[str, ZipInfo]) -> ZipInfo:
    """Name, time, sizes and checksum of the new member."""
    found = ZipInfo(member.name, _EPOCH)
    if member.source is None:
        found.compress_type, found.external_attr = ZIP_STORED, (0o100000 | member.mode) << 16
        found.CRC = zlib.crc32(member.data)
        found.file_size = found.compress_size = len(member.data)
        return found
    info = infos[member.source]
    if info.flag_bits & _ENCRYPTED:
        raise BadZipFile(f"{info.filename} is encrypted")
    found.date_time, found.compress_type = info.date_time, info.compress_type
    found.external_attr, found.CRC = info.external_attr, info.CRC
    found.file_size, found.compress_size = info.file_size, info.compress_size
    return found


def _stamp(info: ZipInfo) -> tuple[int, int]:
    """Time and date as MS-DOS wrote them."""
    year, month, day, hour, minute, second = info.date_time
    return hour << 11 | minute << 5 | second // 2, year - 1980 << 9 | month << 5 | day


def _copy(old: BinaryIO, info: ZipInfo, new: BinaryIO) -> None:
    """The member's bytes as they are compressed."""
    old.seek(info.header_offset)
    header = _LOCAL.unpack(old.read(_LOCAL.size))
    if header[0] != b"PK\3\4":
        raise BadZipFile(f"{info.filename} is not where the directory says")
    old.seek(header[9] + header[10], os.SEEK_CUR)
    left = info.compress_size
    while left:
        block = old.read(min(left, _BLOCK))
        if not block:
            raise BadZipFile(f"{info.filename} ends early")
        new.write(block)
        left -= len(block)
