"""Gates that are no tests: lists given to keywords and decorators, tables, gencode flags."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from patcher.arch import DEVICE, EMPTY, ArchSet, Target, known_targets
from patcher.gates import Effect, Layer
from patcher.python.evaluate import Evaluator
from patcher.python.index import Function
from patcher.python.operators import Table, compare, opaque
from patcher.python.scope import Scope
from patcher.python.spelling import axis, axis_like
from patcher.python.values import Unknown, Value, Varied, lift, truth_of
from patcher.python.vocabulary import device_arch, vocabulary

_CODE = re.compile(r"code=\[?(?:sm|compute)_(\d{2,3})([af]?)")
_FLAGS = re.compile(r"gencode|nvcc_flags|code=sm")


@dataclass(frozen=True, slots=True)
class Shape:
    """A gate found by its shape: device worlds that pass, and those nobody knows."""

    rule: str
    node: ast.AST
    condition: str
    open: ArchSet
    unknown: ArchSet = EMPTY
    effect: Effect = Effect.ERROR
    layer: Layer = Layer.PYTHON
    names: tuple[str, ...] = ()


def in_call(evaluator: Evaluator, node: ast.Call, scope: Scope) -> Iterator[Shape]:
    """``f(supported_major_versions=[9, 10])`` and ``TABLE.get(arch)``."""
    for keyword in node.keywords:
        if keyword.arg in vocabulary().keywords:
            yield from _keyword(evaluator, keyword, scope)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args \
            and not isinstance(node.args[0], ast.Constant):
        yield from _table(evaluator, node, node.func.value, node.args[0], scope, Effect.FEATURE)


def _keyword(evaluator: Evaluator, keyword: ast.keyword, scope: Scope) -> Iterator[Shape]:
    value = evaluator.value(keyword.value, scope)
    unit = vocabulary().keywords[keyword.arg or ""]
    keys = axis(lambda t: t.capability.major if unit == "majors" else t.number)
    if value is None:
        open_worlds = DEVICE
    elif isinstance(value, (tuple, list)) and all(isinstance(v, int) for v in value):
        open_worlds = keys.worlds(value)
    else:
        return
    yield Shape("PY-MAJORS" if unit == "majors" else "PY-NUMBERS", keyword.value,
                f"{keyword.arg}={ast.unparse(keyword.value)}", open_worlds)


def in_subscript(evaluator: Evaluator, node: ast.Subscript, scope: Scope) -> Iterator[Shape]:
    """``TABLE[arch]``: a missing key raises KeyError."""
    if isinstance(node.ctx, ast.Load):
        yield from _table(evaluator, node, node.value, node.slice, scope, Effect.ERROR)


def _table(evaluator: Evaluator, node: ast.expr, table: ast.expr, key: ast.expr, scope: Scope,
           effect: Effect) -> Iterator[Shape]:
    wanted = evaluator.value(key, scope)
    if not isinstance(wanted, Varied):
        return
    known = evaluator.value(table, scope)
    if not isinstance(known, Table) or not known.keys:
        return
    found = lift(lambda cell: _has(known, cell), wanted)
    if not isinstance(found, Varied):
        return
    opened = _where(found, True)
    yield Shape("PY-TABLE", node, _short(ast.unparse(node)), opened,
                DEVICE - opened - _where(found, False), effect)


def _has(table: Table, key: Value) -> Value:
    """Whether a key is there; a tuple key by its known parts."""
    if isinstance(key, tuple) and any(isinstance(p, Unknown) or opaque(p) for p in key):
        places = [n for n, part in enumerate(key) if not isinstance(part, Unknown)
                  and opaque(part) is None]
        return any(isinstance(k, tuple) and len(k) == len(key)
                   and all(compare(ast.Eq(), key[n], k[n]) is True for n in places)
                   for k in table.keys) if places else key[0]
    marker = object()
    found = table.get(key, marker)
    if isinstance(found, Unknown) and not any(compare(ast.Eq(), key, k) is True
                                              for k in table.keys):
        return found
    return found is not marker


def _where(value: Varied, wanted: bool) -> ArchSet:
    return ArchSet.of(*(t for t in known_targets() if value.cells[t.index] is wanted))


def _short(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:100]} ... {text[-50:]}"


def decorators(evaluator: Evaluator, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef,
               scope: Scope) -> Iterator[Shape]:
    """``@supported_compute_capability([...])`` and ``@backend_requirement({...})``."""
    for decorator in node.decorator_list:
        if not isinstance(decorator, ast.Call):
            continue
        name = _tail(decorator.func)
        if name in vocabulary().decorators:
            worlds = _decorated(evaluator, decorator, scope)
            if worlds is not None:
                yield Shape("PY-DECORATOR", decorator, f"@{_short(ast.unparse(decorator))}",
                            worlds, names=(node.name,))
        elif name in vocabulary().backend_decorators:
            yield from _backends(evaluator, decorator, node, scope)


def _tail(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _decorated(evaluator: Evaluator, decorator: ast.Call, scope: Scope) -> ArchSet | None:
    given = [*decorator.args, *(k.value for k in decorator.keywords)]
    value = evaluator.value(given[0], scope) if given else None
    if not isinstance(value, (tuple, list)) or not all(isinstance(v, int) for v in value):
        return None
    return axis(lambda t: t.number).worlds(value)


def _backends(evaluator: Evaluator, decorator: ast.Call, node: ast.stmt,
              scope: Scope) -> Iterator[Shape]:
    """Open where one backend's checker and the common one allow the capability."""
    given = {k.arg: k.value for k in decorator.keywords}
    table = decorator.args[0] if decorator.args else given.get("backend_checks")
    checks = table.values if isinstance(table, ast.Dict) else []
    opened = [_checker(evaluator, check, scope) for check in checks]
    common = given.get("common_check") or (decorator.args[1] if len(decorator.args) > 1 else None)
    shared = DEVICE if common is None else _checker(evaluator, common, scope)
    total = EMPTY if opened else DEVICE
    for worlds in opened:
        total = total | worlds
    if total & shared != DEVICE:
        name = getattr(node, "name", "")
        yield Shape("PY-BACKENDS", decorator, f"@{_short(ast.unparse(decorator))}",
                    total & shared, names=(name,))


