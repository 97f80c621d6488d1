"""Statements, and the exploration of a function's open decisions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
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


class Interpreter(Calls):
    """Evaluates functions of a package from their source. ``budget`` is in syntax nodes per run.

    ``intercepts`` replace calls by the name called, ``overrides`` replace
    module globals by ``module.name``.
    """

    def __init__(self, tree: Tree, *, intercepts: Mapping[str, Intercept] | None = None,
                 overrides: Mapping[str, Value] | None = None, budget: int = 200_000) -> None:
        super().__init__(tree, overrides or {}, budget, intercepts or {})

    def explore(self, function: Function) -> Iterator[Run]:
        """Run a function so that each open decision goes both ways at least once.

        What leads straight to a ``raise`` is tried last, so that the first run
        gets through; runs that raise are marked. At most MAX_RUNS runs.
        """
        queue: list[dict[str, bool]] = [{}]
        seen: set[tuple[str, bool]] = set()
        runs = 0
        while queue and runs < MAX_RUNS:
            run = self.run(function, queue.pop(0))
            runs += 1
            before: dict[str, bool] = {}
            for question, answer in run.decisions.items():
                seen.add((question, answer))
                if (question, not answer) not in seen:
                    seen.add((question, not answer))
                    queue.append({**before, question: not answer})
                before[question] = answer
            yield run

    def run(self, function: Function | Class, forced: Mapping[str, bool],
            arguments: list[Value] | None = None) -> Run:
        """One run with some decisions and arguments given."""
        self.forced, self.trace, self.narrowed = dict(forced), {}, {}
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
                   stopped, raised)

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
        before, self.preferred = self.preferred, not isinstance(node.body[-1], ast.Raise)
        try:
            chosen = self.truth(self.evaluate(node.test, frame))
        finally:
            self.preferred = before
        if chosen:
            self.execute(node.body, frame)
        else:
            self.execute(node.orelse, frame)

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
