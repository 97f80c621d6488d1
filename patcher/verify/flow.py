"""Which statements control can reach: unoptimised code keeps branches that are never taken.

``if (false)`` stands in it as a predicate that is a constant, ``if (level() < 1200)`` as a
call of a function that returns one. Both are followed; a value that is kept in memory is not.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Place = tuple[int, int]  # number of a source file, line

_CALL = re.compile(r"(?:\(\s*\w+\s*\)\s*,\s*)?([^\s,;(]+)")
# the translation unit's hash in internal names changes with every compilation
_INTERNAL = re.compile(r"(_INTERNAL_)[0-9a-f]{8}(_\d+_\w*?_)[0-9a-f]{8}")
_NUMBER = re.compile(r"-?\d+|0[xX][0-9a-fA-F]+")
_ROUNDS = 8  # of constants that are returned by way of others
_ENDS = ("bra", "brx", "ret", "exit")
_DEFINES_NOTHING = ("st", "red", "bra", "brx", "ret", "exit", "call", "bar", "membar", "fence",
                    "trap")
_EVALUATED = ("mov.", "cvt.", "setp.", "selp.", "and.pred", "or.pred", "xor.pred", "not.pred",
              "ld.param.")
_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge, "lo": operator.lt, "ls": operator.le,
    "hi": operator.gt, "hs": operator.ge,
}


def stable_name(name: str) -> str:
    """A mangled name without the per-compilation hash of internal linkage."""
    return _INTERNAL.sub(r"\g<1>00000000\g<2>00000000", name)


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
class Body:
    """A function's blocks in the order of the text, and the blocks that each label begins.

    Labels inside inline assembly repeat from one asm block to the next, so a label may be many.
    """

    blocks: Sequence[Block]
    labels: Mapping[str, Sequence[int]]


def live_blocks(bodies: Mapping[str, Body]) -> dict[str, dict[int, Block]]:
    """Per function the blocks that control can reach, each told what may follow it."""
    returns: dict[str, int] = {}
    found: dict[str, dict[int, Block]] = {}
    todo = set(bodies)
    for _ in range(_ROUNDS):
        known = set(returns)
        for name in todo:
            found[name], value = _reach(bodies[name], returns)
            if value is not None:
                returns[name] = value
        new = set(returns) - known
        todo = {name for name in bodies if new and not new.isdisjoint(_callees(bodies[name]))}
        if not todo:
            break
    return found


def _callees(body: Body) -> Iterator[str]:
    return (s.callee for block in body.blocks for s in block.statements
            if s.opcode.startswith("call"))


def _reach(body: Body, returns: Mapping[str, int]) -> tuple[dict[int, Block], int | None]:
    """The live blocks, and the number that the function returns if it is always the same."""
    constants = _constants(body.blocks, returns)
    every = [number for numbers in body.labels.values() for number in numbers]
    seen: set[int] = set()
    todo = [0]
    while todo:
        number = todo.pop()
        if number in seen or number >= len(body.blocks):
            continue
        seen.add(number)
        block = body.blocks[number]
        block.following = tuple(_following(block, number, body.labels, every, constants))
        todo += block.following
    live = {number: body.blocks[number] for number in sorted(seen)}
    return live, _returned(live, constants)


def _following(block: Block, number: int, labels: Mapping[str, Sequence[int]],
               every: Sequence[int], constants: Mapping[str, int]) -> Iterator[int]:
    last = block.statements[-1] if block.statements else None
    if last is None or not last.opcode.startswith(_ENDS):
        yield number + 1
        return
    taken, falls = True, bool(last.predicate)
    if (name := last.predicate.lstrip("!")) in constants:
        taken = bool(constants[name]) != last.predicate.startswith("!")
        falls = not taken
    if taken and last.opcode.startswith("brx"):
        yield from every  # a jump table: its targets are not followed
    elif taken and last.opcode.startswith("bra"):
        yield from labels.get(last.operands, ())
    if falls:
        yield number + 1


def _returned(live: Mapping[int, Block], constants: Mapping[str, int]) -> int | None:
    stores = [s for block in live.values() for s in block.statements
              if s.opcode.startswith("st.param") and "func_retval" in s.operands]
    values = {_value(s.operands.rpartition(",")[2], constants) for s in stores
              if "[func_retval0]" in s.operands}
    return values.pop() if len(values) == 1 and len(stores) == 1 else None


def _constants(blocks: Sequence[Block], returns: Mapping[str, int]) -> dict[str, int]:
    """Registers whose every definition gives the same number."""
    definitions: dict[str, list[tuple[Statement, str]]] = {}
    callee = ""
    for block in blocks:
        for s in block.statements:
            kind = s.opcode.partition(".")[0]
            if kind == "call":
                callee = s.callee
            elif kind not in _DEFINES_NOTHING:
                target = s.operands.partition("}" if s.operands.startswith("{") else ",")[0]
                for name in target.strip("{").replace("|", ",").split(","):
                    definitions.setdefault(name.strip(), []).append((s, callee))
    todo = {name: found for name, found in definitions.items()
            if all(s.opcode.startswith(_EVALUATED) for s, _ in found)}
    known: dict[str, int] = {}
    new = True
    while new:
        new = False
        for name, found in list(todo.items()):  # mostly in order, so that one round finds most
            values = {_evaluate(s, called, known, returns) for s, called in found}
            value = values.pop() if len(values) == 1 else None
            if value is not None:
                known[name] = value
                new = True
                del todo[name]
    return known


def _evaluate(s: Statement, callee: str, known: Mapping[str, int],
              returns: Mapping[str, int]) -> int | None:
    """The number that a statement defines, None when it is not the same at every run."""
    kind, _, form = s.opcode.partition(".")
    target, _, rest = s.operands.partition(",")
    if "{" in s.operands or "|" in target:
        return None
    if s.opcode.startswith("ld.param"):
        return returns.get(callee) if "[retval0]" in rest else None
    values = [_value(word, known) for word in rest.split(",")]
    if kind in ("and", "or") and form == "pred" and int(kind == "or") in map(_truth, values):
        return int(kind == "or")
    numbers = [value for value in values if value is not None]
    if len(numbers) != len(values):
        return None
    if kind == "setp":
        compare = _COMPARE.get(form.partition(".")[0])
        unsigned = form.rpartition(".")[2].startswith("u") and min(numbers) < 0
        return int(compare(*numbers)) if compare and len(numbers) == 2 and not unsigned else None
    if form == "pred":
        return _logic(kind, [bool(number) for number in numbers])
    if kind == "mov" or (kind == "cvt" and "f" not in form and 0 <= numbers[0] < 1 << 15):
        return numbers[0]
    if kind == "selp" and len(numbers) == 3:
        return numbers[0] if numbers[2] else numbers[1]
    return None


def _logic(kind: str, values: Sequence[bool]) -> int | None:
    if kind == "mov":
        return int(values[0])
    if kind == "not":
        return int(not values[0])
    if len(values) == 2 and kind in ("and", "or", "xor"):
        one, other = values
        return int({"and": one and other, "or": one or other, "xor": one != other}[kind])
    return None


def _truth(value: int | None) -> int | None:
    return None if value is None else int(bool(value))


def _value(word: str, known: Mapping[str, int]) -> int | None:
    word = word.strip()
    return int(word, 0) if _NUMBER.fullmatch(word) else known.get(word)
