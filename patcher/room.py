"""What our long computations ask of the interpreter: room for deep calls, a collector at rest."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import TypeVar, cast

T = TypeVar("T")
_WORDS = 1 << 16  # of 8 bytes, never touched


def _call(function: Callable[[], T]) -> T:
    """Call a function, and what it calls, without thrashing at the edges of the frame stack.

    CPython (3.11 and later) keeps frames in pieces of 16 KB and gives a piece back to the
    system as soon as it is empty, so that a loop whose calls cross an edge maps and unmaps
    memory at each turn. A frame that is large gets a piece twice its size, and all that it
    calls finds room there.
    """
    return function()


roomy = cast(Callable[[Callable[[], T]], T], FunctionType(
    _call.__code__.replace(co_stacksize=_WORDS), globals(), "roomy"))


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Walks and syntax trees make many long-lived objects and few cycles. The collector would
    look through them again and again and double the time, so what they leave is kept out of its
    sight."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.freeze()
            gc.enable()
