"""Names and attributes to values: function, enclosing functions, module, imports."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from patcher.python.bindings import Binding, FunctionNode, How
from patcher.python.index import Class, External, Function, Index, Module, absolute
from patcher.python.operators import subscript
from patcher.python.values import (
    UNKNOWN,
    ArchName,
    DeviceArch,
    Unknown,
    Value,
    join,
    lift,
)
from patcher.python.vocabulary import device_arch, device_major, device_minor, hints, vocabulary

_BUSY = object()


class Interpreter(Protocol):
    """What resolving names needs of the evaluator."""

    index: Index
    resolve_all: bool  # follow imports of names that hint at nothing, too
    calls: int  # how many calls are being interpreted now
    results: dict[object, Value]  # of calls, by function and arguments

    def module_scope(self, module: Module) -> Scope: ...

    def value(self, node: ast.expr, scope: Scope) -> Value: ...

    def invoke(self, function: Function, args: list[Value],
               keywords: dict[str, Value]) -> Value: ...


@dataclass(eq=False)
class Scope:
    """Where an expression stands. ``arguments`` is None for a function that is looked at
    rather than called: then its parameters are what the vocabulary says, or opaque."""

    module: Module
    node: FunctionNode | None = None
    owner: Class | None = None
    parent: Scope | None = None
    arguments: dict[str, Value] | None = None
    local: dict[str, Value] = field(default_factory=dict)
    memo: dict[object, Value] = field(default_factory=dict)

    @cached_property
    def parameters(self) -> tuple[list[str], list[str]]:
        """The names of the function's parameters, and of those that take what is left."""
        assert self.node is not None
        spec = self.node.args
        return ([a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)],
                [a.arg for a in (spec.vararg, spec.kwarg) if a is not None])

    def child(self, node: FunctionNode, owner: Class | None = None) -> Scope:
        """The scope inside a nested function."""
        return Scope(self.module, node, owner or self.owner, self)

    def with_local(self, names: dict[str, Value]) -> Scope:
        """The same place with comprehension variables bound."""
        return Scope(self.module, self.node, self.owner, self.parent, self.arguments,
                     {**self.local, **names})


def lookup(evaluator: Interpreter, name: str, scope: Scope, line: int) -> Value:
    """The value of a name at a line."""
    here: Scope | None = scope
    while here is not None:
        if name in here.local:
            return here.local[name]
        if here.node is not None:
            found = _in_function(evaluator, name, here, line if here is scope else None)
            if found is not None:
                return found[0]
        elif here.owner is not None and name in here.module.bindings_of(here.owner.node):
            return class_attribute(evaluator, here.owner, name)
        here = here.parent
    return module_name(evaluator, scope.module, name)


def _in_function(evaluator: Interpreter, name: str, scope: Scope,
                 line: int | None) -> tuple[Value] | None:
    assert scope.node is not None
    places = scope.module.bindings_of(scope.node).get(name, [])
    parameter = _parameter(name, scope)
    if not places and parameter is None:
        return None
    live = _reaching(places, line)
    sure = bool(live) and live[0].sure
    value = _joined(evaluator, name, live, scope, scope.memo) if live else None
    if parameter is None or sure:
        return (UNKNOWN if value is None else value,)
    return (parameter[0] if value is None else join(parameter[0], value),)


def _reaching(places: list[Binding], line: int | None) -> list[Binding]:
    """The bindings that can reach a line: from the last sure one before it on."""
    if line is None or len(places) == 1:
        return places
    before = [p for p in places if p.line < line] or places
    for position in range(len(before) - 1, -1, -1):
        if before[position].sure:
            return before[position:]
    return before


def _joined(evaluator: Interpreter, name: str, places: list[Binding], scope: Scope,
            memo: dict[object, Value]) -> Value:
    key = (name, places[0].line, len(places))
    found = memo.get(key)
    if found is _BUSY:
        return Unknown(frozenset({name}))
    if found is not None or key in memo:
        return found
    memo[key] = _BUSY
    value = binding_value(evaluator, places[0], name, scope)
    outside = _is_outside(value, places[0])
    for place in places[1:]:
        other = binding_value(evaluator, place, name, scope)
        if isinstance(value, (Function, Class, Module)) or _is_outside(other, place):
            continue  # ``try: import x`` with a fallback: the definition that is there
        value = other if outside else join(value, other)
        outside = False
    memo[key] = value
    return value


