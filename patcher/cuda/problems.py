"""What can be wrong with a condition, and how much of anything is walked at all.

Scanned files are not trusted: every bound here is far above what real code
needs, and past it the walk goes on with a warning.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

MAX_FILE_BYTES = 32 << 20
MAX_DIRECTIVES = 400_000  # in one file
MAX_RAW_STRING_WORK = 4 << 30  # raw string openings times bytes: each may have to search them all
MAX_CONDITION = 1 << 20  # characters of a condition or of a macro that one uses
MAX_NESTING = 200  # of operands in a condition, and of includes (gcc's own limit)
MAX_LADDERS = 2000  # #ifs within each other
MAX_EXPANSION = 200_000  # tokens that one condition's macros may produce
MAX_WORK = 20_000_000  # rows walked and tokens produced for one unit
MAX_DECIDERS = 16  # names reported for one unknown


class Malformed(Exception):
    """Not an expression; a compiler reports an error and takes it as false."""


class TooComplex(Exception):
    """The input would take more time or memory than it is worth."""


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Room on the stack for everything that ``MAX_NESTING`` allows."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


_RECURSION = 6000  # includes nest 200 deep, and macro arguments below them
