"""Which functions do something that can be seen from outside, and which always end in a trap.

A store counts unless it stays in the stack of the kernel or the block's shared
memory: addresses are followed through copies, arguments and returned
references. What cannot be followed counts as seen from outside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from patcher.verify.flow import Statement
from patcher.verify.ptx import Function, Module

# Roots of an address; n >= 0 is the function's n-th parameter. A number has none.
LOCAL, OTHER = -1, -2  # LOCAL: the stack or the block's shared memory
_REGISTER = re.compile(r"%[\w$]+|__local\w+")
_ADDRESS = re.compile(r"\[\s*([%\w$]+)")
_PARAMETER = re.compile(r"_param_(\d+)")
_ARGUMENT = re.compile(r"param(\d+)")
TRAPS = ("trap", "brkpt")
_COPIES = ("mov", "add", "sub", "mad", "and", "or", "cvta", "selp")
_NUMBERS = ("shl", "shr", "mul", "cvt", "setp", "rem", "div", "bfe", "popc")
_SYMBOL = re.compile(r",\s*([A-Za-z_$][\w$]*)\s*$")
_STACK = ("%SP", "%SPL", "__local")
_EFFECTS = (
    "atom", "red", "multimem", "cp.async", "cp.reduce", "tensormap.replace", "mbarrier",
    "griddepcontrol.wait", "barrier", "bar.", "tcgen05", "wgmma", "mma", "wmma", "ldmatrix",
    "stmatrix", "sust", "fence", "membar",
)


@dataclass(frozen=True, slots=True)
class Summary:
    """What a call of a function does: visible outcomes, parameters it writes through,
    where the address that it returns may lead, and whether it can return at all."""

    effects: int = 0
    writes: frozenset[int] = frozenset()
    returns: frozenset[int] = frozenset({OTHER})
    dies: bool = False


_UNKNOWN = Summary(1)  # recursion: assume that it does something
# what the compiler's own support functions do is not what a kernel is for
_SUPPORT = re.compile(r"vprintf$|__assertfail$|__cuda_|__nv_|malloc$|free$")


def summarise(module: Module) -> dict[str, Summary]:
    """The summary of every function, callees first."""
    found: dict[str, Summary] = {}
    for root in module.functions:
        stack = [(root, False)]
        open_: set[str] = set()
        while stack:
            name, ready = stack.pop()
            if name in found or name not in module.functions:
                continue
            function = module.functions[name]
            if ready:
                found[name] = _summary(function, found, module.shared)
                open_.discard(name)
            elif name not in open_:
                open_.add(name)
                stack.append((name, True))
                stack += [(s.callee, False) for s in function.statements if s.callee]
    return found


def _summary(function: Function, known: Mapping[str, Summary],
             shared: Mapping[str, int]) -> Summary:
    effects = 0
    writes: set[int] = set()
    roots = _Roots(function, known, shared)
    for s in function.statements:
        if s.opcode.startswith("call"):
            callee = _of(s, known)
            effects += callee.effects
            targets = {r for n in callee.writes for r in roots.argument(s, n)}
        elif s.opcode.startswith("st."):
            if s.opcode.startswith(("st.param", "st.local", "st.shared.")):
                continue
            address = _ADDRESS.search(s.operands)
            targets = set(roots.of(address[1])) if address else {OTHER}
        else:
            effects += s.opcode.startswith(_EFFECTS)
            continue
        effects += OTHER in targets
        writes |= {t for t in targets if t >= 0}
    if function.entry and writes:
        effects, writes = effects + len(writes), set()
    return Summary(effects, frozenset(writes), roots.returned(), _dies(function, known))


def _dies(function: Function, known: Mapping[str, Summary]) -> bool:
    """True when every way through the function ends in a trap or a failed assertion."""
    seen: set[int] = set()
    todo = [0]
    while todo:
        number = todo.pop()
        if number in seen or number not in function.blocks:
            continue
        seen.add(number)
        block = function.blocks[number]
        if any(_ends(s, known) for s in block.statements):
            continue
        if any(s.opcode.startswith(("ret", "exit")) for s in block.statements):
            return False
        todo += block.following
    return True


def _ends(s: Statement, known: Mapping[str, Summary]) -> bool:
    if s.predicate:
        return False
    if s.opcode.startswith("call"):
        return s.callee == "__assertfail" or (s.callee in known and known[s.callee].dies)
    return s.opcode in TRAPS


def _of(call: Statement, known: Mapping[str, Summary]) -> Summary:
    if _SUPPORT.match(call.callee):
        return Summary()
    return known.get(call.callee, _UNKNOWN)


class _Roots:
    """Where the addresses in a function's registers come from, solved on first use."""

    def __init__(self, function: Function, known: Mapping[str, Summary],
                 shared: Mapping[str, int]) -> None:
        self._function = function
        self._shared = shared
        self._known = known
        self._arguments: dict[int, dict[int, str]] = {}  # call statement -> argument -> register
        self._returned: list[str] = []
        self._sums: set[str] = set()
        self._sources: dict[str, list[object]] = {}
        self._solved: dict[str, frozenset[int]] | None = None

    def of(self, register: str) -> frozenset[int]:
        """The roots of an address; a name that is no register is a variable of the module."""
        if register.startswith(_STACK) or register in self._shared:
            return frozenset({LOCAL})
        if not register.startswith("%"):
            return frozenset({OTHER})
        if self._solved is None:
            self._solved = self._solve()
        return self._solved.get(register, frozenset({OTHER}))

    def argument(self, call: Statement, number: int) -> frozenset[int]:
        if self._solved is None:
            self._solved = self._solve()
        register = self._arguments.get(id(call), {}).get(number)
        return self.of(register) if register else frozenset({OTHER})

    def returned(self) -> frozenset[int]:
        if not any(s.opcode.startswith("st.param.b64") for s in self._function.statements):
            return frozenset({OTHER})
        if self._solved is None:
            self._solved = self._solve()
        found = [self.of(r) for r in self._returned]
        return frozenset().union(*found) if found else frozenset({OTHER})

    def _solve(self) -> dict[str, frozenset[int]]:
        self._read()
        roots: dict[str, frozenset[int]] = {}
        changed = True
        while changed:
            changed = False
            for register, sources in self._sources.items():
                new = frozenset().union(*(self._root(s, roots) for s in sources))
                if LOCAL in new and register in self._sums:
                    new = frozenset({LOCAL})  # nobody adds an address to one of the stack
                if new != roots.get(register, frozenset()):
                    roots[register], changed = new, True
        return roots

    def _root(self, source: object, roots: Mapping[str, frozenset[int]]) -> frozenset[int]:
        if isinstance(source, int):
            return frozenset({source})
        assert isinstance(source, str)
        if source.startswith(_STACK):
            return frozenset({LOCAL})
        return roots.get(source, frozenset())

    def _read(self) -> None:
        """Collect what defines each register, in one pass."""
        arguments: dict[int, str] = {}
        call: Statement | None = None
        for s in self._function.statements:
            kind = s.opcode.partition(".")[0]
            words = _REGISTER.findall(s.operands)
            if s.opcode.startswith("st.param"):
                self._pass(s, words, arguments)
            elif kind == "call":
                self._arguments[id(s)], arguments, call = arguments, {}, s
            elif kind in ("st", "red", "bra", "ret", "bar", "membar", "fence") or not words:
                continue
            else:
                self._sources.setdefault(words[0], []).extend(self._defines(s, kind, words, call))

    def _pass(self, s: Statement, words: list[str], arguments: dict[int, str]) -> None:
        if not words:
            return
        if "_retval" in s.operands:
            self._returned.append(words[-1])
        elif number := _ARGUMENT.search(s.operands):
            arguments[int(number[1])] = words[-1]

    def _defines(self, s: Statement, kind: str, words: list[str],
                 call: Statement | None) -> list[object]:
        if kind in _COPIES:
            if kind in ("add", "mad"):
                self._sums.add(words[0])
            pointers: list[object] = [w for w in words[1:] if w.startswith(("%rd", *_STACK))]
            symbol = _SYMBOL.search(s.operands)
            if symbol and not symbol[1].startswith("__local") and "_param_" not in symbol[1]:
                pointers.append(LOCAL if symbol[1] in self._shared else OTHER)
            return pointers
        if kind in _NUMBERS:
            return []
        if s.opcode.startswith("ld.param"):
            if "retval" in s.operands and call is not None:
                summary = _of(call, self._known)
                passed = self._arguments.get(id(call), {})
                return [passed.get(r, "") or OTHER for r in summary.returns]
            number = _PARAMETER.search(s.operands)
            if number and not self._function.entry:
                return [int(number[1])]
        return [OTHER]
