"""Statements, and the exploration of a function's open decisions."""

from __future__ import annotations

import ast
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from patcher.profiles.partial.calls import Calls, Returned
from patcher.profiles.partial.values import (
    Class,
    Frame,
    Function,
    Generated,
    Instance,
    Intercept,
    Raised,
    Stopped,
    Unknown,
    Value,
)
from patcher.tree import Tree

MAX_RUNS = 48
MAX_REFUSED = 8  # decisions that lead straight to a raise; what follows from one is little
MAX_CHOSEN = 4096
Given = tuple[tuple[str, Value], ...]  # the key that an argument is, by the argument's name


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Run:
    """One way through a function. ``decisions`` are the answers given to open questions."""

    value: Value
    decisions: Mapping[str, bool]
    generated: Mapping[str, Generated]
    entered: frozenset[str]
    stopped: str = ""  # why the run did not reach the function's end
    raised: bool = False
    given: Given = ()  # the keys that arguments had


class Interpreter(Calls):
    """Evaluates functions of a package from their source. ``budget`` is in syntax nodes per run.

    ``intercepts`` replace calls by the name called, ``overrides`` replace
    module globals by ``module.name``. ``begin`` is called before each run that
    ``explore`` makes; the last of them counts.
    """

    def __init__(self, tree: Tree, *, intercepts: Mapping[str, Intercept] | None = None,
                 overrides: Mapping[str, Value] | None = None, budget: int = 200_000,
                 begin: Callable[[], None] = lambda: None) -> None:
        super().__init__(tree, overrides or {}, budget, intercepts or {})
        self.begin = begin

    def explore(self, function: Function, *, every_key: bool = True) -> Iterator[Run]:
        """Run a function so that each open decision goes both ways at least once.

        What leads straight to a ``raise`` is tried last and once, so that the
        first run gets through; runs that raise are marked. Where an argument
        must be one of some keys (see ``choose``) each of them gets its runs:
        at most MAX_RUNS for one choice of keys, MAX_CHOSEN choices. Without
        ``every_key`` such an argument stays unknown.
        """
        self.parameters = _parameters(function) if every_key else frozenset()
        queue: deque[tuple[dict[str, bool], Given]] = deque([({}, ())])
        asked: set[Given] = {()}
        taken: Counter[Given] = Counter()
        refused: set[str] = set()
        seen: set[tuple[Given | None, str, bool]] = set()
        while queue:
            forced, given = queue.popleft()
            if taken[given] >= MAX_RUNS:
                continue
            self.begin()
            run = self.run(function, forced, given=given)
            # what was read as unknown before it was chosen is known in a run of its own
            again = [run.given] if self.early else []
            for other in (*again, *self._siblings(given)):
                if other not in asked and len(asked) < MAX_CHOSEN:
                    asked.add(other)
                    queue.append(({}, other))
            if self.early:
                continue
            taken[run.given] += 1
            before: dict[str, bool] = {}
            for question, answer in run.decisions.items():
                scope = None if question in self.refusals else run.given
                seen.add((scope, question, answer))
                if scope is None and len(refused := refused | {question}) > MAX_REFUSED:
                    continue
                if (scope, question, not answer) not in seen:
                    seen.add((scope, question, not answer))
                    queue.append(({**before, question: not answer}, run.given))
                before[question] = answer
            yield run

    def _siblings(self, given: Given) -> Iterator[Given]:
        """The keys that the last run did not take, each with what was taken before it."""
        for choice in self.choices:
            yield from ((*given, (choice.name, key)) for key in choice.keys[1:])
            given = (*given, (choice.name, choice.keys[0]))

    def run(self, function: Function | Class, forced: Mapping[str, bool],
            arguments: list[Value] | None = None, given: Given = ()) -> Run:
        """One run with some decisions, arguments and keys given."""
        self.forced, self.trace, self.narrowed = dict(forced), {}, dict(given)
        self.choices, self.refusals = [], set()
        self.reads, self.early = Counter(), False
        self.preferred = True
        self.generated, self.entered, self.stack = {}, set(), []
        self.steps = 0
        value: Value = None
        stopped, raised = "", False
        try:
            value = self.call(function, arguments or [], {}, function.node)
        except (Stopped, _Break, _Continue) as error:
            stopped = str(error) or "a loop statement outside a loop"
        except RecursionError:
            stopped = "nested too deeply"
        except Raised:
            raised = True
        return Run(value, dict(self.trace), dict(self.generated), frozenset(self.entered),
                   stopped, raised, (*given, *((c.name, c.keys[0]) for c in self.choices)))

    def execute(self, body: list[ast.stmt], frame: Frame) -> None:
        """Execute statements; those without a meaning here are skipped."""
        for statement in body:
            self.step()
            method = self.handler("_exec_", type(statement))
            if method is not None:
                method(statement, frame)

    def assign(self, target: ast.expr, value: Value, frame: Frame) -> None:
        """Bind a target: a name, a tuple, an item, an attribute of an object."""
        if isinstance(target, ast.Name):
            frame.names[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target.elts, value, frame)
        elif isinstance(target, ast.Subscript):
            self._set_item(self.evaluate(target.value, frame),
                           self.evaluate(target.slice, frame), value)
        elif isinstance(target, ast.Attribute):
            owner = self.evaluate(target.value, frame)
            if isinstance(owner, Instance):
                owner.attributes[target.attr] = value

    @staticmethod
    def _set_item(owner: Value, key: Value, value: Value) -> None:
        if isinstance(owner, dict):
            with suppress(TypeError):  # a key that cannot be one
                owner[key] = value
        elif isinstance(owner, list) and isinstance(key, int) and -len(owner) <= key < len(owner):
            owner[key] = value

    def _unpack(self, targets: list[ast.expr], value: Value, frame: Frame) -> None:
        parts: list[Value] | None = list(value) if isinstance(value, list | tuple | str) else None
        star = next((i for i, t in enumerate(targets) if isinstance(t, ast.Starred)), None)
        if parts is not None and star is not None and len(parts) >= len(targets) - 1:
            tail = len(targets) - star - 1
            middle = parts[star:len(parts) - tail]
            parts = [*parts[:star], middle, *parts[len(parts) - tail:]]
        if parts is None or len(parts) != len(targets):
            parts = [Unknown(ast.unparse(t)) for t in targets]
        for target, part in zip(targets, parts, strict=True):
            inner = target.value if isinstance(target, ast.Starred) else target
            self.assign(inner, part, frame)

    def _exec_assign(self, node: ast.Assign, frame: Frame) -> None:
        value = self.evaluate(node.value, frame)
        for target in node.targets:
            self.assign(target, value, frame)

    def _exec_annassign(self, node: ast.AnnAssign, frame: Frame) -> None:
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value, frame), frame)

    def _exec_augassign(self, node: ast.AugAssign, frame: Frame) -> None:
        value = self.evaluate(node.value, frame)
        old = self.evaluate(node.target, frame)
        adds = isinstance(node.op, ast.Add) and isinstance(value, list | tuple)
        if isinstance(old, list) and adds:
            old.extend(self.items(value, node.value))  # in place: other names see it
            self.assign(node.target, old, frame)
        else:
            self.assign(node.target, self.binary(node.op, old, value, node.target), frame)

    def _exec_expr(self, node: ast.Expr, frame: Frame) -> None:
        if isinstance(node.value, ast.Yield | ast.YieldFrom):
            made = self.evaluate(node.value.value, frame) if node.value.value else None
            kept = frame.names.setdefault("@yielded", [])
            assert isinstance(kept, list)
            kept.extend(made if isinstance(made, list) and isinstance(node.value, ast.YieldFrom)
                        else [made])
        elif not isinstance(node.value, ast.Constant):
            self.evaluate(node.value, frame)

    def _exec_return(self, node: ast.Return, frame: Frame) -> None:
        raise Returned(self.evaluate(node.value, frame) if node.value else None)

    def _exec_raise(self, node: ast.Raise, frame: Frame) -> None:
        raise Raised(ast.unparse(node)[:200])

    def _exec_assert(self, node: ast.Assert, frame: Frame) -> None:
        """An assertion on an unknown is taken to hold, and what follows from it is kept."""
        value = self.evaluate(node.test, frame)
        if self.known_truth(value) is None:
            assert isinstance(value, Unknown) or hasattr(value, "name")
            self._narrow(value.name, True)
        elif not self.known_truth(value):
            raise Raised(ast.unparse(node)[:200])

    def _exec_if(self, node: ast.If, frame: Frame) -> None:
        refuses = isinstance(node.body[-1], ast.Raise)
        if refuses:
            self._allow(node.test, frame)
        before, self.preferred = self.preferred, not refuses
        try:
            chosen = self.truth(self.evaluate(node.test, frame))
        finally:
            self.preferred = before
        if chosen:
            self.execute(node.body, frame)
        else:
            self.execute(node.orelse, frame)

    def _allow(self, test: ast.expr, frame: Frame) -> None:
        """``if name not in TABLE: raise``: the argument is one of the names in the table."""
        either = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)
        for part in test.values if either and isinstance(test, ast.BoolOp) else [test]:
            match part:
                case ast.Compare(left=ast.Name() as name, ops=[ast.NotIn()], comparators=[where]):
                    asked = self.evaluate(name, frame)
                    if isinstance(asked, Unknown) and asked.name in self.parameters:
                        with suppress(Raised):
                            allowed = self.evaluate(where, frame)
                            if _names(allowed):
                                self.choose(asked, self.items(allowed, where))

    def _exec_for(self, node: ast.For, frame: Frame) -> None:
        for item in self.items(self.evaluate(node.iter, frame), node.iter):
            self.assign(node.target, item, frame)
            try:
                self.execute(node.body, frame)
            except _Continue:
                continue
            except _Break:
                return
        self.execute(node.orelse, frame)

    def _exec_while(self, node: ast.While, frame: Frame) -> None:
        while self.known_truth(self.evaluate(node.test, frame)):
            try:
                self.execute(node.body, frame)
            except _Continue:
                continue
            except _Break:
                return

    def _exec_break(self, node: ast.Break, frame: Frame) -> None:
        raise _Break

    def _exec_continue(self, node: ast.Continue, frame: Frame) -> None:
        raise _Continue

    def _exec_with(self, node: ast.With, frame: Frame) -> None:
        for item in node.items:
            value = self.evaluate(item.context_expr, frame)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, frame)
        self.execute(node.body, frame)

    def _exec_try(self, node: ast.Try, frame: Frame) -> None:
        try:
            self.execute(node.body, frame)
        except Raised:
            if not node.handlers:
                raise
            self.execute(node.handlers[0].body, frame)
        else:
            self.execute(node.orelse, frame)
        self.execute(node.finalbody, frame)

    def _exec_functiondef(self, node: ast.FunctionDef, frame: Frame) -> None:
        closure = frame if frame.function or frame.parent else None
        frame.names[node.name] = Function(frame.module, node, closure)

    def _exec_classdef(self, node: ast.ClassDef, frame: Frame) -> None:
        frame.names[node.name] = Class(frame.module, node)

    def _exec_import(self, node: ast.Import, frame: Frame) -> None:
        self.import_names(node, frame)

    def _exec_importfrom(self, node: ast.ImportFrom, frame: Frame) -> None:
        self.import_names(node, frame)


def _names(value: Value) -> bool:
    """True for a collection of names; one of sizes would multiply what is built."""
    return isinstance(value, list | tuple | set | frozenset | dict) and all(
        isinstance(item, str) for item in value)


def _parameters(function: Function) -> frozenset[str]:
    spec = function.node.args
    return frozenset(a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs))
