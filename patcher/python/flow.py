"""Walk the statements of a module with the worlds that reach them, and yield its gates."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from patcher.arch import DEVICE, EMPTY, UNKNOWN, ArchSet, Truth, known_targets
from patcher.gates import Effect, Evidence, Layer
from patcher.python import shapes
from patcher.python.bindings import children
from patcher.python.evaluate import Evaluator
from patcher.python.index import Class, Module
from patcher.python.matching import case_lines
from patcher.python.matching import ladder as ladder_of_match
from patcher.python.notes import message
from patcher.python.scope import Scope
from patcher.python.syntax import refuses
from patcher.python.taint import Lines
from patcher.python.values import RAISED, Varied, names_of, truth_of
from patcher.python.vocabulary import vocabulary

_TESTS = (ast.Compare, ast.BoolOp, ast.Call, ast.UnaryOp)


@dataclass(frozen=True, slots=True)
class Row:
    """A gate before it is worded: where, what, and the worlds (device only)."""

    rule: str
    line: int
    end_line: int
    condition: str
    within: str
    open: ArchSet
    closed: ArchSet
    unknown: ArchSet
    effect: Effect
    layer: Layer = Layer.PYTHON
    names: tuple[str, ...] = ()
    decided_by: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    statement: int = 0  # the line its statement begins on


@dataclass(frozen=True, slots=True)
class Verdict:
    """A test's truth, the worlds in which a call in it raises, and what would decide the rest."""

    truth: Truth
    raised: ArchSet = EMPTY
    names: tuple[str, ...] = ()

    def turned(self) -> Verdict:
        """The verdict on the opposite test."""
        return Verdict(~self.truth, self.raised, self.names)


UNDECIDED = Verdict(UNKNOWN)


