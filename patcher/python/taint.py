"""Which lines of a file can depend on the architecture: a cheap over-estimate.

Names that hint at an architecture are a start; a name assigned on a line with
such a hint is another. Only expressions on these lines are evaluated.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections.abc import Iterable

from patcher.python.bindings import Binding, How
from patcher.python.index import Module
from patcher.python.vocabulary import vocabulary

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_ROUNDS = 4
_SHORT = 40  # lines of a function that may be a predicate
_COMMON = frozenset({"self", "cls", "_", "device", "backend", "kernel", "module", "result", "out",
                     "x", "a", "b", "m", "n", "k", "name", "dtype", "config", "args", "kwargs"})


class Lines:
    """The lines of one module that hint at an architecture."""

    def __init__(self, module: Module) -> None:
        text = module.source.decode("utf-8", "replace")
        self._text = text
        self._starts = [0, *(m.end() for m in re.finditer(r"\r\n|\r|\n", text))]
        self._hits: list[int] = []
        self._add(vocabulary().hint)
        self._spread(module)

    def touch(self, node: ast.AST) -> bool:
        """True when a node has a line that hints at an architecture."""
        first = getattr(node, "lineno", 0)
        return self.between(first, getattr(node, "end_lineno", None) or first)

    def between(self, first: int, last: int) -> bool:
        position = bisect_left(self._hits, first)
        return position < len(self._hits) and self._hits[position] <= last

    def _add(self, pattern: re.Pattern[str]) -> None:
        found = set(self._hits)
        line, starts = 0, self._starts
        for match in pattern.finditer(self._text):
            place = match.start()
            if line + 1 >= len(starts) or place >= starts[line + 1]:
                line = bisect_left(starts, place + 1) - 1
            found.add(line + 1)
        self._hits = sorted(found)

    def _spread(self, module: Module) -> None:
        known: set[str] = set(_COMMON)
        pairs = list(_bindings(module))
        for _ in range(_ROUNDS):
            fresh = {name for name, place in pairs
                     if name not in known and len(name) > 2 and self._depends(place)}
            if not fresh:
                return
            known |= fresh
            hinted = {name for name in fresh if not vocabulary().hint.search(name)}
            if hinted:
                self._add(re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(hinted))) + r")\b"))

    def _depends(self, place: Binding) -> bool:
        node = place.node
        if place.how is How.DEFINITION:
            last = getattr(node, "end_lineno", 0) or 0
            return last - place.line <= _SHORT and not isinstance(node, ast.ClassDef) \
                and self.between(place.line + 1, last) and _is_predicate(node)
        return place.how is How.ASSIGN and self.touch(node) and _may_hold(node)


def _may_hold(node: ast.AST) -> bool:
    """Assigned expressions that can carry an architecture on; results of other calls do not."""
    if isinstance(node, ast.Call):
        return bool(vocabulary().hint.search(ast.unparse(node.func))) or isinstance(
            node.func, ast.Call)
    return isinstance(node, ast.Name | ast.Attribute | ast.Compare | ast.BoolOp | ast.UnaryOp
                      | ast.BinOp | ast.IfExp | ast.Subscript | ast.JoinedStr | ast.Tuple
                      | ast.List | ast.Set | ast.Dict)


def _is_predicate(node: ast.AST) -> bool:
    """Short functions that return a test, a constant, or what they computed."""
    return any(isinstance(inner, ast.Return) and isinstance(
        inner.value, ast.Constant | ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Name
        | ast.Call | ast.JoinedStr | ast.BinOp) for inner in ast.walk(node))


def _bindings(module: Module) -> Iterable[tuple[str, Binding]]:
    stack: list[list[ast.stmt]] = [module.tree.body]
    seen = [module.bindings]
    while stack:
        for statement in _definitions(stack.pop()):
            seen.append(module.bindings_of(statement))
            stack.append(statement.body)
    for bindings in seen:
        for name, places in bindings.items():
            for place in places:
                yield name.rpartition(".")[2], place


def _definitions(body: list[ast.stmt]) -> list[_Definition]:
    found: list[_Definition] = []
    stack = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.append(node)
            continue
        for field in ("body", "orelse", "finalbody", "handlers"):
            stack += getattr(node, field, [])
    return found
