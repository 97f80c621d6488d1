"""Which GPU code a library holds, from the headers of its embedded fat binaries.

The layout was measured on files built by nvcc 13.0 (``-gencode`` for single
targets, every ``--compress-mode``) and compared with what cuobjdump 13.5 lists:
a container is ``magic, version, header size, payload size``; each entry has its
kind at byte 0, header and payload size at 4 and 8, the target's number at 28 and
flags at 40, where bit 20 means suffix ``a`` and bit 21 suffix ``f``. Compression
leaves the headers readable: bits 13 (LZ4) and 15 (zstd) tell how, 16 the packed and
56 the unpacked size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from patcher.arch import Target, known_targets
from patcher.binary.elf import ElfFile, Section
from patcher.binary.packing import Packing, unpack
from patcher.errors import InputError

_SECTIONS = (".nv_fatbin", "__nv_relfatbin")
_MAGIC = 0xBA55ED50
_CONTAINER = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_SPECIFIC, _FAMILY = 1 << 20, 1 << 21
_LZ4, _ZSTD = 1 << 13, 1 << 15
_MAX_ENTRIES = 1_000_000  # a large library has thousands


class Kind(Enum):
    """What an entry of a fat binary is."""

    PTX = 1
    CUBIN = 2


@dataclass(frozen=True, slots=True, order=True)
class Code:
    """One kind of GPU code for one target: ``sm_120a`` machine code, or PTX for ``compute_90``."""

    number: int
    suffix: str
    ptx: bool

    def __str__(self) -> str:
        return f"{'compute' if self.ptx else 'sm'}_{self.number}{self.suffix}"

    def runs_on(self, target: Target) -> bool:
        """True when a device of the target's capability can run this code.

        ``a`` code needs exactly that capability, ``f`` code the same family from
        that minor on, plain machine code the same major from that minor on,
        plain PTX that capability or a later one (CUDA C++ Programming Guide,
        "Binary Compatibility", "PTX Compatibility", "Family-Specific Features").
        """
        if self.suffix == "a":
            return self.number == target.number
        if self.ptx and not self.suffix:
            return self.number <= target.number
        return self.number // 10 == target.number // 10 and self.number <= target.number


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: its code, where its bytes are in the file, and what they are unpacked."""

    code: Code
    offset: int
    size: int
    packing: Packing | None = None
    unpacked: int = 0


FatBinary = tuple[Entry, ...]
"""One container: the versions of the same kernels for several targets."""


def fat_binaries(path: Path) -> tuple[FatBinary, ...]:
    """The containers of a library or object, in file order; empty when it has no GPU code.

    Raises InputError when the file is no ELF file or its containers are damaged.
    """
    with ElfFile(path) as elf:
        return tuple(one for section in elf.sections if section.name in _SECTIONS
                     for one in _containers(elf, section))


def cubin(path: Path, entry: Entry) -> ElfFile:
    """The machine code of an entry, open for reading.

    Raises CannotUnpack for compressed code that stays unknown, InputError for damaged code.
    """
    if entry.packing is None:
        return ElfFile(path, entry.offset, entry.size)
    with open(path, "rb") as file:
        file.seek(entry.offset)
        data = file.read(entry.size)
    return ElfFile(path, content=unpack(data, entry.packing, entry.unpacked, str(path)))


def gpu_code(path: Path) -> frozenset[Code]:
    """The code a library or object holds, all containers together; raises as above."""
    return frozenset(entry.code for one in fat_binaries(path) for entry in one)


def loaded(binary: FatBinary, target: Target) -> Entry | None:
    """The entry that a device of this target's capability would use: machine code before PTX,
    the most specific first; None when there is none."""
    usable = [entry for entry in binary if entry.code.runs_on(target)]
    return max(usable, key=lambda e: (not e.code.ptx, e.code.number, bool(e.code.suffix),
                                      e.code.suffix == "a"), default=None)


def covers(codes: frozenset[Code], target: Target) -> bool:
    """True when a device of this target's capability can run some of the code."""
    return any(code.runs_on(target) for code in codes)


def targets_of(codes: frozenset[Code]) -> list[str]:
    """Names of the known targets with machine code, in table order, for reports."""
    named = {str(code) for code in codes}
    return [target.name for target in known_targets() if target.name in named]


def _containers(elf: ElfFile, section: Section) -> Iterator[FatBinary]:
    position, end = section.offset, section.offset + section.size
    budget = _MAX_ENTRIES
    while position + _CONTAINER.size <= end:
        magic, _, header, size = _CONTAINER.unpack(elf.read(position, _CONTAINER.size))
        if magic == 0:  # padding between containers, which begin at multiples of 8
            position += 8
            budget -= 1
        elif magic != _MAGIC or header < _CONTAINER.size or position + header + size > end:
            raise InputError("damaged fat binary", where=str(elf.path))
        else:
            entries = tuple(_entries(elf, position + header, position + header + size, budget))
            budget -= 1 + len(entries)
            yield entries
            position = _aligned(position + header + size)
        if budget < 0:
            raise InputError("too many parts in the fat binary", where=str(elf.path))


def _entries(elf: ElfFile, position: int, end: int, budget: int) -> Iterator[Entry]:
    while position + _ENTRY.size <= end:
        (kind, _, header, size, packed, _, _, _, number, _, _, flags, _, unpacked
         ) = _ENTRY.unpack(elf.read(position, _ENTRY.size))
        budget -= 1
        if header < _ENTRY.size or position + header + size > end or budget < 0:
            raise InputError("damaged fat binary", where=str(elf.path))
        if kind in (Kind.PTX.value, Kind.CUBIN.value):
            suffix = "a" if flags & _SPECIFIC else "f" if flags & _FAMILY else ""
            packing = Packing.ZSTD if flags & _ZSTD else Packing.LZ4 if flags & _LZ4 else None
            yield Entry(Code(number, suffix, ptx=kind == Kind.PTX.value), position + header,
                        min(packed or size, size) if packing else size, packing, unpacked)
        position += header + size


def _aligned(offset: int) -> int:
    return (offset + 7) & ~7