def _is_outside(value: Value, place: Binding) -> bool:
    """An import that leads out of the package; what is assigned is a value like any other."""
    return place.how is How.IMPORT and isinstance(value, External)


def binding_value(evaluator: Interpreter, place: Binding, name: str, scope: Scope) -> Value:
    """What one binding gives a name."""
    if place.how is How.ASSIGN:
        assert isinstance(place.node, ast.expr)
        value = evaluator.value(place.node, scope)
        for position in place.path:
            value = _part(value, position)
        return value
    if place.how is How.IMPORT:
        return _imported(evaluator, place, name, scope.module)
    if isinstance(place.node, ast.ClassDef):
        return Class(place.node, scope.module)
    if isinstance(place.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return Function(place.node, scope.module, scope.owner if scope.node is None else None,
                        scope if scope.node is not None else None)
    return Unknown(frozenset({name}))


def _part(value: Value, position: int) -> Value:
    if isinstance(value, External):
        return Unknown(frozenset({value.dotted}))
    return lift(subscript, value, position)


def _parameter(name: str, scope: Scope) -> tuple[Value] | None:
    assert scope.node is not None
    if scope.arguments is not None and name in scope.arguments:
        return (scope.arguments[name],)
    names, spread = scope.parameters
    if name in spread:
        return (Unknown(frozenset({name})),)
    if name not in names:
        return None
    if scope.owner is not None and names and name == names[0] and name in ("self", "cls"):
        return (scope.owner,)
    return (seeded(name, names) if scope.arguments is None else External(name),)


def seeded(name: str, siblings: list[str]) -> Value:
    """What a parameter of that name stands for; ``major`` alone is no architecture."""
    kind = vocabulary().parameters.get(name)
    if kind == "arch":
        return device_arch()
    if kind in ("major", "minor"):
        beside = {vocabulary().parameters.get(n) for n in siblings}
        if kind == "major" and (name != "major" or "minor" in beside):
            return device_major()
        if kind == "minor" and "major" in beside:
            return device_minor()
    return External(name)


def module_name(evaluator: Interpreter, module: Module, name: str, depth: int = 0) -> Value:
    """A module's global; External with the bare name for builtins and strangers."""
    places = module.bindings.get(name)
    if places:
        if _asked_for(name, places, module):
            return device_arch()
        scope = evaluator.module_scope(module)
        return _joined(evaluator, name, places, scope, scope.memo)
    for star in module.bindings.get("*", ()):
        if isinstance(star.node, ast.ImportFrom) and depth < 4:
            source = evaluator.index.module(absolute(module, star.node))
            if source is not None and source is not module:
                found = module_name(evaluator, source, name, depth + 1)
                if not isinstance(found, External):
                    return found
    return External(name)


def _asked_for(name: str, places: list[Binding], module: Module) -> bool:
    """The loop variable of a build script over the architectures that its caller names."""
    return (places[0].how is How.OPAQUE and vocabulary().parameters.get(name) == "arch"
            and b"sys.argv" in module.source)


def _imported(evaluator: Interpreter, place: Binding, name: str, module: Module) -> Value:
    if isinstance(place.node, ast.Import):
        return External(place.imported)
    assert isinstance(place.node, ast.ImportFrom)
    dotted = absolute(module, place.node)
    if not evaluator.resolve_all and not hints(place.imported):
        return External(f"{dotted}.{place.imported}")
    source = evaluator.index.module(dotted)
    if source is not None:
        found = module_name(evaluator, source, place.imported)
        if not isinstance(found, External):
            return found
    return evaluator.index.module(f"{dotted}.{place.imported}") or External(
        f"{dotted}.{place.imported}")


def attribute(evaluator: Interpreter, base: Value, name: str) -> Value:
    """``base.name``."""
    if isinstance(base, Module):
        found = module_name(evaluator, base, name)
        if isinstance(found, External):
            full = f"{base.dotted}.{name}"
            return evaluator.index.module(full) or External(full)
        return found
    if isinstance(base, Class):
        return class_attribute(evaluator, base, name)
    if isinstance(base, External):
        found = followed(evaluator, base.dotted) if evaluator.resolve_all or hints(name) else base
        if not isinstance(found, External):
            return attribute(evaluator, found, name)
        return external(base.dotted, name)
    return lift(lambda cell: _cell_attribute(cell, name), base)


def followed(evaluator: Interpreter, dotted: str) -> Value:
    """What an import that was not followed stands for: a module, or a name in one."""
    module = evaluator.index.module(dotted)
    if module is not None:
        return module
    parent, _, name = dotted.rpartition(".")
    source = evaluator.index.module(parent) if parent else None
    return module_name(evaluator, source, name) if source else External(dotted)


def external(dotted: str, name: str) -> Value:
    """An attribute of something outside: a known constant, an architecture name, or opaque."""
    full = f"{dotted}.{name}"
    for tail in (full, ".".join(full.split(".")[-2:]), name):
        if tail in vocabulary().constants:
            return vocabulary().constants[tail]
    if dotted.split(".")[-1].endswith("Arch") and (arch := ArchName.parse(name)):
        return arch
    return External(full)


@dataclass(frozen=True, slots=True)
class Method:
    """A bound method of a plain value."""

    owner: Value
    name: str


def _cell_attribute(cell: Value, name: str) -> Value:
    if isinstance(cell, DeviceArch):
        if name in ("major", "minor", "suffix"):
            return getattr(cell, name)
        return Method(cell, name)
    if isinstance(cell, Unknown):
        return Unknown(cell.names)
    if cell is None:
        return UNKNOWN
    return Method(cell, name)


def class_attribute(evaluator: Interpreter, cls: Class, name: str, depth: int = 0) -> Value:
    """A class attribute, property or method, searched in the bases too."""
    places = cls.attributes().get(name)
    if places:
        key = ("attribute", id(cls.node), name)
        memo = evaluator.module_scope(cls.module).memo
        found = memo.get(key)
        if found is _BUSY:
            return Unknown(frozenset({name}))
        if key not in memo:
            memo[key] = _BUSY
            memo[key] = _attribute_value(evaluator, cls, name, places)
        return memo[key]
    for base in cls.node.bases if depth < 8 else ():
        owner = _base(evaluator, base, cls)
        if isinstance(owner, Class) and owner.node is not cls.node:
            found = class_attribute(evaluator, owner, name, depth + 1)
            if not isinstance(found, External):
                return found
    probe = cls.attributes().get("__getattr__") if name != "__getattr__" else None
    if probe and isinstance(probe[0].node, ast.FunctionDef):
        return evaluator.invoke(Function(probe[0].node, cls.module, cls), [cls, name], {})
    return External(f"{cls.node.name}.{name}")


def _base(evaluator: Interpreter, node: ast.expr, cls: Class) -> Value:
    """A base class, wherever it is defined (its name need not hint at anything)."""
    before, evaluator.resolve_all = evaluator.resolve_all, True
    try:
        return evaluator.value(node, evaluator.module_scope(cls.module))
    finally:
        evaluator.resolve_all = before


def _attribute_value(evaluator: Interpreter, cls: Class, name: str, places: list[Binding]) -> Value:
    result: list[Value] = []
    for place in places:
        method = cls.method_of(place)
        outer = evaluator.module_scope(cls.module) if method else None
        scope = Scope(cls.module, method, cls, outer)
        value = binding_value(evaluator, place, name, scope)
        if isinstance(value, Function) and _is_property(value.node):
            value = evaluator.invoke(value, [cls], {})
        result.append(value)
    value = result[0]
    for other in result[1:]:
        value = other if value is None else value if other is None else join(value, other)
    return value


def _is_property(node: FunctionNode) -> bool:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return any(ast.unparse(d).split(".")[-1] in ("property", "cached_property", "classproperty")
               for d in decorators)
