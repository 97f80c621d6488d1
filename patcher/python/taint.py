"""Which lines of a file can depend on the architecture: a cheap over-estimate.

Names that hint at an architecture are a start; a name assigned on a line with
such a hint is another. Only expressions on these lines are evaluated.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable

from patcher.python.bindings import Binding, Bindings, How, children, collect
from patcher.python.index import Module
from patcher.python.sieve import lines_of
from patcher.python.vocabulary import hints, vocabulary

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_Placed = ast.stmt | ast.expr | ast.excepthandler
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_CARRYING = (ast.Name, ast.Attribute, ast.BinOp, ast.IfExp, ast.Subscript, ast.JoinedStr,
             ast.Tuple, ast.List, ast.Set, ast.Dict)
_TESTS = (ast.Compare, ast.BoolOp, ast.UnaryOp)
_ROUNDS = 4
_NEVER = 1 << 60
# One by one: what begins with a literal is found ten times faster.
_FLAGS = (b"gencode", b"nvcc_flags", b"code=sm")
_COMMON = frozenset({"self", "cls", "_", "device", "backend", "kernel", "module", "result", "out",
                     "x", "a", "b", "m", "n", "k", "name", "dtype", "config", "args", "kwargs"})


class Lines:
    """The lines of one module that hint at an architecture."""

    def __init__(self, module: Module) -> None:
        self._source = module.source
        self._ends = 1 + max((node.end_lineno or 0 for node in module.tree.body), default=0)
        self._hits: list[int] = []
        self.also(module.hinted)
        self._names: dict[str, bool] = {}
        self._words: dict[ast.AST, frozenset[str]] = {}
        self._flags = self._found(_FLAGS)
        self.carriers: set[str] = set()  # names that carry an architecture to other functions
        self._spread(module)

    def touch(self, node: _Placed) -> bool:
        """True when a node has a line that hints at an architecture."""
        first = node.lineno
        if isinstance(node, _DEFINITIONS) and node.decorator_list:
            first = node.decorator_list[0].lineno
        return self._next[first] <= (node.end_lineno or first)

    def on(self, node: ast.expr) -> bool:
        """As ``touch``, for an expression."""
        return self._next[node.lineno] <= (node.end_lineno or node.lineno)

    @property
    def any_flags(self) -> bool:
        return bool(self._flags)

    def has_flags(self, node: ast.expr) -> bool:
        """True when a node has a line with compiler flags for an architecture."""
        position = bisect_left(self._flags, node.lineno)
        return position < len(self._flags) and self._flags[position] <= (node.end_lineno or 0)

    def _found(self, patterns: Iterable[bytes]) -> list[int]:
        """The lines on which one of the patterns is found, ascending."""
        return lines_of(self._source, {
            m.start() for p in patterns for m in re.finditer(p, self._source)})

    def mentions(self, node: ast.AST) -> bool:
        """True when a name inside an expression hints at an architecture or carries one."""
        words = self._words.get(node)
        if words is None:
            words = self._words[node] = _words_of(node)
        return any(map(self._hints, words))

    def _hints(self, name: str) -> bool:
        found = self._names.get(name)
        if found is None:
            found = self._names[name] = hints(name)
        return found

    def also(self, lines: Iterable[int]) -> None:
        """Take these lines for ones that hint at an architecture."""
        self._hits = sorted({*self._hits, *lines})
        self._next: list[int] = []  # by line: the hinting line that is not before it
        for hit in self._hits:
            self._next += [hit] * (hit + 1 - len(self._next))
        self._next += [_NEVER] * (self._ends - len(self._next))

    def _spread(self, module: Module) -> None:
        """Names assigned on hinting lines hint, too, and so do the lines with them."""
        definitions = list(_definitions(module.tree.body, self.touch))
        known: set[str] = set()
        for _ in range(_ROUNDS):
            pairs = list(_bindings(module, definitions, self.touch))
            fresh = {name for name, place, _ in pairs
                     if name not in known and self._depends(place)}
            if not fresh:
                break
            known |= fresh
            self._names.update(dict.fromkeys(fresh, True))
            hinted = {name for name in fresh if not vocabulary().hint.search(name)}
            if hinted:
                self.also(self._found(re.escape(n).encode() + rb"\b" for n in sorted(hinted)))
        else:
            pairs = list(_bindings(module, definitions, self.touch))
        # all their bindings are on hinting lines now
        self.carriers = {name for name, _, wide in pairs if wide and name in known}

    def _depends(self, place: Binding) -> bool:
        return (place.how is How.ASSIGN and isinstance(place.node, ast.expr)
                and self.on(place.node) and self.mentions(place.node))


def _words_of(node: ast.AST) -> frozenset[str]:
    """The names inside an expression; its texts, too, where they may be looked up as names."""
    names: set[str] = set()
    stack = [node]
    while stack:
        inner = stack.pop()
        if isinstance(inner, ast.Name):
            names.add(inner.id)
        else:
            if isinstance(inner, ast.Attribute):
                names.add(inner.attr)
            stack += children(inner, but=ast.Constant)
    if "getattr" in names:
        names.update(n.value for n in ast.walk(node)
                     if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return frozenset(names)


def _carries(node: ast.AST) -> bool:
    """Assigned expressions that can carry an architecture on; results of other calls do not."""
    if isinstance(node, ast.Call):
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else (
            function.id if isinstance(function, ast.Name) else "")
        return isinstance(function, ast.Call) or hints(name)
    return isinstance(node, _CARRYING)


def _is_test(node: ast.AST) -> bool:
    return isinstance(node, _TESTS)


def _bindings(module: Module, definitions: list[_Definition],
              touch: Callable[[_Placed], bool]) -> Iterable[tuple[str, Binding, bool]]:
    """Names that may carry an architecture from a hinting line to another, and whether to
    another function as well. A test kept in an attribute or in a module's variable is a gate of
    its own, so only local names carry tests on."""
    yield from _carried(module.bindings, local=False)
    for node in definitions:
        yield from _carried(collect(node.body, walrus=module.walrus, within=touch),
                            local=not isinstance(node, ast.ClassDef))


def _carried(bindings: Bindings, *, local: bool) -> Iterable[tuple[str, Binding, bool]]:
    for full, places in bindings.items():
        _, dot, name = full.rpartition(".")
        if len(name) > 2 and name not in _COMMON:
            for place in places:
                if _carries(place.node) or (local and not dot and _is_test(place.node)):
                    yield name, place, not local or bool(dot)


def _definitions(body: list[ast.stmt], touch: Callable[[_Placed], bool]) -> Iterable[_Definition]:
    """The functions and classes with hinting lines, at any depth."""
    stack = list(body)
    while stack:
        node = stack.pop()
        if touch(node):
            if isinstance(node, _DEFINITIONS):
                yield node
            for field in ("body", "orelse", "finalbody", "handlers"):
                stack += getattr(node, field, [])
