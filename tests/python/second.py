"""A second opinion on one Python gate: Python itself runs the test, with stubs for the rest.

Only the expression of the gate runs, and what it names: definitions of capability tests in the
package's own source, each cut out and executed alone. Names that nothing explains answer by
chance, many times over. Nothing of a package is imported. ``apart.py`` runs this text in an
interpreter of its own, so it needs nothing but the standard library.
"""

from __future__ import annotations

import ast
import contextlib
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tests.python.stubs import Anything, Asked, Chance, parameter, world

if TYPE_CHECKING:
    from patcher.arch import Target

_DEPTH = 3
_TRIALS = 60
@dataclass
class Package:
    """The sources of one package, searched for definitions by name."""

    root: Path
    folder: str
    _trees: dict[str, ast.Module] = field(default_factory=dict)
    _places: dict[str, list[tuple[str, ast.stmt]]] = field(default_factory=dict)
    _locals: dict[tuple[str, str, int], list[ast.expr | ast.FunctionDef]] = field(
        default_factory=dict)

    def assigned(self, path: str, name: str, line: int) -> list[ast.expr | ast.FunctionDef]:
        key = path, name, line
        if key not in self._locals:
            self._locals[key] = _assigned(self.tree(path), name, line)
        return self._locals[key]

    def tree(self, path: str) -> ast.Module:
        if path not in self._trees:
            self._trees[path] = ast.parse((self.root / path).read_bytes())
        return self._trees[path]

    def index(self, paths: list[str]) -> None:
        """Definitions of functions and of names at the top level of these files."""
        for path in paths:
            for node in self.tree(path).body:
                names = [node.name] if isinstance(node, ast.FunctionDef) else [
                    t.id for t in _targets(node) if isinstance(t, ast.Name)]
                for name in names:
                    self._places.setdefault(name, []).append((path, node))
                for inner in node.body if isinstance(node, ast.ClassDef) else ():
                    if isinstance(inner, ast.FunctionDef):
                        self._places.setdefault(f".{inner.name}", []).append((path, inner))

    def index_readable(self, paths: list[str]) -> None:
        """The same, of those that are Python for this interpreter."""
        for path in paths:
            try:
                self.tree(path)
            except (SyntaxError, ValueError):
                continue
            self.index([path])

    def methods(self, name: str) -> list[tuple[str, ast.stmt]]:
        """The methods of that name in any class."""
        return self._places.get(f".{name}", [])

    def defined(self, name: str, path: str) -> tuple[str, ast.stmt | None]:
        """Where a name of that file is defined: in it, or wherever the package does."""
        places = self._places.get(name, [])
        own = [place for place in places if place[0] == path]
        return own[-1] if own else places[0] if places else (path, None)


class Names(dict[str, Any]):
    """Global names of an expression: stubs, then the source's own definitions, then anything."""

    def __init__(self, package: Package, path: str, line: int, target: Target, chance: Random,
                 depth: int = 0, above: Names | None = None) -> None:
        super().__init__(world(target, chance))
        self._at = package, path, line, target, chance, depth
        self.found: list[bool] = above.found if above else []
        self["__same__"], self["__table__"] = _same, self._table
        # else eval and exec put in their own; what is imported may be anything
        self["__builtins__"] = {"__import__": lambda *_: Anything(chance)}

    def _table(self, plain: dict[Any, Any]) -> Asked:
        table = Asked(plain)
        table.found = self.found
        return table

    def __missing__(self, name: str) -> Any:
        package, path, line, target, chance, depth = self._at
        if name in _PLAIN:
            return _PLAIN[name]
        if depth > _DEPTH:
            return Anything(chance)
        inner = Names(package, path, line, target, chance, depth + 1, self)
        if name in ("self", "cls"):
            return Own(inner, _around(package.tree(path), line, ast.ClassDef))
        local = package.assigned(path, name, line)
        if local:
            one = chance.choice(local)  # whichever branch was taken
            return _function(one, inner) if isinstance(one, ast.FunctionDef) else _run(one, inner)
        where, node = package.defined(name, path)
        if node is None:
            given = parameter(name, target)
            return Anything(chance) if given is None else given
        there = Names(package, where, node.end_lineno or 0, target, chance, depth + 1, self)
        if isinstance(node, ast.FunctionDef):
            return _function(node, there)
        value = getattr(node, "value", None)
        if not isinstance(value, ast.expr):
            return Anything(chance)
        later = isinstance(value, ast.Constant) and value.value is None and chance.random() < 0.5
        return Anything(chance) if later else _run(value, there)  # None: some function sets it


