"""Deep calls do not map and unmap memory at each turn of a loop."""

from __future__ import annotations

import resource
import sys

import pytest

from patcher.room import roomy

TURNS = 50
DEPTHS = 300  # of frames of about 100 bytes: past one edge of the 16 KB pieces at least


def _leaf() -> None:
    return None


def _loop_at(depth: int) -> None:
    if depth:
        _loop_at(depth - 1)
        return
    for _ in range(TURNS):
        _leaf()


def _faults() -> int:
    """Pages that the system had to hand out while loops ran at many depths."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for depth in range(DEPTHS):
        _loop_at(depth)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_a_loop_in_a_deep_call_maps_no_memory() -> None:
    roomy(_faults)  # what is needed once
    assert roomy(_faults) < TURNS


@pytest.mark.skipif(sys.version_info < (3, 11), reason="frames were on the heap")
def test_without_room_it_does() -> None:
    assert _faults() > TURNS


def test_the_answer_and_the_exception_come_through() -> None:
    assert roomy(lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        roomy(lambda: 1 // 0)
