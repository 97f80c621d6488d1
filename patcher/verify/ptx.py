"""Read nvcc's PTX into functions: their live statements, callees and source lines.

What stands behind branches that can never be taken is left out. Only the text that
nvcc prints is understood (bodies between braces in the first column). Nothing here
knows architectures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from patcher.verify.flow import Block, Body, Place, Statement, live_blocks, stable_name

_FUNCTION = re.compile(
    r"^(?:\.visible |\.weak |\.common |\.extern )*\.(entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)"
    r"[^\n]*$", re.M)
_BODY = re.compile(r"^\{$(.*)^\}$", re.M | re.S)  # greedy: inline asm has such braces too
_STRING = re.compile(r"^\.global [^\n]*?\.b8 ([\w$]+)\[\d+\] = \{([\d, ]+)\};", re.M)
_SHARED = re.compile(r"^\s*(?:\.\w+ )*\.shared [^\n;\[]*?([\w$]+)(?:\[(\d*)\])?;", re.M)
_FILE = re.compile(r'^\s*\.file\s+(\d+) "([^"\n]+)"', re.M)
_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.S)
_LOC = re.compile(r"^[ \t]*\.loc\s+(\d+) (\d+)[^\n]*", re.M)
_STATEMENT = re.compile(
    r"\s*((?:[{}\s]|[$\w]+:(?!:))*)(?:@(!?[%\w]+)\s+)?([a-z][\w.:]*)\s*(.*)", re.S)
_LABEL = re.compile(r"([$\w]+):")

ROOT = "/package/"  # stands for the package's root in every text that is compiled


@dataclass(frozen=True, slots=True)
class Function:
    """One function with a body; ``place`` is where its definition begins."""

    name: str
    entry: bool
    blocks: Mapping[int, Block]  # those that can be reached; 0 comes first
    place: Place

    @property
    def statements(self) -> Iterator[Statement]:
        """All that can be reached, in the order of the text."""
        return (s for block in self.blocks.values() for s in block.statements)


@dataclass(frozen=True, slots=True)
class Module:
    """One PTX file; names are free of hashes, ``files`` are the sources by number."""

    functions: Mapping[str, Function]
    texts: Mapping[str, str]  # constants that hold text, by name
    shared: Mapping[str, int]  # variables in shared memory, and their bytes
    files: Mapping[int, str]

    def where(self, place: Place) -> str:
        """``path:line``, empty when the code has no line information."""
        return f"{_plain(self.files[place[0]])}:{place[1]}" if place[0] in self.files else ""


def parse_ptx(text: str) -> Module:
    """Read one PTX file as nvcc writes it, with or without line information."""
    text = _LOC.sub(r".loc \1 \2;", _COMMENT.sub(_without_comment, text))
    found: dict[str, tuple[bool, Body, Place]] = {}
    heads = list(_FUNCTION.finditer(text))
    ends = [*(head.start() for head in heads), len(text)][1:]
    for head, limit in zip(heads, ends, strict=False):
        body = _BODY.search(text, head.end(), limit)
        if body is not None:  # else a declaration
            found[stable_name(head[2])] = (head[1] == "entry", *_body(body[1]))
    live = live_blocks({name: body for name, (_, body, _) in found.items()})
    functions = {name: Function(name, entry, live[name], place)
                 for name, (entry, _, place) in found.items()}
    constants = {name: _decode(data) for name, data in _STRING.findall(text)}
    files = {int(number): path for number, path in _FILE.findall(text)}
    shared = {name: int(size or 0) for name, size in _SHARED.findall(text)}
    return Module(functions, constants, shared, files)


def line_of(text: str, number: int) -> str:
    """``path:line`` of the source behind a 1-based line of PTX, empty without line information."""
    position = -1
    for _ in range(number):
        position = text.find("\n", position + 1)
        if position < 0:
            position = len(text)
            break
    start = text.rfind("\t.loc\t", 0, position)
    found = _LOC.match(text, start) if start >= 0 else None
    path = dict(_FILE.findall(text)).get(found[1]) if found else None
    return f"{_plain(path)}:{found[2]}" if found and path else ""


def _plain(path: str) -> str:
    """A path of the package as everywhere else, relative to its root."""
    return path.removeprefix(ROOT)


def _decode(data: str) -> str:
    return bytes(int(n) & 255 for n in data.split(",")).rstrip(b"\0").decode("ascii", "replace")


def _without_comment(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else " "


def _body(body: str) -> tuple[Body, Place]:
    """Basic blocks, and the function's first line."""
    blocks, labels = [Block()], dict[str, list[int]]()
    first = place = (0, 0)
    for text in body.split(";"):
        match = _STATEMENT.match(text)
        if match is None:
            if (loc := text.strip()).startswith(".loc "):
                file, line = loc.split()[1:3]
                place = (int(file), int(line))
                first = first if first[0] else place
            if ":" not in text:
                continue  # a declaration, or white space
        for label in _LABEL.findall(match[1] if match else text):
            labels.setdefault(label, []).append(len(blocks))
            blocks.append(Block())
        if match is not None:
            statement = Statement(match[3], match[4].strip(), match[2] or "", place)
            blocks[-1].statements.append(statement)
            if statement.opcode.startswith(("bra", "brx", "ret", "exit")):
                blocks.append(Block())
    return Body(blocks, labels), first
