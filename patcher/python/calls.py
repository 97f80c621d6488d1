"""Calls: functions of the package are interpreted, the rest is what the vocabulary says."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from patcher.python.index import Class, External, Function
from patcher.python.operators import MAX_LENGTH, Table, opaque
from patcher.python.scope import Interpreter, Method, Scope, attribute, followed
from patcher.python.values import (
    RAISED,
    UNKNOWN,
    ArchName,
    DeviceArch,
    DeviceName,
    Unknown,
    Value,
    Varied,
    choose,
    lift,
    names_of,
    per_target,
    truth_value,
)
from patcher.python.vocabulary import device_arch, device_name, number_test, vocabulary

_MAX_CALLS = 12
_MAX_BODY = 60
_MAX_NESTING = 40
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.Match)
_FALL: Value = object()  # control falls out of a block


@dataclass(frozen=True, eq=False)
class Partial:
    """``functools.partial(function, ...)``."""

    function: Value
    args: tuple[Value, ...]
    keywords: dict[str, Value]


WRAPPER = External("<wrapper>")  # ``lru_cache(maxsize=1)``: gives back what it is called with


def call(evaluator: Interpreter, node: ast.expr, scope: Scope) -> Value:
    """A call expression."""
    assert isinstance(node, ast.Call)
    callee = evaluator.value(node.func, scope)
    name = _tail(node.func)
    args: list[Value] = []
    for given in node.args:
        if isinstance(given, ast.Starred):
            inner = evaluator.value(given.value, scope)
            spread = _spread(inner)
            if spread is None:
                return _named(name, callee, [], {}) or UNKNOWN
            args += spread
        else:
            args.append(evaluator.value(given, scope))
    keywords = {k.arg: evaluator.value(k.value, scope) for k in node.keywords if k.arg}
    return apply(evaluator, callee, name, args, keywords)


def _spread(value: Value) -> list[Value] | None:
    if isinstance(value, (tuple, list)):
        return list(value)
    if isinstance(value, Varied) and all(isinstance(c, tuple) and len(c) == 2 for c in value.cells):
        return [lift(lambda cell, p=p: cell[p], value) for p in (0, 1)]
    return None


def _tail(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def apply(evaluator: Interpreter, callee: Value, name: str, args: list[Value],
          keywords: dict[str, Value]) -> Value:
    """The result of calling a value."""
    if isinstance(callee, External) and evaluator.resolve_all:
        callee = followed(evaluator, callee.dotted)
    if isinstance(callee, Partial):
        return apply(evaluator, callee.function, name, [*callee.args, *args],
                     {**callee.keywords, **keywords})
    if isinstance(callee, Function):
        result = Unknown(frozenset({f"{name}()"}))
        if evaluator.resolve_all or _matters(callee, args, keywords):
            result = _remembered(evaluator, callee, args, keywords)
        if isinstance(result, Varied) and not names_of(result):
            return result
        named = _named(name, callee, args, keywords)
        return result if named is None else named
    if isinstance(callee, Class):
        return _construct(callee.node.name, args) or callee
    if isinstance(callee, External):
        return _external(evaluator, callee, name, args, keywords)
    if isinstance(callee, Method) or (isinstance(callee, Varied)
                                      and isinstance(callee.cells[0], Method)):
        return lift(lambda method, *rest: _method(method, rest), callee, *args)
    if isinstance(callee, Unknown) and name in vocabulary().capability_calls:
        return device_arch()  # whoever is asked
    return UNKNOWN


def _matters(function: Function, args: list[Value], keywords: dict[str, Value]) -> bool:
    """False when neither the function's text nor its arguments hint at an architecture."""
    if any(isinstance(v, Varied) for v in (*args, *keywords.values())):
        return True
    first, last = function.node.lineno, function.node.end_lineno or function.node.lineno
    lines = function.module.hinted
    position = bisect_left(lines, first)
    return position < len(lines) and lines[position] <= last


def _remembered(evaluator: Interpreter, function: Function, args: list[Value],
                keywords: dict[str, Value]) -> Value:
    key = (id(function.node), *args, *sorted(keywords.items(), key=lambda pair: pair[0]))
    try:
        if key not in evaluator.results:
            evaluator.results[key] = evaluator.invoke(function, args, keywords)
        return evaluator.results[key]
    except TypeError:  # a list among the arguments
        return evaluator.invoke(function, args, keywords)


