"""The state of one evaluation: budget, modules and names, and decisions on unknowns."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from patcher.profiles.partial.library import EXCEPTIONS, NAMES
from patcher.profiles.partial.values import (
    HOLE,
    Frame,
    Module,
    Stopped,
    Symbol,
    Unknown,
    Value,
)
from patcher.tree import Tree, exists

MAX_SOURCE_BYTES = 4 << 20
MAX_CHOICES = 1024  # the largest table of 0.7.4 has 263 records
_MUTATORS = {"append", "extend", "update", "insert", "setdefault", "add"}


@dataclass(frozen=True, slots=True)
class Choice:
    """An argument that had to be one of some keys; the run took the first."""

    name: str
    keys: tuple[Value, ...]


class Core(ABC):
    """What every part of the interpreter shares."""

    def __init__(self, tree: Tree, overrides: Mapping[str, Value], budget: int) -> None:
        self.tree = tree
        self.overrides = overrides  # "module.name" -> value, for what only the machine knows
        self.budget = budget
        self.steps = 0
        self.modules: dict[str, Module | None] = {}
        self.forced: dict[str, bool] = {}
        self.trace: dict[str, bool] = {}
        self.narrowed: dict[str, Value] = {}
        self.parameters: frozenset[str] = frozenset()  # of the function that is explored
        self.choices: list[Choice] = []  # taken in this run, in their order
        self.reads: Counter[str] = Counter()  # of parameters while they were unknown
        self.early = False  # a parameter was read before it was chosen
        self.refusals: set[str] = set()  # decisions of this run that lead straight to a raise
        self.preferred = True
        self._handlers: dict[type[ast.AST], Callable[..., Any] | None] = {}

    @abstractmethod
    def evaluate(self, node: ast.expr, frame: Frame) -> Value: ...

    @abstractmethod
    def execute(self, body: list[ast.stmt], frame: Frame) -> None: ...

    @abstractmethod
    def assign(self, target: ast.expr, value: Value, frame: Frame) -> None: ...

    def handler(self, prefix: str, kind: type[ast.AST]) -> Callable[..., Any] | None:
        """The method for a node type, None when there is none; looked up once per type."""
        if kind not in self._handlers:
            self._handlers[kind] = getattr(self, prefix + kind.__name__.lower(), None)
        return self._handlers[kind]

    def step(self) -> None:
        """Count one node; raises Stopped when the budget is spent."""
        self.steps += 1
        if self.steps > self.budget:
            raise Stopped(f"more than {self.budget} steps")

    # Decisions: a run answers each open question once and remembers the answer.

    def resolve(self, value: Value) -> Value:
        """The value, or what a decision of this run has narrowed it to."""
        return self.narrowed.get(value.name, value) if isinstance(value, Unknown) else value

    def known_truth(self, value: Value) -> bool | None:
        """The truth of a value, None when it is open in this run."""
        if isinstance(value, Unknown | Symbol):
            return self.trace.get(value.name)
        if isinstance(value, str) and HOLE in value:
            return True
        return bool(value)

    def truth(self, value: Value) -> bool:
        """The truth of a value, decided here when it is open; ``preferred`` is tried first."""
        known = self.known_truth(value)
        if known is not None:
            return known
        assert isinstance(value, Unknown | Symbol)
        answer = self._implied(value.name)
        if answer is None:
            answer = self.forced.get(value.name, self.preferred)
            self.trace[value.name] = answer
            if not self.preferred:
                self.refusals.add(value.name)
        self._narrow(value.name, answer)
        return answer

    def _implied(self, name: str) -> bool | None:
        """``not X`` follows from ``X``."""
        if name.startswith("not "):
            inner = self.trace.get(name[4:], self.forced.get(name[4:]))
            return None if inner is None else not inner
        return None

    def _narrow(self, name: str, answer: bool) -> None:
        """After ``x == "fa2"`` was taken as true, x is "fa2" for the rest of the run."""
        if name.startswith("not "):
            name, answer = name[4:], not answer
        left, separator, right = name.partition(" == ")
        if not separator:
            if left.isidentifier():
                self.narrowed[left] = answer
        elif answer and left.replace(".", "").replace("_", "").isalnum():
            self.narrowed[left] = _constant(right)

    def choose(self, asked: Value, keys: Collection[Value]) -> Value:
        """One of the keys that a table or list allows for an argument; ``explore`` takes the rest.

        Only for an argument of the explored function itself: any other key raises there.
        """
        if not (isinstance(asked, Unknown) and asked.name in self.parameters):
            return asked
        found = tuple(key for key in keys if _is_key(key))
        if not 0 < len(found) == len(keys) <= MAX_CHOICES:
            return asked
        self.early |= self.reads[asked.name] > 1
        self.choices.append(Choice(asked.name, found))
        self.narrowed[asked.name] = found[0]
        return found[0]

    # Modules and names.

    def module(self, name: str) -> Module | None:
        """A module of the tree by its dotted name, parsed once; None when it is not there."""
        if name not in self.modules:
            self.modules[name] = None
            stem = name.replace(".", "/")
            for path in (f"{stem}.py", f"{stem}/__init__.py"):
                if exists(self.tree, path):
                    self.modules[name] = self._parse(name, path)
                    break
        return self.modules[name]

    def _parse(self, name: str, path: str) -> Module | None:
        data = self.tree.read(path)
        if len(data) > MAX_SOURCE_BYTES:
            return None
        try:
            body = ast.parse(data).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        module = Module(name, path, {}, data.decode("utf-8", "replace"))
        for statement in _statements(body):
            for bound in _bound_names(statement):
                module.bindings.setdefault(bound, []).append(statement)
        return module

    def lookup(self, name: str, frame: Frame) -> Value:
        """A name as Python finds it: locals, enclosing functions, module, builtins."""
        holder = frame.find(name)
        if holder is not None:
            return holder.names[name]
        return self.module_value(frame.module, name)

    def module_value(self, module: Module, name: str) -> Value:
        """A module's global; containers are copied, so that no run changes another's."""
        full = f"{module.name}.{name}"
        if full in self.overrides:
            return self.overrides[full]
        if name == "__file__":
            return module.path
        if name not in module.values:
            if name not in module.bindings or name in module.pending:
                return self._submodule(module, name)
            module.pending.add(name)
            try:
                self._bind(module, name)
            finally:
                module.pending.discard(name)
        value = module.values.get(name, Unknown(full))
        return value.copy() if isinstance(value, list | dict | set) else value

    def _bind(self, module: Module, name: str) -> None:
        frame = Frame(module, module.values)
        for statement in module.bindings[name]:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self.import_names(statement, frame, only=name)
            else:
                self.execute([statement], frame)

    def _submodule(self, module: Module, name: str) -> Value:
        if module.path.endswith("/__init__.py") and self.module(f"{module.name}.{name}"):
            return self.modules[f"{module.name}.{name}"]
        if name in NAMES or EXCEPTIONS.match(name):
            return Symbol(name)
        return Unknown(f"{module.name}.{name}")

    def import_names(self, node: ast.Import | ast.ImportFrom, frame: Frame,
                     only: str | None = None) -> None:
        """Bind what an import binds: package modules, their names, or symbols."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.split(".")[0]
                source = alias.name if alias.asname else bound
                if only in (None, bound):
                    frame.names[bound] = self.module(source) or Symbol(source)
            return
        base = self._base(node, frame.module)
        for alias in node.names:
            bound = alias.asname or alias.name
            if only in (None, bound):
                frame.names[bound] = self._imported(base, alias.name)

    @staticmethod
    def _base(node: ast.ImportFrom, module: Module) -> str:
        parts = module.package.split(".")
        up = parts[:len(parts) - node.level + 1] if node.level else []
        return ".".join([*up, *([node.module] if node.module else [])])

    def _imported(self, base: str, name: str) -> Value:
        submodule = self.module(f"{base}.{name}")
        if submodule is not None:
            return submodule
        module = self.module(base)
        return self.module_value(module, name) if module else Symbol(f"{base}.{name}")


def _is_key(value: Value) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_key, value))
    return isinstance(value, int) or (isinstance(value, str) and HOLE not in value)


def _constant(text: str) -> Value:
    try:
        value: Value = ast.literal_eval(text)
        return value
    except (SyntaxError, ValueError):
        return Symbol(text)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Top-level statements, those under ``if`` and ``try`` included."""
    for statement in body:
        if isinstance(statement, ast.If | ast.Try):
            yield from _statements(statement.body)
            if isinstance(statement, ast.If):
                yield from _statements(statement.orelse)
        else:
            yield statement


def _bound_names(statement: ast.stmt) -> list[str]:
    """The globals a top-level statement binds or changes."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.split(".")[0] for alias in statement.names]
    if isinstance(statement, ast.Expr):
        call = statement.value
        if (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
                and call.func.attr in _MUTATORS and isinstance(call.func.value, ast.Name)):
            return [call.func.value.id]
        return []
    stored = []
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored.append(node.id)
        elif (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
              and isinstance(node.value, ast.Name)):
            stored.append(node.value.id)
    return list(dict.fromkeys(stored))

