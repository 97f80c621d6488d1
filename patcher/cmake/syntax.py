"""CMake's grammar: commands with their arguments, nested into blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from patcher.errors import InputError

MAX_DEPTH = 64  # blocks within blocks
_TOKEN = re.compile(
    r"(?P<comment>#\[(?P<mark>=*)\[.*?\](?P=mark)\]|#[^\n]*)"
    r"|(?P<space>[ \t\r]+)|(?P<line>\n)|(?P<open>\()|(?P<close>\))"
    r'|(?P<bracket>\[(?P<level>=*)\[.*?\](?P=level)\])'
    r'|(?P<quoted>"(?:\\.|[^"\\])*")'
    r'|(?P<plain>(?:\\.|\$\([^()\s]*\)|"(?:\\.|[^"\\])*"|[^\s()#"\\])+)',
    re.DOTALL,
)


class Kind(Enum):
    PLAIN = "plain"
    QUOTED = "quoted"
    BRACKET = "bracket"


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument as written, without its quotes or brackets."""

    text: str
    kind: Kind = Kind.PLAIN


@dataclass(frozen=True, slots=True)
class Command:
    """``name`` in lower case; parentheses within the arguments are arguments."""

    name: str
    arguments: tuple[Argument, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Block:
    """A command with what it encloses. ``arms`` of an ``if`` are (command, body) pairs."""

    head: Command
    arms: tuple[tuple[Command, tuple[Node, ...]], ...]


Node = Command | Block
_ENDS = {"if": "endif", "foreach": "endforeach", "while": "endwhile",
         "function": "endfunction", "macro": "endmacro", "block": "endblock"}


@lru_cache(maxsize=64)
def parse(text: str, path: str) -> tuple[Node, ...]:
    """A file's commands; raises InputError with the line where it is no CMake."""
    commands = list(_commands(text, path))
    nodes, rest = _nest(commands, 0, (), path, 0)
    if rest < len(commands):
        raise InputError(f"{commands[rest].name} closes nothing",
                         where=f"{path}:{commands[rest].line}")
    return nodes


def _commands(text: str, path: str) -> Iterator[Command]:
    tokens = _tokens(text, path)
    name, at = "", 0
    for kind, value, line in tokens:
        if kind == "plain" and not name:
            name, at = value.lower(), line
        elif kind == "open" and name:
            yield Command(name, tuple(_arguments(tokens, path)), at)
            name = ""
        elif kind != "line":
            raise InputError(f"unexpected {value[:20]!r}", where=f"{path}:{line}")


def _arguments(tokens: Iterator[tuple[str, str, int]], path: str) -> Iterator[Argument]:
    depth = 0
    for kind, value, _ in tokens:
        if kind == "close" and not depth:
            return
        depth += (kind == "open") - (kind == "close")
        if kind == "quoted":
            yield Argument(value[1:-1], Kind.QUOTED)
        elif kind == "bracket":
            level = value.index("[", 1) + 1
            yield Argument(value[level:-level].removeprefix("\n"), Kind.BRACKET)
        elif kind != "line":
            yield Argument(value)
    raise InputError("a command is not closed", where=path)


def _tokens(text: str, path: str) -> Iterator[tuple[str, str, int]]:
    position, line = 0, 1
    text = text.removeprefix("\ufeff")
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InputError("not readable as CMake", where=f"{path}:{line}")
        kind = next(k for k in ("comment", "space", "line", "open", "close", "bracket",
                                "quoted", "plain") if match[k] is not None)
        if kind not in ("comment", "space"):
            yield kind, match[0], line
        line += match[0].count("\n")
        position = match.end()


def _nest(commands: list[Command], at: int, until: tuple[str, ...], path: str,
          depth: int) -> tuple[tuple[Node, ...], int]:
    """The nodes from ``at`` to one of ``until``, and where that stands."""
    if depth > MAX_DEPTH:
        raise InputError("blocks are nested too deeply", where=path)
    nodes: list[Node] = []
    closers = frozenset(_ENDS.values()) | {"else", "elseif"}
    while at < len(commands):
        command = commands[at]
        if command.name in until or command.name in closers:
            break
        at += 1
        if command.name not in _ENDS:
            nodes.append(command)
            continue
        arms: list[tuple[Command, tuple[Node, ...]]] = []
        head, end = command, _ENDS[command.name]
        wanted = (end, "else", "elseif") if command.name == "if" else (end,)
        while True:
            body, at = _nest(commands, at, wanted, path, depth + 1)
            arms.append((head, body))
            if at >= len(commands) or commands[at].name not in wanted:
                raise InputError(f"{command.name} has no {end}", where=f"{path}:{command.line}")
            head, at = commands[at], at + 1
            if head.name == end:
                break
        nodes.append(Block(command, tuple(arms)))
    return tuple(nodes), at
