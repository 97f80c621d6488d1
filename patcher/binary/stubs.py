"""Kernels that are hollow for one target and real for another, in a built library.

Guarded bodies compile to a return, a trap, or a message and a trap: a few hundred bytes where
another target has thousands, and the text of the message beside them. What is compressed is
unpacked when asked, where that is possible; the rest is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from patcher.arch import Target
from patcher.binary.elf import ElfFile
from patcher.binary.fatbin import Code, Entry, FatBinary, cubin, loaded
from patcher.binary.packing import CannotUnpack
from patcher.binary.sass import Body, kernels

# Measured with nvcc 13.0 and on sgl-kernel 0.3.21: a guarded body is 256 bytes (1,280 where it
# is compiled), one that prints and traps 384 (over 11,000 where it is compiled).
_STUB_BYTES = 512
_RATIO = 4
# What guarded bodies of CUTLASS, vLLM and TensorRT-LLM print before they stop; it stands in the
# code only where the guard shut the real body out.
_MESSAGES = (b"Arch conditional MMA instruction used without targeting",
             b"This kernel only supports sm12", b"This kernel shall only run on SM10")
_DATA = ".nv.global.init"
_MAX_DATA = 16 << 20


@dataclass(frozen=True, slots=True)
class Stub:
    """A kernel of ``size`` bytes for the target that has ``other_size`` bytes in ``other``."""

    kernel: str
    size: int
    other: Code
    other_size: int


@dataclass(frozen=True, slots=True)
class Stubs:
    """``looked_at`` kernels were measured, in ``aborting`` containers some print that they are
    not for this target; ``unknown`` containers could not be measured."""

    found: tuple[Stub, ...] = ()
    looked_at: int = 0
    aborting: int = 0
    unknown: int = 0

    def __add__(self, other: Stubs) -> Stubs:
        return Stubs(self.found + other.found, self.looked_at + other.looked_at,
                     self.aborting + other.aborting, self.unknown + other.unknown)


def stubs(path: Path, binaries: Iterable[FatBinary], target: Target, *,
          unpack: bool = True) -> Stubs:
    """Compare what the target would load with the other targets' code of the same kernels.

    Raises InputError for damaged code.
    """
    return sum((_of(path, binary, target, unpack) for binary in binaries), Stubs())


def _of(path: Path, binary: FatBinary, target: Target, unpack: bool) -> Stubs:
    entry = loaded(binary, target)
    if entry is None or entry.code.ptx:
        return Stubs()
    if entry.packing and not unpack:
        return Stubs(unknown=1)
    try:
        with cubin(path, entry) as elf:
            rows = list(kernels(elf))
            aborting = _has_message(elf)
    except CannotUnpack:
        return Stubs(unknown=1)
    small = {name: size for name, body, size in rows
             if body is not Body.CODE or size <= _STUB_BYTES}
    others = [e for e in binary if e is not entry and (unpack or not e.packing)]
    found = _real_elsewhere(path, small, others) if small else ()
    return Stubs(tuple(found), len(rows), int(aborting))


def _has_message(elf: ElfFile) -> bool:
    return any(message in data for section in elf.sections if section.name == _DATA
               for data in [elf.read(section.offset, min(section.size, _MAX_DATA))]
               for message in _MESSAGES)


def _real_elsewhere(path: Path, small: dict[str, int], others: list[Entry]) -> list[Stub]:
    best: dict[str, Stub] = {}
    for entry in others:
        if entry.code.ptx:
            continue
        try:
            with cubin(path, entry) as elf:
                sizes = {name: size for name, body, size in kernels(elf)
                         if name in small and body is Body.CODE}
        except CannotUnpack:
            continue
        for name, size in sizes.items():
            if size >= _RATIO * small[name] and (
                    name not in best or size > best[name].other_size):
                best[name] = Stub(name, small[name], entry.code, size)
    return [best[name] for name in sorted(best)]