def _checker(evaluator: Evaluator, node: ast.expr, scope: Scope) -> ArchSet:
    function = evaluator.value(node, scope)
    if not isinstance(function, Function) or isinstance(function.node, ast.Lambda):
        return DEVICE
    inside = evaluator.module_scope(function.module)
    for decorator in function.node.decorator_list:
        if isinstance(decorator, ast.Call) and _tail(decorator.func) in vocabulary().decorators:
            worlds = _decorated(evaluator, decorator, inside)
            return DEVICE if worlds is None else worlds
    return DEVICE


def in_class(evaluator: Evaluator, node: ast.ClassDef, scope: Scope) -> Iterator[Shape]:
    """``admissible_archs = [Arch.sm_100a]`` and ``CUDA_MAXIMUM_COMPUTE_CAPABILITY = (9, 0)``."""
    words = vocabulary()
    for statement in node.body:
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        name = _tail(targets[0])
        value = evaluator.value(statement.value, scope)
        opened: ArchSet | None = None
        if name in words.arch_lists and isinstance(value, (tuple, list)) and value:
            spelled = axis_like(list(value))
            opened = spelled.worlds(value) if spelled else None
        elif name in words.arch_lists:
            opened = _filtered(evaluator, statement.value, scope)
        elif isinstance(value, tuple) and name in words.maximum_attributes:
            opened = ArchSet.of(*(t for t in known_targets() if _pair(t) <= value))
        elif isinstance(value, tuple) and name in words.minimum_attributes:
            opened = ArchSet.of(*(t for t in known_targets() if _pair(t) >= value))
        if opened is not None:
            rule = "PY-ARCHS" if name in words.arch_lists else "PY-BOUND"
            yield Shape(rule, statement, _short(ast.unparse(statement)), opened, names=(node.name,))


def _filtered(evaluator: Evaluator, node: ast.expr, scope: Scope) -> ArchSet | None:
    """``Arch.filter(lambda arch: ...)``, when each device has an answer."""
    if not (isinstance(node, ast.Call) and _tail(node.func) == "filter" and len(node.args) == 1
            and isinstance(node.args[0], ast.Lambda) and len(node.args[0].args.args) == 1):
        return None
    test = node.args[0]
    inside = scope.with_local({test.args.args[0].arg: device_arch()})
    truth = truth_of(evaluator.value(test.body, inside))
    return truth.true if truth.true | truth.false == DEVICE else None


def _pair(target: Target) -> tuple[int, int]:
    return target.capability.major, target.capability.minor


def gencode(evaluator: Evaluator, node: ast.expr, scope: Scope, text: str) -> Shape | None:
    """Compiler flags with a fixed architecture; what either arm of a choice names counts."""
    if not _FLAGS.search(text):
        return None
    opened = EMPTY
    for leaf in _leaves(node):
        value = evaluator.value(leaf, scope)
        for flag in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(flag, str):
                for match in _CODE.finditer(flag):
                    opened = opened | _runs(int(match[1]), match[2])
    if not opened:
        return None
    return Shape("PY-GENCODE", node, _short(text), opened, effect=Effect.FEATURE,
                 layer=Layer.BUILD)


def _leaves(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _leaves(node.left)
        yield from _leaves(node.right)
    elif isinstance(node, ast.IfExp):
        yield from _leaves(node.body)
        yield from _leaves(node.orelse)
    elif isinstance(node, (ast.List, ast.Tuple)):
        for item in node.elts:
            yield from _leaves(item.value if isinstance(item, ast.Starred) else item)
    elif isinstance(node, (ast.Constant, ast.Name, ast.Attribute, ast.JoinedStr)):
        yield node


def _runs(number: int, suffix: str) -> ArchSet:
    """The devices that code for a target runs on: ``a`` the one capability, else the later
    minors of its major too (CUDA binary compatibility; ``f`` targets likewise)."""
    return ArchSet.of(*(
        t for t in known_targets()
        if t.number == number or (suffix != "a" and t.number // 10 == number // 10
                                  and t.number > number)))


