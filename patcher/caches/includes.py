"""Which headers a host compiled file may include, conditions ignored.

``g++ -MMD`` leaves headers under -isystem out of its dependency file (measured,
g++ 12.2), so for host objects ninja's record cannot tell whether a header edit
concerns them. The textual closure can only name too many files, never too few,
except through an include whose name is a macro.
"""

from __future__ import annotations

import os
import re
from functools import cache

from patcher.errors import PatcherError
from patcher.tree import read_plain

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include(?:_next)?[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
_MAX_FILES = 20_000


@cache
def _includes(path: str) -> tuple[tuple[bool, str], ...]:
    """The include directives of a file as (quoted, name); none when it cannot be read."""
    try:
        data = read_plain(path)
    except (OSError, PatcherError):
        return ()
    return tuple((match[1] == b'"', os.fsdecode(match[2])) for match in _INCLUDE.finditer(data))


@cache
def _is_file(path: str) -> bool:
    return os.path.isfile(path)


def closure(source: str, folders: tuple[str, ...]) -> frozenset[str]:
    """Every file that ``source`` may reach over these include folders, itself included.

    A name counts in every folder that has it: which one wins depends on
    directives that are not evaluated here.
    """
    seen = {source}
    stack = [source]
    while stack and len(seen) < _MAX_FILES:
        here = stack.pop()
        for quoted, name in _includes(here):
            beside = (os.path.dirname(here),) if quoted else ()
            for folder in (*beside, *folders):
                path = os.path.normpath(os.path.join(folder, name))
                if path not in seen and _is_file(path):
                    seen.add(path)
                    stack.append(path)
    return frozenset(seen)
