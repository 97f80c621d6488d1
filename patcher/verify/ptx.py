"""Read nvcc's PTX into functions: their live statements, callees and source lines.

Unoptimised code keeps branches that can never be taken (``if (false)``); what
stands behind them is left out. Only the text that nvcc prints is understood
(bodies between braces in the first column). Nothing here knows architectures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_FUNCTION = re.compile(
    r"^(?:\.visible |\.weak |\.common |\.extern )*\.(entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)"
    r"[^\n]*$", re.M)
_BODY = re.compile(r"^\{$(.*)^\}$", re.M | re.S)  # greedy: inline asm has such braces too
_STRING = re.compile(r"^\.global [^\n]*?\.b8 ([\w$]+)\[\d+\] = \{([\d, ]+)\};", re.M)
_SHARED = re.compile(r"^\s*(?:\.\w+ )*\.shared [^\n;\[]*?([\w$]+)(?:\[(\d*)\])?;", re.M)
_FILE = re.compile(r'^\s*\.file\s+(\d+) "([^"\n]+)"', re.M)
_COMMENT = re.compile(r"//[^\n]*")
_LOC = re.compile(r"^[ \t]*\.loc\s+(\d+) (\d+)[^\n]*", re.M)
_STATEMENT = re.compile(
    r"\s*((?:[{}\s]|[$\w]+:(?!:))*)(?:@(!?[%\w]+)\s+)?([a-z][\w.:]*)\s*(.*)", re.S)
_LABEL = re.compile(r"([$\w]+):")
_CALL = re.compile(r"(?:\(\s*\w+\s*\)\s*,\s*)?([^\s,;(]+)")
# the translation unit's hash in internal names changes with every compilation
_INTERNAL = re.compile(r"(_INTERNAL_)[0-9a-f]{8}(_\d+_\w*?_)[0-9a-f]{8}")

ROOT = "/package/"  # stands for the package's root in every text that is compiled
Place = tuple[int, int]  # number of a source file, line


@dataclass(frozen=True, slots=True)
class Statement:
    """One instruction; ``predicate`` is as written (``!%p1``), empty when there is none."""

    opcode: str
    operands: str
    predicate: str
    place: Place

    @property
    def callee(self) -> str:
        """The function that a direct call calls; a register for an indirect one."""
        found = _CALL.match(self.operands) if self.opcode.startswith("call") else None
        return stable_name(found[1]) if found else ""


@dataclass(slots=True)
class Block:
    """Statements that run one after the other, and the numbers of the blocks that may follow."""

    statements: list[Statement] = field(default_factory=list)
    following: tuple[int, ...] = ()


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


def stable_name(name: str) -> str:
    """A mangled name without the per-compilation hash of internal linkage."""
    return _INTERNAL.sub(r"\g<1>00000000\g<2>00000000", name)


def parse_ptx(text: str) -> Module:
    """Read one PTX file as nvcc writes it, with or without line information."""
    text = _LOC.sub(r".loc \1 \2;", _COMMENT.sub("", text))
    functions: dict[str, Function] = {}
    heads = list(_FUNCTION.finditer(text))
    ends = [*(head.start() for head in heads), len(text)][1:]
    for head, limit in zip(heads, ends, strict=False):
        body = _BODY.search(text, head.end(), limit)
        if body is not None:  # else a declaration
            name = stable_name(head[2])
            functions[name] = _function(name, head[1] == "entry", body[1])
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


def _function(name: str, entry: bool, body: str) -> Function:
    blocks, labels, place = _blocks(body)
    return Function(name, entry, _live(blocks, labels), place)


def _blocks(body: str) -> tuple[list[Block], dict[str, list[int]], Place]:
    """Basic blocks in order, the blocks that each label begins, and the function's first line.

    Labels inside inline assembly repeat from one asm block to the next, so a label may be many.
    """
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
    return blocks, labels, first


def _live(blocks: Sequence[Block], labels: Mapping[str, Sequence[int]]) -> dict[int, Block]:
    """The blocks that control can reach, each told what may follow it."""
    constants = _constants(blocks)
    every = [number for numbers in labels.values() for number in numbers]
    seen: set[int] = set()
    todo = [0]
    while todo:
        number = todo.pop()
        if number in seen or number >= len(blocks):
            continue
        seen.add(number)
        block = blocks[number]
        block.following = tuple(_following(block, number, labels, every, constants))
        todo += block.following
    return {number: blocks[number] for number in sorted(seen)}


def _following(block: Block, number: int, labels: Mapping[str, Sequence[int]],
               every: Sequence[int], constants: Mapping[str, bool]) -> Iterator[int]:
    last = block.statements[-1] if block.statements else None
    if last is None or not last.opcode.startswith(("bra", "brx", "ret", "exit")):
        yield number + 1
        return
    taken, falls = True, bool(last.predicate)
    if (name := last.predicate.lstrip("!")) in constants:
        taken = constants[name] != last.predicate.startswith("!")
        falls = not taken
    if taken and last.opcode.startswith("brx"):
        yield from every  # a jump table: its targets are not followed
    elif taken and last.opcode.startswith("bra"):
        yield from labels.get(last.operands, ())
    if falls:
        yield number + 1


def _constants(blocks: Sequence[Block]) -> dict[str, bool]:
    """Predicates that have one definition, and that a constant."""
    found: dict[str, bool | None] = {}
    for block in blocks:
        for s in block.statements:
            if not (s.opcode.endswith(".pred") or s.opcode.startswith("setp")):
                continue
            names, _, value = s.operands.partition(",")
            for name in names.split("|"):
                known = s.opcode == "mov.pred" and value.strip() in ("-1", "0", "1")
                once = name.strip() not in found and known and not s.predicate
                found[name.strip()] = value.strip() != "0" if once else None
    return {name: value for name, value in found.items() if value is not None}
