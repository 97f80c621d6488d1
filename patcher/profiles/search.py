"""A unit's whole search path and macros, from a command's flags and the toolkit's folders."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from patcher.cuda.model import Configuration
from patcher.cuda.predefined import flag_macros
from patcher.profiles.flags import Flags, names_target
from patcher.profiles.partial import HOLE
from patcher.toolchain.model import Toolkit


@dataclass(frozen=True, slots=True)
class SearchPath:
    """Completes a command's folders by those of nvcc and of the host compiler.

    nvcc puts its own -I behind the user's and before every -isystem; gcc drops
    an -I folder that is also an -isystem folder (both measured with --dryrun).
    """

    toolkit: Toolkit

    def configuration(self, name: str, flags: Flags, guessed: bool) -> Configuration:
        """How a source with these flags is compiled; macros with unknown values stay open."""
        system = distinct([*flags.system, *self.toolkit.system, *self.toolkit.host.include])
        real = {_real(folder) for folder in system}
        include = [f for f in distinct([*flags.include, *self.toolkit.include])
                   if _real(f) not in real]
        closed = {n: v for n, v in flags.define.items() if HOLE not in n + v}
        return Configuration(
            id=name, include=tuple(include), system=tuple(system),
            defines=tuple(sorted({**closed, **dict(flag_macros(flags.other))}.items())),
            forced=("cuda_runtime.h", *flags.forced), std=flags.std.replace("gnu++", "c++"),
            guessed=guessed, flags=tuple(f for f in flags.other if not names_target(f)),
            open_macros=frozenset(n for n in flags.define if n not in closed and HOLE not in n),
        )


def distinct(folders: Iterable[str]) -> list[str]:
    """The folders in order, each once."""
    return list(dict.fromkeys(folders))


@lru_cache(maxsize=4096)
def _real(folder: str) -> str:
    return os.path.realpath(folder) if folder.startswith("/") else folder
