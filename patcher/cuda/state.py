"""The macro table of a walk, and the log of what was read and written.

The log is what makes the effect of a header repeatable: it holds for every
table in which the names it read stand for the same values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from patcher.arch import ALL_BITS
from patcher.cuda.values import Mixed, Open, Value, Values

# Only a compiler defines these. A header that is not there cannot, so that they
# stay undefined where an unknown header was included.
_COMPILERS_OWN = re.compile(
    r"__cpp_(?!lib_)|__has_|__is_identifier|__GNUC|__GNUG|__GCC|__clang|__INTEL|__ICC|__ICL|__ECC"
    r"|__PGI|__NVCOMPILER|__EDG|__IBM|__xlC|__SUNPRO|__BORLAND|__CODEGEAR|__MINGW|__CYGWIN"
    r"|__HIP|__HCC|__AMDGC|__SYCL|__CUDA|__NVCC|__CUDACC|__CUDADEVRT|__SANITIZE|__SSE|__AVX|__ARM"
    r"|__aarch64|__arm|__x86|__i386|__amd64|__powerpc|__ppc|__PPC|__riscv|__mips|__sparc|__s390|__ia64"
    r"|__alpha|__hppa|__loongarch|__QNX|__VXWORKS|__ANDROID|__APPLE|__linux|__unix|__sun|__Free"
    r"|__Net|__Open|__Dragon|__EMSCRIPTEN|__EXCEPTIONS|__OPTIMIZE|__NO_|__STRICT|__STDC|__cplusplus"
    r"|__BYTE_ORDER__|__SIZEOF|__CHAR|__WCHAR|__INT|__UINT|__FLT|__DBL|__LDBL|__LP64|__ILP32"
    r"|_MSC_|_MSVC_|_WIN|_LP64|_ILP32|_OPENMP|_OPENACC|_NVHPC|_CPP|_M_|_XBOX|_AIX|WIN32\Z|WIN64\Z"
    r"|[@%]|(?:true|false)\Z|__DJGPP|__TOS_|__HAIKU|__BEOS|__DEPRECATED|__GXX|__REGISTER|__USER_LABEL|__VERSION__"
)


class Table(dict[str, "Value"]):
    """Names to values. A name that is absent is undefined, except one that is in doubt:
    that is open in the worlds that included a missing header."""

    def __init__(self, base: Iterable[tuple[str, Value]], values: Values) -> None:
        super().__init__(base)
        self._values = values
        self._doubtful: frozenset[str] = frozenset()
        self.open_worlds = 0  # those that missed a header
        self._assumed: dict[str, Value] = {}

    def __missing__(self, name: str) -> Value:
        value = self[name] = self._absent(name) if self.open_worlds else None
        return value

    def _absent(self, name: str) -> Value:
        if name not in self._doubtful or _COMPILERS_OWN.match(name):
            return None
        value = self._values.blend(self._values.open((name,)), None, self.open_worlds)
        self._assumed[name] = value
        return value

    def doubt(self, names: frozenset[str]) -> None:
        """From now on a missing header opens these names."""
        self._doubtful = names

    def lose(self, worlds: int) -> None:
        """A header was missing in these worlds."""
        if not worlds & ~self.open_worlds:
            return
        self.open_worlds |= worlds
        if not self._doubtful:
            return
        assumed, self._assumed = self._assumed, {}
        for name, value in list(self.items()):
            if value is None or (name in assumed and assumed[name] is value):
                self[name] = self._absent(name)


class State:
    """The table, with what the current file read before writing it, and what it wrote."""

    __slots__ = ("_values", "log", "reads", "table", "writes")

    def __init__(self, table: Table, values: Values) -> None:
        self.table = table
        self._values = values
        self.reads: dict[str, Value] = {}
        self.writes: dict[str, Value] = {}
        self.log: list[tuple[str, Value]] | None = None  # what to undo, inside a fork

    def read(self, name: str) -> Value:
        value = self.table[name]
        if name not in self.writes and name not in self.reads:
            self.reads[name] = value
        return value

    def note(self, reads: Iterable[tuple[str, Value]]) -> None:
        """Something that was remembered has read these."""
        own, writes = self.reads, self.writes
        for name, value in reads:
            if name not in writes and name not in own:
                own[name] = value

    def write(self, name: str, value: Value, worlds: int) -> None:
        if worlds != ALL_BITS:
            value = self._values.blend(value, self.read(name), worlds)
        self.store(name, value)

    def store(self, name: str, value: Value) -> None:
        if self.log is not None:
            self.log.append((name, self.read(name)))
        self.table[name] = value
        self.writes[name] = value

    def replay(self, writes: dict[str, Value]) -> None:
        if self.log is None:
            self.table.update(writes)
            self.writes.update(writes)
        else:
            for name, value in writes.items():
                self.store(name, value)


class Fork:
    """The arms of an #if that nobody can decide: each begins with the table before it."""

    def __init__(self, state: State, values: Values) -> None:
        self._state = state
        self._values = values
        self._owner = state.log is None
        if state.log is None:
            state.log = []
        self._mark = len(state.log)
        self._arms: list[tuple[int, dict[str, Value]]] = []
        self._base: dict[str, Value] = {}

    def end_arm(self, worlds: int) -> None:
        """Put the arm's writes aside and restore the table."""
        state = self._state
        assert state.log is not None
        entries = state.log[self._mark :]
        del state.log[self._mark :]
        written = {name: state.table[name] for name, _ in entries}
        for name, old in reversed(entries):
            state.table[name] = old
        for name in written:
            self._base.setdefault(name, state.table[name])
        self._arms.append((worlds, written))

    def merge(self, untouched: int, deciders: tuple[str, ...]) -> None:
        """``untouched`` are the worlds that may have taken no arm at all."""
        if self._owner:
            self._state.log = None
        rest = ALL_BITS & ~untouched
        for worlds, _ in self._arms:
            rest &= ~worlds
        for name, base in self._base.items():
            options = [(worlds, written.get(name, base)) for worlds, written in self._arms]
            options.append((untouched | rest, base))
            self._state.store(name, self._values.either(options, deciders))


def worlds_defined(value: Value) -> tuple[int, int, tuple[str, ...]]:
    """Where a value is defined and where undefined; and what would decide the rest."""
    if value is None:
        return 0, ALL_BITS, ()
    if isinstance(value, Open):
        return 0, 0, value.deciders
    if not isinstance(value, Mixed):
        return ALL_BITS, 0, ()
    names: tuple[str, ...] = ()
    for _, part in value.parts:
        names += part.deciders if isinstance(part, Open) else ()
    return value.defined, ALL_BITS & ~(value.defined | value.open), names
