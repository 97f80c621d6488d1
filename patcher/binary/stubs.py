"""Kernels that are hollow for one target and real for another, in a built library.

Guarded bodies compile to a return, a trap, or a message and a trap: a few hundred
bytes where another target has thousands. Only uncompressed machine code can be
measured; the rest is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from patcher.arch import Target
from patcher.binary.elf import ElfFile
from patcher.binary.fatbin import Code, Entry, FatBinary, loaded
from patcher.binary.sass import Body, kernels

# Measured with nvcc 13.0 and on sgl-kernel 0.3.21: a guarded body is 256 bytes (1,280 where it
# is compiled), one that prints and traps 384 (over 11,000 where it is compiled).
_STUB_BYTES = 512
_RATIO = 4


@dataclass(frozen=True, slots=True)
class Stub:
    """A kernel of ``size`` bytes for the target that has ``other_size`` bytes in ``other``."""

    kernel: str
    size: int
    other: Code
    other_size: int


@dataclass(frozen=True, slots=True)
class Stubs:
    """``looked_at`` kernels were measured; ``compressed`` containers could not be."""

    found: tuple[Stub, ...]
    looked_at: int
    compressed: int


def stubs(path: Path, binaries: tuple[FatBinary, ...], target: Target) -> Stubs:
    """Compare what the target would load with the other targets' code of the same kernels.

    Raises InputError for damaged code.
    """
    found: list[Stub] = []
    looked_at = compressed = 0
    for binary in binaries:
        entry = loaded(binary, target)
        if entry is None or entry.code.ptx:
            continue
        if entry.compressed:
            compressed += 1
            continue
        small, count = _small(path, entry)
        looked_at += count
        if small:
            found += _real_elsewhere(path, small, [e for e in binary if e is not entry])
    return Stubs(tuple(found), looked_at, compressed)


def _small(path: Path, entry: Entry) -> tuple[dict[str, int], int]:
    """The kernels small enough to be stubs, and how many kernels there are."""
    with ElfFile(path, entry.offset, entry.size) as elf:
        rows = list(kernels(elf))
    small = {name: size for name, body, size in rows
             if body is not Body.CODE or size <= _STUB_BYTES}
    return small, len(rows)


def _real_elsewhere(path: Path, small: dict[str, int], others: list[Entry]) -> list[Stub]:
    best: dict[str, Stub] = {}
    for entry in others:
        if entry.code.ptx or entry.compressed:
            continue
        with ElfFile(path, entry.offset, entry.size) as elf:
            sizes = {name: size for name, body, size in kernels(elf)
                     if name in small and body is Body.CODE}
        for name, size in sizes.items():
            if size >= _RATIO * small[name] and (
                    name not in best or size > best[name].other_size):
                best[name] = Stub(name, small[name], entry.code, size)
    return [best[name] for name in sorted(best)]
