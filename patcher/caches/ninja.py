"""What ninja recorded about a build: its dependency log and its build file.

Both are read as data; no process is started. The log's format is that of
ninja's own ``deps_log`` (version 4: 1.4 to at least 1.13).
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from patcher.tree import read_plain

_SIGNATURE = b"# ninjadeps\n"
_VERSION = 4
_MAX_RECORD = (1 << 19) - 1  # what ninja itself accepts
_IS_DEPS = 1 << 31
_WORD = struct.Struct("<I")


def read_deps(data: bytes) -> dict[str, tuple[str, ...]]:
    """The inputs recorded for each output, as written, the last record of an output counting.

    A damaged log yields the records before the damage, which is what ninja
    keeps of it; what is missing then, ninja rebuilds.
    """
    head = len(_SIGNATURE) + _WORD.size
    if not data.startswith(_SIGNATURE + _WORD.pack(_VERSION)):
        return {}
    paths: list[str] = []
    deps: dict[int, tuple[int, ...]] = {}
    position = head
    while position + _WORD.size <= len(data):
        (word,) = _WORD.unpack_from(data, position)
        size, position = word & ~_IS_DEPS, position + _WORD.size
        record, position = data[position:position + size], position + size
        if len(record) < size or size > _MAX_RECORD or size % 4 or size < 8:
            break
        if word & _IS_DEPS:
            numbers = struct.unpack(f"<{size // 4}I", record)
            if max(numbers[0], *numbers[3:], 0) >= len(paths):  # words 1 and 2 are the mtime
                break
            deps[numbers[0]] = numbers[3:]
        else:
            (checksum,) = _WORD.unpack_from(record, size - 4)
            if checksum != ~len(paths) & 0xFFFFFFFF:
                break
            paths.append(os.fsdecode(record[:-4].rstrip(b"\0")))
    return {paths[out]: tuple(paths[i] for i in inputs) for out, inputs in deps.items()}


def recorded(folder: Path) -> dict[str, tuple[str, ...]]:
    """Absolute outputs and inputs of the log in a build folder; empty when there is none."""
    try:
        logged = read_deps(read_plain(str(folder / ".ninja_deps")))
    except OSError:
        return {}
    # a log names each path once, and objects share most of their inputs
    places = {path: _absolute(folder, path)
              for path in {*logged, *(path for inputs in logged.values() for path in inputs)}}
    return {places[out]: tuple(places[path] for path in inputs) for out, inputs in logged.items()}


@dataclass(frozen=True, slots=True)
class Build:
    """One ``build`` statement of a build file; all paths absolute."""

    output: str
    rule: str
    inputs: tuple[str, ...]

    @property
    def is_object(self) -> bool:
        return self.output.endswith(".o")

    @property
    def is_host(self) -> bool:
        """True for an object whose source goes to the C++ compiler, not to nvcc."""
        source = self.inputs[0] if self.inputs else ".o"
        return self.is_object and not source.endswith((".cu", ".o"))


@dataclass(frozen=True, slots=True)
class BuildFile:
    """What a generated build.ninja says: its build statements and its include folders."""

    builds: tuple[Build, ...]
    include: tuple[str, ...]  # -I, in order
    system: tuple[str, ...]  # -isystem, in order


_ESCAPE = re.compile(r"\$(?:([ :$])|\{(\w+)\}|(\w+))")
_BUILD = re.compile(r"^build\s+(?P<out>(?:\$.|[^:$\s|])(?:\$.|[^:$])*):\s*"
                    r"(?P<rule>\S+)(?P<in>.*)$", re.MULTILINE)
_ASSIGN = re.compile(r"^(\w+) = (.*)$", re.MULTILINE)
_FOLDER = re.compile(r"(-isystem\s*|-I\s*)(\S+)")


def read_build_file(path: Path) -> BuildFile:
    """Read a generated build.ninja; raises OSError when there is none.

    Only what such files use is understood: variables of the top level, line
    continuations, and ``$`` escapes in paths.
    """
    text = re.sub(r"\$\n\s*", "", read_plain(str(path)).decode("utf-8", "surrogateescape"))
    values = {match[1]: match[2] for match in _ASSIGN.finditer(text)}

    def place(word: str) -> str:
        expanded = _ESCAPE.sub(lambda m: m[1] or values.get(m[2] or m[3], ""), word)
        return _absolute(path.parent, expanded)

    folders = [(match[1].strip(), place(match[2].strip("'\"")))
               for value in values.values() for match in _FOLDER.finditer(value)]
    builds = [Build(place(_words(match["out"])[0]), match["rule"],
                    tuple(place(word) for word in _words(match["in"])))
              for match in _BUILD.finditer(text)]
    return BuildFile(
        tuple(builds),
        tuple(dict.fromkeys(folder for flag, folder in folders if flag == "-I")),
        tuple(dict.fromkeys(folder for flag, folder in folders if flag == "-isystem")),
    )


def _words(text: str) -> list[str]:
    """The explicit paths of one side of a build statement, still escaped."""
    words = re.findall(r"(?:\$.|\S)+", text)
    return words[:next((i for i, word in enumerate(words) if word.startswith("|")), len(words))]


def _absolute(folder: Path, path: str) -> str:
    return os.path.normpath(os.path.join(folder, path))
