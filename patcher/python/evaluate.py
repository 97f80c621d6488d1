"""What an expression is on every architecture, with names resolved across a package.

    evaluator = Evaluator(Index(tree, "flashinfer"))
    evaluator.truth(node, scope)      # arch.Truth over all targets

Nothing is imported or run: a small interpreter with bounded steps works on the
syntax trees. What it cannot know is Unknown, and stays so (Kleene).
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from patcher.arch import Truth
from patcher.python import calls
from patcher.python.index import Function, Index, Module
from patcher.python.operators import (
    Table,
    arithmetic,
    both,
    compare,
    minus,
    negate,
    opaque,
    subscript,
)
from patcher.python.scope import Scope, attribute, lookup
from patcher.python.values import (
    RAISED,
    UNKNOWN,
    DeviceArch,
    Unknown,
    Value,
    Varied,
    choose,
    lift,
    truth_of,
    truth_value,
)
from patcher.python.vocabulary import hints

MAX_STEPS = 4_000  # real gates take fewer than 500
MAX_DEPTH = 60
_MAX_ITEMS = 64


class Evaluator:
    """Evaluates expressions of the modules in one index; remembers names, not worlds."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._scopes: dict[int, Scope] = {}
        self._depth = 0
        self._steps = 0
        self.calls = 0
        self.resolve_all = False
        self.results: dict[object, Value] = {}

    def module_scope(self, module: Module) -> Scope:
        """The scope of a module's top level."""
        found = self._scopes.get(id(module))
        if found is None:
            found = self._scopes[id(module)] = Scope(module)
        return found

    def forget(self, module: Module) -> None:
        """Drop what is known of a module, so that its syntax tree can be freed at once."""
        scope = self._scopes.pop(id(module), None)
        if scope is not None:
            scope.memo.clear()
        self.results.clear()

    def forget_all(self) -> None:
        """Drop what is known of every module, likewise."""
        for scope in self._scopes.values():
            scope.memo.clear()
        self._scopes.clear()
        self.results.clear()
        self.index.forget_all()

    def truth(self, node: ast.expr, scope: Scope) -> Truth:
        """The expression as a test, per target."""
        return truth_of(self.value(node, scope))

    def value(self, node: ast.expr, scope: Scope) -> Value:
        """The expression's value, plain or varied; Unknown past the limits."""
        if self._depth == 0:
            self._steps = 0
        self._steps += 1
        handler = _HANDLERS.get(type(node))
        if handler is None or self._steps > MAX_STEPS or self._depth > MAX_DEPTH:
            return UNKNOWN
        self._depth += 1
        try:
            return handler(self, node, scope)
        finally:
            self._depth -= 1

    def followed(self, node: ast.expr, scope: Scope) -> Value:
        """The expression's value, with imports followed whatever their names."""
        before, self.resolve_all = self.resolve_all, True
        try:
            return self.value(node, scope)
        finally:
            self.resolve_all = before

    def invoke(self, function: Function, args: list[Value], keywords: dict[str, Value]) -> Value:
        """The value a function returns for these arguments."""
        return calls.invoke(self, function, args, keywords)


