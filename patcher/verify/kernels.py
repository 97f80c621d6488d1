"""What each kernel of a PTX file can do, calls included: the facts that are judged and kept."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from patcher.verify.effects import Summary, summarise
from patcher.verify.ptx import Function, Module

_NAME = re.compile(r"(?<![\w%$])[A-Za-z_$][\w$]*")
_NOTHING = ("ret", "ld.param", "mov", "cvta", "st.param", "bra", "call")


@dataclass(frozen=True, slots=True)
class Kernel:
    """One entry and all that it can reach.

    ``effects`` counts visible outcomes (stores that leave the stack, atomics,
    matrix and barrier instructions). ``texts`` maps text constants it may print
    to the source line, ``externs`` functions without a body to the number of
    calls. ``empty`` and ``active`` are the hashes of reached functions that do
    nothing at all, and of those that do something. ``dies``: every way through
    it ends in a trap. ``shared`` is the static shared memory that it uses, in bytes.
    """

    name: str
    where: str
    effects: int
    opcodes: Mapping[str, int]
    texts: Mapping[str, str]
    externs: Mapping[str, int]
    empty: frozenset[str]
    active: frozenset[str]
    dies: bool
    shared: int

    @property
    def statements(self) -> int:
        """Executable statements, returns included."""
        return sum(self.opcodes.values())

    def count(self, mnemonic: str) -> int:
        """How often instructions starting with this mnemonic appear."""
        return sum(n for op, n in self.opcodes.items() if f"{op}.".startswith(f"{mnemonic}."))


@dataclass(frozen=True, slots=True)
class Code:
    """The kernels of one compiled unit, by their hash-free mangled names.

    ``names`` are those of functions that do nothing, by hash, ``places`` their source lines.
    """

    kernels: Mapping[str, Kernel] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)

    def having(self, mnemonic: str) -> int:
        """How many kernels can reach such an instruction."""
        return sum(bool(kernel.count(mnemonic)) for kernel in self.kernels.values())


@dataclass(frozen=True, slots=True)
class _Own:
    """A function by itself."""

    opcodes: Mapping[str, int]
    texts: Mapping[str, str]
    calls: Mapping[str, int]
    shared: frozenset[str]


def short_hash(name: str) -> str:
    """Names of template instances run to kilobytes; 48 bits tell them apart."""
    return hashlib.blake2b(name.encode(), digest_size=6).hexdigest()


def read_kernels(module: Module) -> Code:
    """Follow the calls of every entry."""
    summaries = summarise(module)
    own = {name: _own(function, module) for name, function in module.functions.items()}
    doing = {name: short_hash(name) for name, s in summaries.items() if s.effects or s.writes}
    idle = {name: short_hash(name) for name, mine in own.items()
            if name not in doing and all(op.startswith(_NOTHING) for op in mine.opcodes)}
    entries = [function for function in module.functions.values() if function.entry]
    kernels = {entry.name: _kernel(entry, module, own, summaries[entry.name], doing, idle)
               for entry in entries}
    places = {digest: module.where(module.functions[name].place) for name, digest in idle.items()}
    return Code(kernels, {digest: name for name, digest in idle.items()}, places)


def _own(function: Function, module: Module) -> _Own:
    opcodes: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    texts: dict[str, str] = {}
    shared: set[str] = set()
    for s in function.statements:
        opcodes[s.opcode] += 1
        if callee := s.callee:
            calls[callee] += 1
            continue
        for word in _NAME.findall(s.operands):
            if word in module.shared:
                shared.add(word)
            elif word in module.texts:
                texts.setdefault(module.texts[word], module.where(s.place))
    return _Own(opcodes, texts, calls, frozenset(shared))


def _kernel(entry: Function, module: Module, own: Mapping[str, _Own], summary: Summary,
            doing: Mapping[str, str], idle: Mapping[str, str]) -> Kernel:
    opcodes: Counter[str] = Counter()
    externs: Counter[str] = Counter()
    texts: dict[str, str] = {}
    shared: set[str] = set()
    seen, todo = {entry.name}, [entry.name]
    while todo:
        mine = own[todo.pop()]
        opcodes.update(mine.opcodes)
        texts.update(mine.texts)
        shared |= mine.shared
        for callee, count in mine.calls.items():
            if callee not in own:
                externs[callee] += count
            elif callee not in seen:
                seen.add(callee)
                todo.append(callee)
    seen.discard(entry.name)
    return Kernel(
        entry.name, module.where(entry.place), summary.effects, opcodes, texts, externs,
        frozenset(idle[name] for name in seen if name in idle),
        frozenset(doing[name] for name in seen if name in doing), summary.dies,
        sum(module.shared[name] for name in shared))
