"""Read nvcc's PTX: functions, what each one does, and what it can reach by calls.

Only the text that nvcc prints is understood (bodies between braces in the
first column). Nothing here knows architectures or patches.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

_FUNCTION = re.compile(
    r"^(?:\.visible |\.weak |\.common )*\.(entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)[^\n]*$", re.M
)
_BODY = re.compile(r"^\{$(.*)^\}$", re.M | re.S)  # greedy: inline asm has such braces too
_STRING = re.compile(r"^\.global [^\n]*?\.b8 ([\w$]+)\[\d+\] = \{([\d, ]+)\};", re.M)
_CALL = re.compile(r"call(?:\.uni)?\s*(?:\(\s*\w+\s*\)\s*,\s*)?([^\s,;(]+)")
_WORD = re.compile(r"%?[\w$]+")
# the translation unit's hash in internal names changes with every compilation
_INTERNAL = re.compile(r"(_INTERNAL_)[0-9a-f]{8}(_\d+_\w*?_)[0-9a-f]{8}")
_COPIES = ("mov", "add", "sub", "cvta", "cvt", "selp")
_EFFECTS = (
    "atom", "red", "multimem", "cp.async.bulk", "cp.reduce", "tensormap.replace", "discard",
    "mbarrier", "griddepcontrol", "barrier.cluster", "tcgen05", "wgmma", "mma", "wmma", "ldmatrix",
    "stmatrix", "sust", "setmaxnreg", "cp.async", "bar.", "barrier", "fence", "membar",
)
TRAPS = ("trap", "brkpt")


@dataclass(frozen=True, slots=True)
class Function:
    """One PTX function: its opcodes, callees and the text constants it names.

    ``effects`` counts instructions with a visible outcome: stores that do not
    stay in the function's own stack, atomics, matrix and barrier instructions.
    """

    name: str
    entry: bool
    opcodes: Mapping[str, int]
    calls: frozenset[str]
    texts: frozenset[str]
    effects: int

    @property
    def statements(self) -> int:
        """Executable statements, the final return included."""
        return sum(self.opcodes.values())


@dataclass(frozen=True, slots=True)
class Reach:
    """What an entry can execute through calls, itself included."""

    opcodes: Mapping[str, int]
    functions: frozenset[str]
    texts: frozenset[str]
    effects: int

    def count(self, mnemonic: str) -> int:
        """How often instructions starting with this mnemonic appear."""
        return sum(n for op, n in self.opcodes.items() if f"{op}.".startswith(f"{mnemonic}."))


@dataclass(frozen=True, slots=True)
class Ptx:
    """The functions of one PTX file by (hash-free) name."""

    functions: Mapping[str, Function]

    @property
    def entries(self) -> list[Function]:
        return [function for function in self.functions.values() if function.entry]

    def reach(self, name: str) -> Reach:
        """Everything that is reachable from a function by direct calls."""
        seen: set[str] = set()
        todo = [name]
        opcodes: Counter[str] = Counter()
        texts: set[str] = set()
        effects = 0
        while todo:
            here = todo.pop()
            function = self.functions.get(here)
            if here in seen or function is None:
                seen.add(here)
                continue
            seen.add(here)
            opcodes.update(function.opcodes)
            texts |= function.texts
            effects += function.effects
            todo += function.calls
        return Reach(opcodes, frozenset(seen), frozenset(texts), effects)


def stable_name(name: str) -> str:
    """A mangled name without the per-compilation hash of internal linkage."""
    return _INTERNAL.sub(r"\g<1>00000000\g<2>00000000", name)


def parse_ptx(text: str) -> Ptx:
    """Read one PTX file as nvcc writes it."""
    constants = {name: _decode(data) for name, data in _STRING.findall(text)}
    functions: dict[str, Function] = {}
    for match in _FUNCTION.finditer(text):
        following = _FUNCTION.search(text, match.end())
        limit = following.start() if following else len(text)
        body = _BODY.search(text, match.end(), limit)
        if body is None:
            continue  # a declaration
        name = stable_name(match[2])
        functions[name] = _function(name, match[1] == "entry", body[1], constants)
    return Ptx(functions)


def _decode(data: str) -> str:
    return bytes(int(n) & 255 for n in data.split(",")).rstrip(b"\0").decode("ascii", "replace")


def _function(name: str, entry: bool, body: str, constants: Mapping[str, str]) -> Function:
    opcodes: Counter[str] = Counter()
    calls: set[str] = set()
    texts: set[str] = set()
    statements = [_instruction(s) for s in _strip_comments(body).split(";")]
    local = _stack_registers([s for s in statements if s])
    effects = 0
    for statement in statements:
        if not statement:
            continue
        opcode = statement.split(None, 1)[0]
        opcodes[opcode] += 1
        if opcode.startswith("call"):
            found = _CALL.match(statement)
            if found:
                calls.add(stable_name(found[1]))
        elif _has_effect(opcode, statement, local):
            effects += 1
        if constants and "mov" in opcode:
            texts.update(constants[w] for w in _WORD.findall(statement) if w in constants)
    return Function(name, entry, opcodes, frozenset(calls), frozenset(texts), effects)


def _strip_comments(body: str) -> str:
    return re.sub(r"//[^\n]*", "", body)


def _instruction(statement: str) -> str:
    """The instruction of one statement: no label, predicate, brace or declaration."""
    text = statement.strip().lstrip("{}").strip()
    while True:
        trimmed = re.sub(r"^(?:\$?[\w$]+:|@!?%\w+|[{}])\s*", "", text)
        if trimmed == text:
            break
        text = trimmed
    return "" if text.startswith((".", "}")) else text


def _stack_registers(statements: list[str]) -> frozenset[str]:
    """Registers that only ever hold addresses in the function's own stack frame."""
    sources: dict[str, list[set[str]]] = {}
    for statement in statements:
        opcode, _, rest = statement.partition("\t" if "\t" in statement else " ")
        words = [w for w in _WORD.findall(rest) if w.startswith(("%", "__local"))]
        if words and opcode.split(".")[0] in _COPIES:
            sources.setdefault(words[0], []).append(set(words[1:]))
        elif words and not opcode.startswith(("st", "red", "bra", "ret")):
            sources.setdefault(words[0], []).append(set())  # loaded or computed: not the stack
    local = {"%SP", "%SPL"}
    changed = True
    while changed:
        changed = False
        for register, definitions in sources.items():
            if register in local:
                continue
            if all(d & local or any(w.startswith("__local") for w in d) for d in definitions):
                local.add(register)
                changed = True
    return frozenset(local)


def _has_effect(opcode: str, statement: str, local: frozenset[str]) -> bool:
    if opcode.startswith("st."):
        if ".param" in opcode or ".local" in opcode:
            return False
        address = re.search(r"\[\s*(%?[\w$]+)", statement)
        return address is None or address[1] not in local
    return opcode.startswith(_EFFECTS)