def _constant(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Value:
    assert isinstance(node, ast.Constant)
    return node.value


def _name(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Value:
    assert isinstance(node, ast.Name)
    return lookup(evaluator, node.id, scope, node.lineno)


def _attribute(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Value:
    assert isinstance(node, ast.Attribute)
    if isinstance(node.value, ast.Name) and scope.node is not None:
        local = scope.module.bindings_of(scope.node).get(f"{node.value.id}.{node.attr}")
        if local and node.value.id not in ("self", "cls"):
            return Unknown(frozenset({f"{node.value.id}.{node.attr}"}))
    base = evaluator.value(node.value, scope)
    if type(base) is Unknown and _is_accessor(node.value) and hints(node.attr):
        base = evaluator.followed(node.value, scope)
    return attribute(evaluator, base, node.attr)


def _is_accessor(node: ast.expr) -> bool:
    """``get_platform()``: a call whose own name hints at nothing."""
    return isinstance(node, ast.Call) and not node.args and not node.keywords


def _bool(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Value:
    assert isinstance(node, ast.BoolOp)
    conjunction = isinstance(node.op, ast.And)
    value = evaluator.value(node.values[0], scope)
    for operand in node.values[1:]:
        if truth_value(value) is (not conjunction) or value is RAISED:
            return value
        right = evaluator.value(operand, scope)
        value = lift(lambda a, b: both(a, b, conjunction=conjunction), value, right)
    return value


def _unary(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Value:
    assert isinstance(node, ast.UnaryOp)
    value = evaluator.value(node.operand, scope)
    if isinstance(node.op, ast.Not):
        return lift(negate, truth_value(value))
    return lift(minus, value) if isinstance(node.op, ast.USub) else UNKNOWN


def _compare(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Value:
    assert isinstance(node, ast.Compare)
    left = evaluator.value(node.left, scope)
    result: Value = True
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = evaluator.value(comparator, scope)
        step = lift(lambda a, b, op=op: compare(op, a, b), left, right)
        result = lift(lambda a, b: both(a, b, conjunction=True), result, step)
        left = right
    return result


def _binary(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Value:
    assert isinstance(node, ast.BinOp)
    left, right = evaluator.value(node.left, scope), evaluator.value(node.right, scope)
    return lift(lambda a, b: arithmetic(node.op, a, b), left, right)


def _choice(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Value:
    assert isinstance(node, ast.IfExp)
    test = truth_value(evaluator.value(node.test, scope))
    if isinstance(test, bool):
        return evaluator.value(node.body if test else node.orelse, scope)
    body, other = evaluator.value(node.body, scope), evaluator.value(node.orelse, scope)
    return choose(test, body, other)


def _sequence(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Value:
    assert isinstance(node, (ast.Tuple, ast.List, ast.Set))
    items: list[Value] = []
    for element in node.elts[:4096]:
        if isinstance(element, ast.Starred):
            inner = evaluator.value(element.value, scope)
            if not isinstance(inner, (tuple, list, frozenset)):
                return UNKNOWN
            items += inner
        else:
            items.append(evaluator.value(element, scope))
    kind = list if isinstance(node, ast.List) else tuple
    return lift(lambda *cells: kind(cells), *items) if items else kind()


def _dict(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Value:
    assert isinstance(node, ast.Dict)
    if any(key is None for key in node.keys) or len(node.keys) > 4096:
        return UNKNOWN
    keys = tuple(evaluator.value(key, scope) for key in node.keys if key is not None)
    if any(isinstance(key, Varied) for key in keys):
        return UNKNOWN

    def later(value: ast.expr) -> Callable[[], Value]:
        return lambda: evaluator.value(value, scope)

    return Table(keys, tuple(later(value) for value in node.values))


def _subscript(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Value:
    assert isinstance(node, ast.Subscript)
    base = evaluator.value(node.value, scope)
    if isinstance(node.slice, ast.Slice):
        parts = [evaluator.value(p, scope) if p else None
                 for p in (node.slice.lower, node.slice.upper, node.slice.step)]
        if not all(p is None or isinstance(p, int) for p in parts):
            return UNKNOWN
        return lift(subscript, base, slice(*parts))
    return lift(subscript, base, evaluator.value(node.slice, scope))


def _text(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Value:
    assert isinstance(node, ast.JoinedStr)
    parts: list[Value] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            plain = part.format_spec is None and part.conversion in (-1, 115)
            parts.append(evaluator.value(part.value, scope) if plain else UNKNOWN)
        else:
            parts.append(evaluator.value(part, scope))

    def glue(*cells: Value) -> Value:
        if (blocked := opaque(*cells)) is not None:
            return blocked
        if all(isinstance(c, (str, int)) and not isinstance(c, DeviceArch) for c in cells):
            return "".join(map(str, cells))[:4096]
        return UNKNOWN

    return lift(glue, *parts) if parts else ""


def _walrus(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Value:
    assert isinstance(node, ast.NamedExpr)
    return evaluator.value(node.value, scope)


def _lambda(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Value:
    assert isinstance(node, ast.Lambda)
    return Function(node, scope.module, scope.owner, scope)


def _comprehension(evaluator: Evaluator, node: ast.expr, scope: Scope) -> Value:
    assert isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.SetComp))
    loop = node.generators[0]
    items = evaluator.value(loop.iter, scope)
    if isinstance(items, Table):
        items = items.keys
    if len(node.generators) > 1 or not isinstance(items, (tuple, list, frozenset)) \
            or isinstance(items, DeviceArch) or len(items) > _MAX_ITEMS:
        return UNKNOWN
    results: list[Value] = []
    for item in items:
        names = _bind(loop.target, item)
        if names is None:
            return UNKNOWN
        inner = scope.with_local(names)
        kept = [truth_value(evaluator.value(test, inner)) for test in loop.ifs]
        if any(k is not True and k is not False for k in kept):
            return UNKNOWN
        if all(kept):
            results.append(evaluator.value(node.elt, inner))
    return lift(lambda *cells: list(cells), *results) if results else []


def _bind(target: ast.expr, item: Value) -> dict[str, Value] | None:
    if isinstance(target, ast.Name):
        return {target.id: item}
    if isinstance(target, ast.Tuple) and isinstance(item, tuple) and len(item) == len(target.elts):
        names = [t.id for t in target.elts if isinstance(t, ast.Name)]
        return dict(zip(names, item, strict=True)) if len(names) == len(item) else None
    return None


_Handler = Callable[[Evaluator, ast.expr, Scope], Value]
_HANDLERS: dict[type[ast.expr], _Handler] = {
    ast.Constant: _constant, ast.Name: _name, ast.Attribute: _attribute, ast.BoolOp: _bool,
    ast.UnaryOp: _unary, ast.Compare: _compare, ast.BinOp: _binary, ast.IfExp: _choice,
    ast.Tuple: _sequence, ast.List: _sequence, ast.Set: _sequence, ast.Dict: _dict,
    ast.Subscript: _subscript, ast.JoinedStr: _text, ast.NamedExpr: _walrus, ast.Lambda: _lambda,
    ast.GeneratorExp: _comprehension, ast.ListComp: _comprehension, ast.SetComp: _comprehension,
    ast.Call: calls.call,
}