def _external(evaluator: Interpreter, callee: External, name: str, args: list[Value],
              keywords: dict[str, Value]) -> Value:
    if callee is WRAPPER:
        return args[0] if args else UNKNOWN
    words = vocabulary()
    if callee.dotted in words.wrappers or callee.dotted.split(".")[-1] in words.wrappers:
        wrapped = [a for a in args if isinstance(a, (Function, Partial))]
        return wrapped[-1] if wrapped else args[-1] if len(args) > 1 else WRAPPER
    if callee.dotted in ("partial", "functools.partial") and args:
        return Partial(args[0], tuple(args[1:]), keywords)
    if (callee.dotted in ("getattr", "object.__getattribute__") and len(args) >= 2
            and isinstance(args[1], str)):
        found = attribute(evaluator, args[0], args[1])
        missing = isinstance(found, External) and len(args) > 2
        return Unknown(frozenset({args[1]})) if missing else found
    if callee.dotted in _BUILTINS:
        return lift(lambda *cells: _builtin(callee.dotted, cells), *args) if args else UNKNOWN
    named = _named(name, callee, args, keywords)
    if named is None:
        named = _construct(name, args)
    return _outcome(callee.dotted, args) if named is None else named


def _outcome(dotted: str, args: Sequence[Value]) -> Unknown:
    """An unknown result is decided by the call's arguments, or else by the call."""
    names = frozenset().union(*(names_of(a) for a in args)) | frozenset(
        a.dotted for a in args if isinstance(a, External) and a.dotted not in _BUILTINS)
    return Unknown(names or frozenset({f"{dotted}()"}))


def _construct(name: str, args: list[Value]) -> Value:
    if name == "DeviceCapability" and len(args) == 2:
        return lift(lambda a, b: DeviceArch(a, b) if isinstance(a, int) and isinstance(b, int)
                    else UNKNOWN, *args)
    return None


def _named(name: str, callee: Value, args: Sequence[Value], keywords: dict[str, Value]) -> Value:
    """What the vocabulary says about a call of that name; None when nothing."""
    words = vocabulary()
    dotted = callee.dotted if isinstance(callee, External) else name
    if name in words.capability_calls or name in words.properties_calls:
        return device_arch()
    if name in words.name_calls and not any(v in dotted for v in ("xpu", "npu", "musa")):
        return device_name()
    if name in words.true_calls or dotted in words.true_calls:
        return True
    if name in words.false_calls:
        return False
    if name in words.number_calls:
        return per_target(lambda t: t.number)
    if name in words.pdl_calls:
        return number_test("at_least", 90)
    asked = args[0] if args else keywords.get("capability")
    if isinstance(asked, Varied):
        return None
    for kind, names in (("at_least", words.at_least_calls), ("exact", words.exact_calls),
                        ("family", words.family_calls)):
        if name in names:
            return number_test(kind, asked)
    return None


def invoke(evaluator: Interpreter, function: Function, args: list[Value],
           keywords: dict[str, Value]) -> Value:
    """Interpret a function's body; Unknown when calls nest too deep."""
    if evaluator.calls >= _MAX_CALLS:
        return UNKNOWN
    node = function.node
    parent = function.parent if isinstance(function.parent, Scope) else None
    outer = parent or evaluator.module_scope(function.module)
    scope = Scope(function.module, node, function.owner, outer,
                  _arguments(evaluator, function, args, keywords, outer))
    evaluator.calls += 1
    try:
        if isinstance(node, ast.Lambda):
            return evaluator.value(node.body, scope)
        if len(node.body) > _MAX_BODY:
            return UNKNOWN
        return _filled(_run(evaluator, node.body, 0, scope, 0), None)
    finally:
        evaluator.calls -= 1
        scope.memo.clear()


def _arguments(evaluator: Interpreter, function: Function, args: list[Value],
               keywords: dict[str, Value], outer: Scope) -> dict[str, Value]:
    spec = function.node.args
    positional = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    values: dict[str, Value] = {}
    rest = positional
    if function.owner is not None and positional[:1] in (["self"], ["cls"]):
        values[positional[0]] = function.owner
        rest = positional[1:]
        args = args[1:] if args and args[0] is function.owner else args
    defaults = dict(zip(reversed(positional), reversed(spec.defaults), strict=False))
    defaults |= {a.arg: d for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d}
    values |= dict(zip(rest, args, strict=False))
    values |= keywords
    for name, default in defaults.items():
        if name not in values:
            values[name] = evaluator.value(default, outer)
    return values


def _run(evaluator: Interpreter, body: list[ast.stmt], start: int, scope: Scope,
         depth: int) -> Value:
    """What a block returns per target; _FALL where control falls out of it."""
    if depth > _MAX_NESTING:
        return UNKNOWN
    for position in range(start, len(body)):
        statement = body[position]
        if isinstance(statement, ast.Return):
            return None if statement.value is None else evaluator.value(statement.value, scope)
        if isinstance(statement, ast.Raise):
            return RAISED
        if isinstance(statement, _LOOPS) and _returns(statement):
            return UNKNOWN
        if isinstance(statement, ast.If):
            result = _branch(evaluator, statement, scope, depth)
        elif isinstance(statement, (ast.Try, ast.With)):
            inner = _run(evaluator, statement.body, 0, scope, depth + 1)
            result = (True, inner, inner)
        else:
            continue
        test, yes, no = result
        if yes is _FALL and no is _FALL:
            continue
        if _falls(yes) or _falls(no):
            rest = _run(evaluator, body, position + 1, scope, depth + 1)
            yes, no = _filled(yes, rest), _filled(no, rest)
        return choose(test, yes, no)
    return _FALL


