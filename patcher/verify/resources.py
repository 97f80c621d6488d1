"""What ptxas -v says of a kernel's registers, spills and static shared memory."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True, slots=True)
class Resources:
    """Over all kernels of a unit: the most registers per thread, the most bytes of static shared
    memory per block, the bytes that are spilled, and the number of kernels that spill."""

    registers: int = 0
    shared: int = 0
    spilled: int = 0
    spilling: int = 0


def read_resources(messages: str) -> Resources:
    """Read the messages of ``ptxas -v``; all zero when there are none."""
    registers = shared = spilled = spilling = 0
    for part in _ENTRY.split(messages)[2::2]:
        if found := _USED.search(part):
            registers = max(registers, int(found[1]))
        if found := _SHARED.search(part):
            shared = max(shared, int(found[1]))
        mine = sum(int(store) + int(load) for store, load in _SPILLS.findall(part))
        spilled += mine
        spilling += bool(mine)
    return Resources(registers, shared, spilled, spilling)
