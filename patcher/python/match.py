"""Find the gates that an anchor names (fast: ast only)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from patcher.arch import DEVICE, ArchSet
from patcher.python.evaluate import Evaluator
from patcher.python.index import Index, Module
from patcher.python.model import GateMatch, GateSpec, Kind, effective
from patcher.python.operators import Table
from patcher.python.scope import Scope
from patcher.python.spelling import Axis, axis, axis_like, axis_of
from patcher.python.syntax import (
    Parents,
    canonical,
    chain,
    is_positive,
    parents_of,
    qualified,
    scope_at,
    stands_within,
)
from patcher.python.values import Value, Varied, truth_of
from patcher.python.vocabulary import vocabulary

_NAME = re.compile(r"[A-Za-z_]\w*$")
_DISPLAYS = (ast.List, ast.Tuple, ast.Set)
_MAKERS = frozenset({"list", "tuple", "set", "frozenset", "sorted"})


@dataclass
class Located:
    """A match with what a rewrite needs: the node, where it stands, what it can tell apart."""

    kind: Kind
    node: ast.expr  # what is evaluated and edited
    scope: Scope
    parents: Parents
    worlds: ArchSet  # those that pass now; what only a version or a flag decides counts as passing
    axis: Axis | None
    positive: bool = True
    subject: ast.expr | None = None  # the architecture operand of a comparison
    samples: tuple[ast.expr, ...] = ()
    within: str = ""
    note: str = ""

    def match(self) -> GateMatch:
        resolution = self.axis.resolution if self.axis else (DEVICE,)
        return GateMatch(self.node.lineno, self.kind, self.worlds, resolution,
                         ast.unparse(self.node), self.within)


@dataclass
class File:
    """One parsed file with its surroundings."""

    module: Module
    evaluator: Evaluator
    parents: Parents = field(default_factory=dict)

    def scope_of(self, node: ast.AST) -> tuple[Scope, str]:
        nodes = chain(node, self.parents)
        outer = self.evaluator.module_scope(self.module)
        return scope_at(self.module, outer, nodes), qualified(nodes)


def open_file(source: bytes, path: str, index: Index | None) -> File | None:
    """Parse the file as part of its package; None when it is not Python."""
    base = index if index is not None else Index(None, path)
    index = base.replaced(path, source)
    module = index.at(path)
    if module is None:
        return None
    return File(module, Evaluator(index), parents_of(module.tree))


def match_gates(source: bytes, path: str, spec: GateSpec, index: Index | None) -> list[GateMatch]:
    """The gates that the anchor names, in source order; none when the file is not Python.

    ``worlds_before`` are the device worlds that pass; a world decided only by
    something else (CUDA version, a flag, an installed library) counts as passing.
    """
    file = open_file(source, path, index)
    return [found.match() for found in locate(file, spec)] if file else []


def locate(file: File, spec: GateSpec) -> list[Located]:
    """Every gate the anchor names, in source order."""
    try:
        found = list(_named(file, spec) if _NAME.match(spec.gate) else _expressions(file, spec))
    except RecursionError:  # expressions nested by the thousand
        return []
    return sorted(found, key=lambda f: (f.node.lineno, f.node.col_offset))


def _named(file: File, spec: GateSpec) -> Iterator[Located]:
    """Keywords, decorators and definitions of that name; only where there are none, its uses."""
    definitions: list[Located] = []
    uses: list[ast.expr] = []
    for node in ast.walk(file.module.tree):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == spec.gate:
                    definitions += _listed(file, spec, Kind.LIST_KEYWORD, keyword.value)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            definitions += _decorated(file, spec, node)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(_tail(target) == spec.gate for target in targets):
                definitions += _defined(file, spec, node.value)
        elif isinstance(node, ast.Name | ast.Attribute) and _tail(node) == spec.gate \
                and isinstance(node.ctx, ast.Load):
            uses.append(node)
    yield from definitions or _uses(file, spec, uses)


def _tail(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _decorated(file: File, spec: GateSpec, node: ast.stmt) -> list[Located]:
    found: list[Located] = []
    for decorator in getattr(node, "decorator_list", []):
        if isinstance(decorator, ast.Call) and _tail(decorator.func) == spec.gate:
            given = [*decorator.args, *(k.value for k in decorator.keywords)]
            own = qualified([*chain(node, file.parents), node])
            found += _listed(file, spec, Kind.DECORATOR, given[0], own) if given else []
    return found


def _listed(file: File, spec: GateSpec, kind: Kind, node: ast.expr, own: str = "") -> list[Located]:
    """A list given to a keyword or a decorator; None gives no restriction."""
    scope, within = file.scope_of(node)
    within = own or within
    if not stands_within(within, spec.within):
        return []
    value = file.evaluator.value(node, scope)
    if value is None:
        return [Located(kind, node, scope, file.parents, DEVICE, None, within=within)]
    if not isinstance(value, tuple | list):
        return [Located(kind, node, scope, file.parents, DEVICE, None, within=within,
                        note="its members cannot be read")]
    spelled = _keyword_axis(spec.gate) or axis_like(list(value))
    if spelled is None:
        return []
    return [Located(kind, node, scope, file.parents, spelled.worlds(value), spelled,
                    samples=members(node), within=within)]


def _keyword_axis(name: str) -> Axis | None:
    unit = vocabulary().keywords.get(name)
    if unit == "majors":
        return axis(lambda t: t.capability.major)
    if unit == "numbers" or name in vocabulary().decorators:
        return axis(lambda t: t.number)
    return None


def members(node: ast.expr) -> tuple[ast.expr, ...]:
    """The written members of a display, also inside ``frozenset({...})``."""
    inner = display(node)
    if isinstance(inner, ast.Dict):
        return tuple(key for key in inner.keys if key is not None)
    if isinstance(inner, ast.List | ast.Tuple | ast.Set):
        return tuple(e for e in inner.elts if not isinstance(e, ast.Starred))
    return ()


def display(node: ast.expr) -> ast.expr:
    """The display to edit: the node itself, or the only argument of ``frozenset(...)``."""
    if isinstance(node, ast.Call) and _tail(node.func) in _MAKERS and len(node.args) == 1:
        return display(node.args[0])
    return node


def _defined(file: File, spec: GateSpec, value: ast.expr) -> list[Located]:
    """A constant of architectures, or a dict keyed by them (also one that is subscripted)."""
    node = value.value if isinstance(value, ast.Subscript) else value
    node = display(node)
    scope, within = file.scope_of(node)
    if not stands_within(within, spec.within) or not isinstance(node, (*_DISPLAYS, ast.Dict)):
        return []
    known = file.evaluator.value(node, scope)
    keys = known.keys if isinstance(known, Table) else known
    if not isinstance(keys, tuple | list):
        return []
    plain = list(keys)
    spelled = axis_like(plain)
    if spelled is None:
        return []
    kind = Kind.DICT_KEY if isinstance(node, ast.Dict) else Kind.CONSTANT
    return [Located(kind, node, scope, file.parents, spelled.worlds(plain), spelled,
                    samples=members(node), within=within)]


def _uses(file: File, spec: GateSpec, uses: list[ast.expr]) -> Iterator[Located]:
    """Uses of a predicate; several in one ``or`` are one gate."""
    seen: set[int] = set()
    for use in uses:
        node: ast.expr = use
        above = file.parents.get(node)
        if isinstance(above, ast.Call) and above.func is node:
            node = above
        found = _expression(file, spec, node)
        if found and id(found.node) not in seen:
            seen.add(id(found.node))
            yield found


def _group(node: ast.expr, file: File, scope: Scope) -> ast.expr:
    """The whole of which an expression is a part: an ``or`` of predicates, or tests of the
    same operand joined by ``and`` and ``or``; else itself."""
    subjects = _subject_text(node)
    while isinstance(above := file.parents.get(node), ast.BoolOp):
        predicates = isinstance(above.op, ast.Or) and not subjects
        if not predicates and (not subjects or _subject_text(above) != subjects):
            break
        values = [file.evaluator.value(v, scope) for v in above.values]
        if not all(isinstance(v, Varied) or (subjects and isinstance(v, bool)) for v in values):
            break
        node = above
    return node


def _expressions(file: File, spec: GateSpec) -> list[Located]:
    """Expressions equal to the anchor; where there are none, wider ones that already pass."""
    try:
        asked = ast.parse(spec.gate.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    exact: list[Located] = []
    nodes = [n for n in ast.walk(file.module.tree) if isinstance(n, ast.expr)]
    wanted = canonical(asked)
    for node in nodes:
        if type(node) is type(asked) and canonical(node) == wanted:
            exact += filter(None, [_expression(file, spec, node)])
    return _distinct(exact) or _distinct(_wider(file, spec, asked, nodes))


def _distinct(found: list[Located]) -> list[Located]:
    return list({id(f.node): f for f in found}.values())


def _wider(file: File, spec: GateSpec, asked: ast.expr, nodes: list[ast.expr]) -> list[Located]:
    """Gates on the same subject that let pass all the anchor would, and what is asked."""
    subject = _subject_text(asked)
    operands = _operands(asked)
    found: list[Located] = []
    for node in nodes:
        if not isinstance(node, ast.Compare | ast.BoolOp | ast.Call | ast.Name | ast.Attribute):
            continue
        if operands and not (_operands(node) | {canonical(node)}) & operands:
            continue
        if not operands and not (subject & _subject_text(node)):
            continue
        located = _expression(file, spec, node)
        if located is None:
            continue
        narrow = _passing(file, asked, located.scope, located.positive)
        if narrow is None:
            continue
        if _is_done(located, narrow, spec):
            found.append(located)
    return found


def _is_done(located: Located, narrow: ArchSet, spec: GateSpec) -> bool:
    """True when a gate is the anchor's with what is asked already opened and closed."""
    worlds, cells = located.worlds, located.axis.resolution if located.axis else ()
    if not spec.open.device <= worlds or worlds & spec.close:
        return False
    if not narrow - worlds <= effective(spec.close, cells) | (narrow & spec.close):
        return False
    return not spec.close or worlds - narrow <= effective(spec.open, cells) | spec.open


