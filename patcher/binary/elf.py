"""The section table of a 64-bit little-endian ELF file; nothing is loaded or run.

Layout as in the System V ABI, "ELF-64 Object File Format". Files are untrusted:
every offset and count is checked before it is used, and reads are bounded.
"""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from patcher.errors import InputError, UnsafePath

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_MAGIC = b"\x7fELF\x02\x01"  # 64-bit, little endian
_NO_BITS = 8  # SHT_NOBITS: occupies no space in the file
_MAX_SECTIONS = 100_000
_MAX_NAMES = 16 << 20


@dataclass(frozen=True, slots=True)
class Section:
    """A section's place in the file, in bytes."""

    name: str
    offset: int
    size: int


def _opened(path: Path) -> tuple[BinaryIO, int]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=str(path)) from error
    info = os.fstat(descriptor)
    if not stat.S_ISREG(info.st_mode):
        os.close(descriptor)
        raise UnsafePath("not a plain file", where=str(path))
    return os.fdopen(descriptor, "rb"), info.st_size


class ElfFile:
    """An open ELF file and its sections; with ``start`` and ``size`` one inside another file,
    with ``content`` one that is in memory.

    Offsets count from ``start``. Raises InputError when it is not a 64-bit
    little-endian ELF file or its section table is damaged, UnsafePath when it
    is not a plain file.
    """

    def __init__(self, path: Path, start: int = 0, size: int | None = None, *,
                 content: bytes | None = None) -> None:
        self.path = path
        self._start = start
        self._file: BinaryIO
        self._file, length = _opened(path) if content is None else (
            BytesIO(content), len(content))
        try:
            self.size = length - start if size is None else size
            self.sections = self._read_sections()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> ElfFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._file.close()

    def read(self, offset: int, size: int) -> bytes:
        """Exactly ``size`` bytes; raises InputError when the file is shorter."""
        if offset < 0 or size < 0 or offset + size > self.size:
            raise self._damaged("an offset lies outside the file")
        self._file.seek(self._start + offset)
        data = self._file.read(size)
        if len(data) != size:
            raise self._damaged("the file became shorter while it was read")
        return data

    def _damaged(self, what: str) -> InputError:
        return InputError(f"damaged ELF file: {what}", where=str(self.path))

    def _read_sections(self) -> tuple[Section, ...]:
        if self.size < _HEADER.size or not self.read(0, 6).startswith(_MAGIC):
            raise InputError("not a 64-bit ELF file", where=str(self.path))
        header = _HEADER.unpack(self.read(0, _HEADER.size))
        table, entry_size, count, names_index = header[6], header[11], header[12], header[13]
        if not table:
            return ()
        if entry_size != _SECTION.size:
            raise self._damaged("unknown size of section headers")
        first = _SECTION.unpack(self.read(table, _SECTION.size))
        count = count or first[5]  # more than 65,279 sections: the count is in the first one
        names_index = first[6] if names_index == 0xFFFF else names_index
        if not names_index < count <= _MAX_SECTIONS:
            raise self._damaged("too many sections, or none that holds their names")
        data = self.read(table, count * _SECTION.size)
        rows = list(_SECTION.iter_unpack(data))
        if rows[names_index][5] > _MAX_NAMES:
            raise self._damaged("the section names are too long")
        names = self.read(rows[names_index][4], rows[names_index][5])
        return tuple(
            Section(names[row[0]:names.find(b"\0", row[0])].decode("utf-8", "replace"),
                    row[4], 0 if row[1] == _NO_BITS else row[5])
            for row in rows)