@dataclass
class Walk:
    """One module's walk. ``rows`` grows in source order."""

    module: Module
    evaluator: Evaluator
    rows: list[Row] = field(default_factory=list)
    statement: int = 0

    def __post_init__(self) -> None:
        self.lines = Lines(self.module)

    def run(self) -> list[Row]:
        scope = self.evaluator.module_scope(self.module)
        self._block(self.module.tree.body, scope, "", DEVICE)
        return self.rows

    def _block(self, body: list[ast.stmt], scope: Scope, within: str, reached: ArchSet) -> ArchSet:
        """Walk statements; returns the worlds that fall out of the block."""
        for position, statement in enumerate(body):
            if not self.lines.touch(statement):
                if isinstance(statement, (ast.Return, ast.Raise, ast.Continue, ast.Break)):
                    return EMPTY
                continue
            self.statement = statement.lineno
            ladder = self._ladder_of(statement)
            if ladder is not None:
                reached = self._ladder(ladder, scope, within, reached, body[position + 1:])
            elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self._function(statement, scope, within)
            elif isinstance(statement, ast.ClassDef):
                self._class(statement, scope, within)
            else:
                reached = self._other(statement, scope, within, reached)
        return reached

    def _ladder_of(self, statement: ast.stmt) -> ast.If | None:
        """An ``if``, or a ``match`` that is a ladder of tests of what it looks at."""
        if not isinstance(statement, ast.Match):
            return statement if isinstance(statement, ast.If) else None
        if not self.lines.mentions(statement.subject):
            return None
        self.lines.also(case_lines(statement))
        return ladder_of_match(statement)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: Scope,
                  within: str) -> None:
        name = f"{within}.{node.name}".lstrip(".")
        for shape in shapes.decorators(self.evaluator, node, scope):
            self.statement = getattr(shape.node, "lineno", node.lineno)
            self._shape(shape, name, DEVICE)
        owner = scope.owner if scope.node is None else None
        outer = scope if scope.node is not None else self.evaluator.module_scope(self.module)
        inner = Scope(self.module, node, owner, outer)
        self._block(node.body, inner, name, DEVICE)
        inner.memo.clear()

    def _class(self, node: ast.ClassDef, scope: Scope, within: str) -> None:
        name = f"{within}.{node.name}".lstrip(".")
        inner = Scope(self.module, None, Class(node, self.module), scope)
        for shape in shapes.in_class(self.evaluator, node, inner):
            self._shape(shape, name, DEVICE)
        self._block(node.body, inner, name, DEVICE)

    def _other(self, statement: ast.stmt, scope: Scope, within: str, reached: ArchSet) -> ArchSet:
        if isinstance(statement, ast.Assert):
            verdict = self._verdict(statement.test, scope)
            self._test("PY-ASSERT", statement.test, within, verdict, reached, Effect.ERROR)
            self._inner(statement.test, scope, within, reached)
            return reached - verdict.truth.false
        if isinstance(statement, (ast.For, ast.AsyncFor, ast.While)):
            if isinstance(statement, ast.While):
                self._inner(statement.test, scope, within, reached)
            self._block(statement.body, scope, within, reached)
            self._block(statement.orelse, scope, within, reached)
            return reached
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            return self._block(statement.body, scope, within, reached)
        if isinstance(statement, ast.Try):
            for handler in statement.handlers:
                self._block(handler.body, scope, within, reached)
            after = self._block(statement.body, scope, within, reached)
            self._block(statement.orelse, scope, within, after)
            self._block(statement.finalbody, scope, within, reached)
            return after if not statement.handlers else reached
        if isinstance(statement, ast.Match):
            for case in statement.cases:
                self._block(case.body, scope, within, reached)
            return reached
        self._plain(statement, scope, within, reached)
        ends = isinstance(statement, (ast.Return, ast.Raise, ast.Continue, ast.Break))
        return EMPTY if ends else reached

    def _plain(self, statement: ast.stmt, scope: Scope, within: str, reached: ArchSet) -> None:
        """Returned and assigned tests, and gates inside of expressions. What a module-level
        name that names an architecture is given is a definition, not a gate."""
        if isinstance(statement, ast.Assign) and not within and vocabulary().arch_in_name.search(
                ast.unparse(statement.targets[0])):
            return
        value = getattr(statement, "value", None)
        if isinstance(value, _TESTS):
            rule, named = _purpose(statement, within)
            words = vocabulary()
            one = words.one_arch if rule == "PY-RETURN" else words.arch_in_name
            if rule and not one.search(named):
                verdict = self._verdict(value, scope, strict=True)
                self._test(rule, value, within, verdict, reached, Effect.FEATURE)
        for child in children(statement):
            if isinstance(child, ast.expr):
                self._inner(child, scope, within, reached)

    def _inner(self, root: ast.expr, scope: Scope, within: str, reached: ArchSet) -> None:
        """Choices, tables, keyword lists and compiler flags inside an expression."""
        stack: list[tuple[ast.expr, bool]] = [(root, self.lines.any_flags)]
        many_lines = root.lineno != root.end_lineno
        while stack:
            node, flags = stack.pop()
            if many_lines and not self.lines.on(node):
                continue
            flags = flags and not isinstance(node, ast.Dict)  # the table is the gate, if any
            if flags and self.lines.has_flags(node) and self._is_new(node, scope):
                made = shapes.gencode(self.evaluator, node, scope, _text(node))
                if made:
                    self._shape(made, within, reached)
                    flags = False
            if isinstance(node, ast.IfExp):
                self._choice(node, within, self._verdict(node.test, scope), reached)
            elif isinstance(node, ast.Call):
                for shape in shapes.in_call(self.evaluator, node, scope):
                    self._shape(shape, within, reached)
            elif isinstance(node, ast.Subscript) and self.lines.mentions(node.slice):
                for shape in shapes.in_subscript(self.evaluator, node, scope):
                    self._shape(shape, within, reached)
            elif isinstance(node, ast.Lambda):
                continue
            stack += [(child, flags) for child in _children(node)]

    def _is_new(self, node: ast.AST, scope: Scope) -> bool:
        """Flags written here or named by the module; what is local was reported before."""
        if isinstance(node, ast.Name):
            return scope.node is None or node.id not in self.module.bindings_of(scope.node)
        return isinstance(node, (ast.List, ast.BinOp, ast.IfExp))

    def _choice(self, node: ast.IfExp, within: str, verdict: Verdict, reached: ArchSet) -> None:
        first, second = (_is_nothing(part) for part in (node.body, node.orelse))
        turned = verdict.turned() if first and not second else verdict
        effect = Effect.FEATURE if first or second else Effect.ALTERNATIVE
        self._test("PY-CHOICE", node.test, within, turned, reached, effect)

    def _ladder(self, node: ast.If, scope: Scope, within: str, reached: ArchSet,
                rest: list[ast.stmt]) -> ArchSet:
        """An if/elif/else ladder; an arm's worlds that another arm serves are not closed."""
        arms: list[tuple[ast.If, Verdict, ArchSet]] = []
        here, left, falling = node, reached, EMPTY
        while True:
            self.statement = here.lineno
            verdict = self._verdict(here.test, scope)
            arms.append((here, verdict, left))
            self._inner(here.test, scope, within, left)
            falling = falling | self._block(here.body, scope, within, left - verdict.truth.false)
            left = left - verdict.truth.true
            if len(here.orelse) == 1 and isinstance(here.orelse[0], ast.If):
                here = here.orelse[0]
                continue
            break
        otherwise = here.orelse
        falling = falling | (self._block(otherwise, scope, within, left) if otherwise else left)
        others = EMPTY  # served by later arms
        for arm, verdict, came in reversed(arms):
            mine = verdict.truth.true
            self._arm(arm, within, verdict, came - (others - mine), otherwise, rest)
            if not refuses(arm.body):
                others = others | (mine & came)
        return falling

    def _arm(self, arm: ast.If, within: str, verdict: Verdict, reached: ArchSet,
             otherwise: list[ast.stmt], rest: list[ast.stmt]) -> None:
        self.statement = arm.lineno
        refusal, other = refuses(arm.body), refuses(otherwise)
        if refusal and not other:
            effect = Effect.ERROR if refusal == "raise" else Effect.FEATURE
            self._test("PY-REFUSAL", arm.test, within, verdict.turned(), reached, effect,
                       message(self.module.path, arm.body))
            return
        following = refuses(rest[:1]) if not otherwise and _ends(arm.body) else ""
        if "raise" in (other, following):
            effect = Effect.ERROR
        else:
            served = bool(otherwise and not other) or (_ends(arm.body) and bool(rest)
                                                       and not following)
            effect = Effect.ALTERNATIVE if served else Effect.FEATURE
        said = message(self.module.path, otherwise) or (
            message(self.module.path, rest[:1]) if following else [])
        self._test("PY-IF", arm.test, within, verdict, reached, effect, said)

    def _verdict(self, node: ast.expr, scope: Scope, strict: bool = False) -> Verdict:
        """The test per target; undecided when it does not depend on the architecture."""
        if not self.lines.on(node) or not self.lines.mentions(node):
            return UNDECIDED
        value = self.evaluator.value(node, scope)
        if isinstance(value, bool) and not strict:
            return Verdict(Truth(DEVICE, EMPTY) if value else Truth(EMPTY, DEVICE))
        if not isinstance(value, Varied):
            return UNDECIDED
        if strict and any(isinstance(c, (int, str, tuple, list)) and not isinstance(c, bool)
                          for c in value.cells):
            return UNDECIDED
        raised = ArchSet.of(*(t for t in known_targets() if value.cells[t.index] is RAISED))
        truth = truth_of(value)
        return Verdict(Truth(truth.true, truth.false - raised), raised,
                       tuple(sorted(names_of(value))))

    def _test(self, rule: str, node: ast.expr, within: str, verdict: Verdict, reached: ArchSet,
              effect: Effect, said: list[Evidence] | None = None) -> None:
        reached = reached - verdict.raised
        opened, closed = verdict.truth.true & reached, verdict.truth.false & reached
        unknown = reached - opened - closed
        if not reached or reached in (opened, closed, unknown):
            return
        self.rows.append(Row(rule, node.lineno, node.end_lineno or node.lineno, _text(node), within,
                             opened, closed, unknown, effect,
                             decided_by=verdict.names if unknown else (),
                             evidence=tuple(said or ()), statement=self.statement))

    def _shape(self, shape: shapes.Shape, within: str, reached: ArchSet) -> None:
        opened, unknown = shape.open & reached, shape.unknown & reached
        first = getattr(shape.node, "lineno", 1)
        self.rows.append(Row(
            shape.rule, first, getattr(shape.node, "end_lineno", first) or first, shape.condition,
            within, opened, reached - opened - unknown, unknown, shape.effect, shape.layer,
            shape.names, statement=self.statement))


def _children(node: ast.AST) -> list[ast.expr]:
    """Child expressions that can hold a gate; the keywords of a call are looked through."""
    found: list[ast.expr] = []
    for child in children(node, but=ast.Constant):
        if isinstance(child, ast.expr):
            found.append(child)
        elif isinstance(child, (ast.keyword, ast.comprehension)):
            found += _children(child)
    return found


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def _is_nothing(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or node.value is False)


def _ends(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break))


def _purpose(statement: ast.stmt, within: str) -> tuple[str, str]:
    """The rule for a test that is returned or kept, and the name it gets."""
    if isinstance(statement, ast.Return):
        return "PY-RETURN", within.rpartition(".")[2]
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ast.Attribute) or not within:
            return "PY-VALUE", ast.unparse(target)
    return "", ""


def gates_of(walk: Walk) -> Iterator[Row]:
    """The rows in source order."""
    yield from sorted(walk.run(), key=lambda row: (row.line, row.end_line))
