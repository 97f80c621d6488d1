"""What a shared object needs and offers at load time: DT_NEEDED, search paths, symbols.

Reads the dynamic segment the way the loader does (program headers, not sections,
which may be stripped). Layout: System V ABI, chapter "Dynamic Linking".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from patcher.binary.elf import ElfFile
from patcher.errors import InputError

_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_DYNAMIC = struct.Struct("<qQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_LOAD, _DYNAMIC_SEGMENT = 1, 2
_NEEDED, _HASH, _STRTAB, _SYMTAB, _STRSZ, _SONAME, _RPATH, _RUNPATH = 1, 4, 5, 6, 10, 14, 15, 29
_GNU_HASH = 0x6FFFFEF5
_WEAK, _UNDEFINED, _LOCAL = 2, 0, 0
_MAX_BYTES = 64 << 20  # string and symbol tables of the largest known library are below 40 MiB
_MAX_NAME = 1 << 16
_MAX_NAMES = 4 * _MAX_BYTES  # of all names together: a damaged table can have them overlap
_MAX_SEGMENTS = 4096


@dataclass(frozen=True, slots=True)
class Dynamic:
    """The loader's view of one shared object. Names are mangled, versions dropped.

    ``undefined`` are strong references that something else must define;
    ``weak`` ones may stay unresolved; ``defined`` is what others can use.
    ``machine`` is the processor's number in the ELF header.
    """

    path: Path
    machine: int
    soname: str | None
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]
    undefined: frozenset[str]
    weak: frozenset[str]
    defined: frozenset[str]


def read_dynamic(path: Path) -> Dynamic:
    """Read a shared object; raises InputError when it is truncated, damaged or static."""
    with ElfFile(path) as elf:
        reader = _Reader(elf)
        strings = reader.strings
        undefined, weak, defined = reader.symbols()
        return Dynamic(
            path,
            reader.machine,
            next((_text(strings, v) for v in reader.all(_SONAME)), None),
            tuple(_text(strings, v) for v in reader.all(_NEEDED)),
            tuple(p for v in reader.all(_RPATH) for p in _text(strings, v).split(":") if p),
            tuple(p for v in reader.all(_RUNPATH) for p in _text(strings, v).split(":") if p),
            undefined,
            weak,
            defined,
        )


def _text(strings: bytes, offset: int) -> str:
    end = strings.find(b"\0", offset)
    if not 0 <= offset < len(strings) or end < 0:
        return ""
    return strings[offset:end].decode("utf-8", "replace")


class _Reader:
    """Offsets of the dynamic tables inside one open file."""

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf
        self.machine: int
        header = elf.read(0, 64)
        (self.machine,) = struct.unpack_from("<H", header, 18)
        (table,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        if size != _PROGRAM_HEADER.size or count > _MAX_SEGMENTS:
            raise self._damaged("unknown program headers")
        rows = list(_PROGRAM_HEADER.iter_unpack(elf.read(table, size * count)))
        loads = [(r[3], r[2], r[5]) for r in rows if r[0] == _LOAD]
        self._loads: list[tuple[int, int, int]] = loads
        dynamic = next(((r[2], r[5]) for r in rows if r[0] == _DYNAMIC_SEGMENT), None)
        if dynamic is None:
            raise InputError("not a dynamically linked file", where=str(elf.path))
        data = self._bytes(*dynamic)
        self._entries: list[tuple[int, int]] = []
        for tag, value in _DYNAMIC.iter_unpack(data[: len(data) // 16 * 16]):
            if tag == 0:
                break
            self._entries.append((tag, value))

    def all(self, tag: int) -> list[int]:
        return [value for t, value in self._entries if t == tag]

    def _one(self, tag: int) -> int | None:
        return next(iter(self.all(tag)), None)

    def _damaged(self, what: str) -> InputError:
        return InputError(f"damaged ELF file: {what}", where=str(self._elf.path))

    def _bytes(self, offset: int, size: int) -> bytes:
        if size > _MAX_BYTES:
            raise self._damaged("a table is too large")
        return self._elf.read(offset, size)

    def _offset(self, address: int) -> int:
        for start, offset, size in self._loads:
            if start <= address < start + size:
                return offset + address - start
        raise self._damaged("an address lies in no segment")

    @cached_property
    def strings(self) -> bytes:
        address, size = self._one(_STRTAB), self._one(_STRSZ)
        if address is None or size is None:
            return b""
        return self._bytes(self._offset(address), size)

    def symbols(self) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """(strong undefined, weak undefined, defined) names."""
        table = self._one(_SYMTAB)
        if table is None:
            return frozenset(), frozenset(), frozenset()
        data = self._bytes(self._offset(table), self._count() * _SYMBOL.size)
        strings = self.strings
        undefined, weak, defined = set(), set(), set()
        budget = _MAX_NAMES
        for name, info, _, section, _, _ in _SYMBOL.iter_unpack(data):
            if not name or info >> 4 == _LOCAL:
                continue
            end = strings.find(b"\0", name, name + _MAX_NAME)
            budget -= max(end - name, 0)
            if end < 0 or budget < 0:
                raise self._damaged("its names do not end")
            text = strings[name:end].decode("utf-8", "replace")
            if section != _UNDEFINED:
                defined.add(text)
            elif info >> 4 == _WEAK:
                weak.add(text)
            else:
                undefined.add(text)
        return frozenset(undefined), frozenset(weak), frozenset(defined)

    def _count(self) -> int:
        """The number of symbols: from the section table, else from the hash tables.

        The dynamic segment itself does not say, and a GNU hash table leaves out
        the undefined symbols of a library that exports nothing.
        """
        sizes = [s.size for s in self._elf.sections if s.name == ".dynsym"]
        if sizes:
            return sizes[0] // _SYMBOL.size
        if (address := self._one(_HASH)) is not None:
            count: int = struct.unpack("<II", self._bytes(self._offset(address), 8))[1]
            return count
        if (address := self._one(_GNU_HASH)) is None:
            return 0
        return self._gnu_count(self._offset(address))

    def _gnu_count(self, offset: int) -> int:
        buckets, first, bloom, _ = struct.unpack("<IIII", self._bytes(offset, 16))
        start = offset + 16 + 8 * bloom
        heads = struct.unpack(f"<{buckets}I", self._bytes(start, 4 * buckets))
        last: int = max(heads, default=0)
        if last < first:
            return int(first)  # nothing is exported
        chain = start + 4 * buckets + 4 * (last - first)
        while True:  # the chain ends where the lowest bit is set; reads are bounded by the file
            block = self._elf.read(chain, min(4096, self._elf.size - chain) // 4 * 4)
            if not block:
                raise self._damaged("an endless hash chain")
            for (value,) in struct.iter_unpack("<I", block):
                last += 1
                if value & 1:
                    return last
            chain += len(block)
