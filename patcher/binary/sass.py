"""Which kernels of a cubin do nothing: read from the opcodes of their code sections.

Machine code of Volta and later has 16 bytes per instruction, the opcode in the
low 12 bits. The opcodes below were measured with ptxas 13.0 on sm_80, sm_90a,
sm_100a and sm_120a from kernels that are empty or trap by construction; an empty
one loads the stack pointer at most, and exits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from patcher.binary.elf import ElfFile

_EXIT, _TRAP = 0x94D, 0x95C
# MOV from a constant bank (sm_80), LDC, NOP, and the BRA that closes every kernel
_IDLE = frozenset({0xA02, 0xB82, 0x918, 0x947, _EXIT})
_SIZE = 16
_MAX_IDLE = 64 * _SIZE  # code longer than this does something
_TEXT = ".text."


class Body(str, Enum):
    """What a kernel's code amounts to."""

    HOLLOW = "hollow"  # returns at once
    TRAP = "trap"  # stops the device at once
    CODE = "code"


def bodies(cubin: Path) -> Iterator[tuple[str, Body]]:
    """Every code section of a cubin, by the mangled name of its function.

    Raises InputError when it is not an ELF file or is damaged.
    """
    with ElfFile(cubin) as elf:
        yield from ((name, body) for name, body, _ in kernels(elf))


def kernels(elf: ElfFile) -> Iterator[tuple[str, Body, int]]:
    """Every code section of an open cubin, with its size in bytes."""
    for section in elf.sections:
        if section.name.startswith(_TEXT):
            code = elf.read(section.offset, min(section.size, _MAX_IDLE))
            yield section.name[len(_TEXT):], _judge(code, section.size), section.size


def _judge(code: bytes, size: int) -> Body:
    opcodes = {struct.unpack_from("<Q", code, at)[0] & 0xFFF
               for at in range(0, len(code) - _SIZE + 1, _SIZE)}
    if size > _MAX_IDLE or not opcodes <= _IDLE | {_TRAP}:
        return Body.CODE
    return Body.TRAP if _TRAP in opcodes else Body.HOLLOW