def _branch(evaluator: Interpreter, statement: ast.If, scope: Scope,
            depth: int) -> tuple[Value, Value, Value]:
    """The test, and what either arm returns; an arm that is never taken is not looked at."""
    test = truth_value(evaluator.value(statement.test, scope))
    yes = no = _FALL
    if test is not False:
        yes = _run(evaluator, statement.body, 0, scope, depth + 1)
    if test is not True:
        no = _run(evaluator, statement.orelse, 0, scope, depth + 1)
    return test, no if test is False else yes, yes if test is True else no


def _falls(value: Value) -> bool:
    return value is _FALL or (isinstance(value, Varied) and any(c is _FALL for c in value.cells))


def _filled(value: Value, rest: Value) -> Value:
    return lift(lambda cell, other: other if cell is _FALL else cell, value, rest)


def _returns(statement: ast.stmt) -> bool:
    return any(isinstance(n, ast.Return) for n in ast.walk(statement))


def _method(method: Value, args: Sequence[Value]) -> Value:
    """A method of one plain value."""
    if not isinstance(method, Method):
        return opaque(method) or UNKNOWN
    owner = method.owner
    if isinstance(owner, DeviceArch):
        return _device_method(owner, method.name, args)
    if isinstance(owner, Table) and method.name == "get" and args:
        return owner.get(args[0], args[1] if len(args) > 1 else None)
    if isinstance(owner, Table) and method.name == "keys":
        return owner.keys
    if isinstance(owner, DeviceName) and method.name in ("lower", "upper"):
        return DeviceName(owner.names, tuple(getattr(n, method.name)() for n in owner.spelled))
    if (blocked := opaque(*args)) is not None:
        return blocked
    if isinstance(owner, str) and method.name in _STRING_METHODS and len(owner) < MAX_LENGTH:
        try:
            return getattr(owner, method.name)(*args)
        except (TypeError, ValueError):
            return UNKNOWN
    return UNKNOWN


_STRING_METHODS = frozenset({
    "startswith", "endswith", "lower", "upper", "strip", "rstrip", "lstrip", "split",
    "removeprefix", "removesuffix", "isdigit", "join"})


def _device_method(device: DeviceArch, name: str, args: Sequence[Value]) -> Value:
    if name == "to_int":
        return device.number
    if name == "as_version_str":
        return f"{device.major}.{device.minor}"
    if name == "is_family_of" and args and isinstance(args[0], ArchName):
        family = args[0]
        return device.major == family[0] and device.minor >= family[1] and device.suffix != ""
    return UNKNOWN


def _builtin(name: str, args: tuple[Value, ...]) -> Value:
    if name in ("any", "all") and len(args) == 1 and isinstance(args[0], (tuple, list)):
        return _quantified(name, [truth_value(item) for item in args[0]])
    if name == "isinstance":
        return UNKNOWN
    if name == "map":
        plain = len(args) == 2 and isinstance(args[1], (tuple, list)) and all(
            isinstance(item, (int, str)) for item in args[1])
        is_str = isinstance(args[0], External) and args[0].dotted == "str"
        return tuple(map(str, args[1])) if plain and is_str else UNKNOWN
    if (blocked := opaque(*args)) is not None:
        return blocked
    if name in ("int", "str") and isinstance(args[0], DeviceArch):
        return args[0].number if name == "int" else UNKNOWN
    if any(isinstance(a, (str, tuple, list)) and len(a) > MAX_LENGTH for a in args):
        return UNKNOWN
    if any(isinstance(a, Table) for a in args):
        args = tuple(a.keys if isinstance(a, Table) else a for a in args)
    try:
        return _BUILTINS[name](*args)
    except (TypeError, ValueError):
        return UNKNOWN


def _quantified(name: str, items: list[Value]) -> Value:
    decisive = name == "any"
    if any(item is decisive for item in items):
        return decisive
    unknown = [item for item in items if not isinstance(item, bool)]
    return unknown[0] if unknown else not decisive


_BUILTINS: dict[str, Callable[..., Any]] = {
    "int": int, "str": str, "bool": bool, "tuple": tuple, "list": list, "set": tuple,
    "frozenset": tuple, "sorted": sorted, "len": len, "any": any, "all": all,
    "isinstance": isinstance, "min": min, "max": max, "divmod": divmod, "abs": abs,
    "range": range, "map": map,
}
