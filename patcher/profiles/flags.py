"""A compiler's arguments, read as far as preprocessing depends on them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_GENCODE = re.compile(r"arch=\S*?code=\[?([\w,]+)\]?|^-?-?(?:gpu-architecture|arch)=(\S+)")
_SEPARATE = {"-I": "include", "-isystem": "system", "-D": "define", "-U": "undefine",
             "-include": "forced", "-o": "", "-c": "", "-MF": "", "-ccbin": "",
             "--dependency-output": "", "-idirafter": "after"}
_VALUED = frozenset({"-gencode", "--generate-code", "-arch", "--gpu-architecture", "-std", "--std"})
_JOINED = re.compile(r"(-isystem|-I|-D|-U)\s*(.+)", re.DOTALL)


@dataclass
class Flags:
    """``other`` keeps what is neither a folder nor a macro: -std, optimisation, gencode."""

    include: list[str] = field(default_factory=list)
    system: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    define: dict[str, str] = field(default_factory=dict)
    forced: list[str] = field(default_factory=list)
    other: list[str] = field(default_factory=list)
    std: str = "c++17"

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that ``-gencode`` and ``-arch`` name, as nvcc spells them."""
        found: list[str] = []
        for flag in self.other:
            if names_target(flag):
                match = _GENCODE.search(flag)
                found += (match[1] or match[2]).split(",") if match else []
        return tuple(dict.fromkeys(found))


def names_target(flag: str) -> bool:
    """True for a flag that says for which architecture is compiled."""
    return flag.startswith(("-gencode", "--generate-code", "-arch", "--gpu-architecture"))


def read_flags(arguments: Iterable[str]) -> Flags:
    """Sort a command's arguments; the compiler's name must not be among them."""
    flags = Flags()
    pending = ""
    for argument in arguments:
        if pending in _VALUED:
            _other(flags, f"{pending}={argument}")
            pending = ""
        elif pending:
            _store(flags, _SEPARATE[pending], argument)
            pending = ""
        elif argument in _SEPARATE or argument in _VALUED:
            pending = argument
        elif joined := _JOINED.fullmatch(argument):
            _store(flags, _SEPARATE[joined[1]], joined[2])
        else:
            _other(flags, argument)
    return flags


def _other(flags: Flags, argument: str) -> None:
    flags.other.append(argument)
    if match := re.match(r"-?-std=(\S+)", argument):
        flags.std = match[1]


def _store(flags: Flags, kind: str, value: str) -> None:
    if kind == "define":
        name, separator, text = value.partition("=")
        flags.define[name] = text if separator else "1"
    elif kind == "undefine":
        flags.define.pop(value, None)
    elif kind:
        folder_list: list[str] = getattr(flags, kind)
        folder_list.append(value)