def _operands(node: ast.expr) -> frozenset[str]:
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return frozenset(canonical(value) for value in node.values)
    return frozenset()


def _subject_text(node: ast.expr) -> frozenset[str]:
    """The operands of the comparisons in an expression that are no literals."""
    return frozenset(
        ast.unparse(operand)
        for compare in ast.walk(node) if isinstance(compare, ast.Compare)
        for operand in (compare.left, *compare.comparators)
        if isinstance(operand, ast.Name | ast.Attribute | ast.Subscript | ast.Call))


def _passing(file: File, node: ast.expr, scope: Scope, positive: bool) -> ArchSet | None:
    value = file.evaluator.value(_at_line(node, scope), scope)
    if not isinstance(value, Varied):
        return None
    truth = truth_of(value)
    return DEVICE - (truth.false if positive else truth.true)


def _at_line(node: ast.expr, scope: Scope) -> ast.expr:
    """Place an anchor's expression at the end of its scope, after every assignment."""
    last = getattr(scope.node, "end_lineno", None) or 1 << 30
    for inner in ast.walk(node):
        if isinstance(inner, ast.expr):
            inner.lineno = last + 1
    return node


def _expression(file: File, spec: GateSpec, node: ast.expr) -> Located | None:
    scope, within = file.scope_of(node)
    if not stands_within(within, spec.within):
        return None
    kind = _kind(node)
    node = _group(node, file, scope)
    positive = is_positive(node, file.parents)
    value = file.evaluator.value(node, scope)
    subject, samples, cells = _subject(file, node, scope)
    settled = isinstance(value, bool) and subject is not None  # nothing is left that differs
    if not isinstance(value, Varied) and not settled:
        return None
    truth = truth_of(value)
    passing = DEVICE - (truth.false if positive else truth.true)
    plain = [file.evaluator.value(s, scope) for s in samples]
    spelled = axis_of(cells, plain) if cells else None
    return Located(kind, node, scope, file.parents, passing, spelled, positive, subject,
                   samples, within)


def _kind(node: ast.expr) -> Kind:
    if isinstance(node, ast.Compare):
        if len(node.ops) > 1 or isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
            return Kind.RANGE
        member = isinstance(node.ops[0], ast.In | ast.NotIn)
        return Kind.MEMBERSHIP if member else Kind.COMPARISON
    if isinstance(node, ast.BoolOp) and any(isinstance(v, ast.Compare) for v in node.values):
        return Kind.RANGE
    return Kind.PREDICATE


def _subject(file: File, node: ast.expr, scope: Scope) -> tuple[
        ast.expr | None, tuple[ast.expr, ...], tuple[Value, ...]]:
    """The operand whose value is the architecture, literals it is compared with, its values."""
    for inner in ast.walk(node):
        if not isinstance(inner, ast.Compare):
            continue
        operands = [inner.left, *inner.comparators]
        for operand in operands:
            value = file.evaluator.value(operand, scope)
            if isinstance(value, Varied) and not isinstance(value.cells[0], bool):
                others = [o for o in operands if o is not operand]
                samples = tuple(m for o in others for m in (members(o) or (o,))
                                if not isinstance(o, ast.Name) or members(o))
                return operand, samples, value.cells
    return None, (), ()