class Own:
    """``self``: methods and attributes as the class around the gate writes them."""

    def __init__(self, names: Names, around: list[ast.ClassDef]) -> None:
        self.__dict__["_names"], self.__dict__["_classes"] = names, around

    def __getattr__(self, name: str) -> Any:
        package = self._names._at[0]
        others = [node for _, node in package.methods(name)]
        for node in [*(n for c in self._classes for n in ast.walk(c)), *others]:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                made = _function(node, self._names)
                said = " ".join(map(ast.unparse, node.decorator_list))
                if "property" in said:
                    return made(self)
                return made if "static" in said else partial(made, self)
        _, path, _, target, chance, depth = self._names._at
        given = [n for c in self._classes for n in ast.walk(c) if _gives(n, name)]
        if not given:
            return Anything(chance)
        node = chance.choice(given)  # whichever method was last
        return _run(node.value, Names(package, path, node.lineno, target, chance, depth + 1,
                                      self._names))


def _targets(node: ast.AST) -> list[ast.expr]:
    """What an assignment with a value gives it to."""
    if isinstance(node, ast.AnnAssign):
        return [node.target] if node.value else []
    return node.targets if isinstance(node, ast.Assign) else []


def _gives(node: ast.AST, name: str) -> bool:
    return any((isinstance(t, ast.Attribute) and t.attr == name)
               or (isinstance(t, ast.Name) and t.id == name) for t in _targets(node))


def _around(tree: ast.Module, line: int, kind: type[ast.ClassDef]) -> list[ast.ClassDef]:
    return sorted((n for n in ast.walk(tree) if isinstance(n, kind)
                   and n.lineno <= line <= (n.end_lineno or 0)), key=lambda n: -n.lineno)


def _kept(function: Any = None, **keywords: object) -> Any:
    """lru_cache and the like: what is cached answers the same."""
    return function if callable(function) else lambda inner: inner


_PLAIN: dict[str, Any] = {
    "any": any, "all": all, "int": int, "str": str, "bool": bool, "tuple": tuple, "list": list,
    "set": set, "frozenset": frozenset, "len": len, "min": min, "max": max, "map": map,
    "sorted": sorted, "range": range, "isinstance": isinstance, "True": True, "False": False,
    "getattr": getattr, "zip": zip, "sum": sum, "abs": abs, "float": float, "dict": dict,
    **{error.__name__: error for error in (
        Exception, ValueError, TypeError, RuntimeError, ImportError, KeyError, AttributeError,
        AssertionError, NotImplementedError)},
    "lru_cache": _kept, "cache": _kept, "partial": partial,
    "functools": SimpleNamespace(lru_cache=_kept, cache=_kept, partial=partial),
}


def _run(node: ast.expr, names: Names) -> Any:
    return eval(_compiled(node), names)


class _Chancy(ast.NodeTransformer):
    """``x is None`` of an ``Anything`` is by chance, and tables note what they are asked."""

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Is | ast.IsNot):
            return node
        call = ast.Call(ast.Name("__same__", ast.Load()), [node.left, *node.comparators], [])
        return call if isinstance(node.ops[0], ast.Is) else ast.UnaryOp(ast.Not(), call)

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        return ast.Call(ast.Name("__table__", ast.Load()), [node], [])


def _same(left: object, right: object) -> Any:
    return left.may_be(right) if isinstance(left, Anything) else left is right


@cache
def _compiled(node: ast.expr) -> Any:
    tree = _Chancy().visit(ast.parse(ast.unparse(node), mode="eval"))
    return compile(ast.fix_missing_locations(tree), "gate", "eval")


def _function(node: ast.FunctionDef, names: Names) -> Any:
    """The one function, without its decorators and annotations; without ``__import__``, too."""
    exec(_body(node), names)
    made = names.pop(node.name)
    chance = names._at[4]

    def call(*args: object, **keywords: object) -> Any:
        try:
            return made(*args, **keywords)
        except Exception:  # noqa: BLE001 - what it needs is not here: it may answer anything
            return Anything(chance)

    return call


@cache
def _body(node: ast.FunctionDef) -> Any:
    copy = ast.parse(ast.unparse(node)).body[0]
    assert isinstance(copy, ast.FunctionDef)
    copy.decorator_list, copy.returns = [], None
    for argument in [*copy.args.args, *copy.args.kwonlyargs]:
        argument.annotation = None
    copy.args.defaults = [ast.Constant(None) for _ in copy.args.args]
    tree = _Chancy().visit(ast.Module([copy], []))
    return compile(ast.fix_missing_locations(tree), "gate", "exec")


def _assigned(tree: ast.Module, name: str, line: int) -> list[ast.expr | ast.FunctionDef]:
    """What a name may be at a line of the innermost function that gives it something: the last
    plain assignment in the function's own block, and those in branches after that."""
    around = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)
              and n.lineno <= line <= (n.end_lineno or 0)]
    for scope in sorted(around, key=lambda n: -n.lineno):
        found: list[ast.expr | ast.FunctionDef] = []
        for node in sorted(_inside(scope), key=lambda n: n.lineno):
            given = node if isinstance(node, ast.FunctionDef) and node.name == name \
                else _part_of(node, name)
            if given is not None and node.lineno < line:
                found = [given] if node in scope.body else [*found, given]
        if found:
            return found
    return []


def _inside(scope: ast.FunctionDef) -> list[ast.stmt]:
    return [n for n in ast.walk(scope) if isinstance(n, ast.stmt) and n is not scope]


def _part_of(node: ast.stmt, name: str) -> ast.expr | None:
    value = getattr(node, "value", None)
    for target in _targets(node):
        assert isinstance(value, ast.expr)
        if isinstance(target, ast.Name) and target.id == name:
            return value
        for position, one in enumerate(target.elts if isinstance(target, ast.Tuple) else ()):
            if isinstance(one, ast.Name) and one.id == name:
                return ast.Subscript(value, ast.Constant(position), ast.Load())
    return None


def answers(package: Package, path: str, line: int, expression: str, target: Target,
            trials: int = _TRIALS) -> set[bool]:
    """What the expression can be on a target, with everything unexplained left to chance."""
    node = ast.parse(expression, mode="eval").body
    found: set[bool] = set()
    for seed in range(trials):
        try:
            found.add(bool(_run(node, Names(package, path, line, target, Chance(seed)))))
        except (KeyError, IndexError):
            found.add(False)  # a missing key: control does not go on
        except (TypeError, AttributeError, ValueError):
            continue  # chance gave a value of another kind
        if len(found) == 2:
            break
    return found


def lookups(package: Package, path: str, line: int, expression: str, target: Target,
            trials: int = _TRIALS) -> set[bool]:
    """Whether the tables that the expression asks have what it asks for on a target."""
    node = ast.parse(expression, mode="eval").body
    found: set[bool] = set()
    for seed in range(trials):
        names = Names(package, path, line, target, Chance(seed))
        with contextlib.suppress(KeyError, IndexError, TypeError, AttributeError, ValueError):
            _run(node, names)
        found |= set(names.found[:1])
    return found


def literals(package: Package, path: str, line: int, expression: str, target: Target) -> list[Any]:
    """The numbers and texts in what an expression is, through lists of lists."""
    node = ast.parse(expression, mode="eval").body
    try:
        stack = [_run(node, Names(package, path, line, target, Chance(0)))]
    except (KeyError, IndexError, TypeError, AttributeError, ValueError):
        return []
    found: list[Any] = []
    while stack:
        value = stack.pop()
        if isinstance(value, int | str):
            found.append(value)
        elif isinstance(value, list | tuple | set | frozenset | dict):
            stack += value
    return found
