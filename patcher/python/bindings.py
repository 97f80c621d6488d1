"""Where names of one module, class or function get their values (syntax only)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class How(Enum):
    ASSIGN = "assign"
    IMPORT = "import"
    DEFINITION = "definition"
    OPAQUE = "opaque"  # loop variables, ``with`` targets, ``del``, augmented assignment


@dataclass(frozen=True, slots=True)
class Binding:
    """One place that binds a name.

    ``node`` is the assigned expression, the definition or the import;
    ``path`` leads through tuple targets (``major, _ = f()`` binds major at 0);
    ``sure`` is true in the body of the scope itself, not in a branch.
    """

    how: How
    node: ast.AST
    line: int
    path: tuple[int, ...] = ()
    sure: bool = False
    imported: str = ""  # the name in the other module, "" for the module itself


Bindings = dict[str, list[Binding]]
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def collect(body: list[ast.stmt], *, walrus: bool = False) -> Bindings:
    """All bindings in a body, without those of nested functions and classes.

    ``walrus`` says that the file has assignment expressions, which are slow to look for.
    """
    found: Bindings = {}
    for statement in body:
        for name, binding in _of_statement(statement, True, walrus):
            found.setdefault(name, []).append(binding)
    return found


def _of_statement(statement: ast.stmt, sure: bool, walrus: bool) -> Iterator[tuple[str, Binding]]:
    """Bindings of a statement and of all statements inside it; a stack, as ladders run deep."""
    stack = [(statement, sure)]
    while stack:
        node, sure = stack.pop()
        yield from _simple(node, sure)
        if walrus:
            yield from _walruses(node)
        if isinstance(node, _SCOPES):
            continue
        inner = sure and isinstance(node, ast.With | ast.AsyncWith)
        children: list[ast.stmt] = []
        for field in ("body", "orelse", "finalbody"):
            children += getattr(node, field, [])
        for handler in getattr(node, "handlers", []):
            children += handler.body
        for case in getattr(node, "cases", []):
            children += case.body
        stack += [(child, inner) for child in reversed(children)]


def _simple(node: ast.stmt, sure: bool) -> Iterator[tuple[str, Binding]]:
    line = node.lineno
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name, Binding(How.DEFINITION, node, line, sure=sure)
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            for name, path in _targets(target):
                yield name, Binding(How.ASSIGN, node.value, line, path, sure)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        for name, path in _targets(node.target):
            yield name, Binding(How.ASSIGN, node.value, line, path, sure)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from _imports(node, sure)
    elif isinstance(node, ast.For | ast.AsyncFor | ast.AugAssign):
        yield from _opaque(node.target, line)
    elif isinstance(node, ast.With | ast.AsyncWith):
        for item in node.items:
            yield from _opaque(item.optional_vars, line)


def _imports(node: ast.Import | ast.ImportFrom, sure: bool) -> Iterator[tuple[str, Binding]]:
    whole = isinstance(node, ast.Import)
    for alias in node.names:
        top = alias.name.split(".")[0] if whole else alias.name
        imported = alias.name if alias.asname else top
        yield alias.asname or top, Binding(How.IMPORT, node, node.lineno, sure=sure,
                                           imported=imported)


def _walruses(node: ast.stmt) -> Iterator[tuple[str, Binding]]:
    root = getattr(node, "test", None) or getattr(node, "value", None)
    if root is None:
        return
    stack: list[ast.AST] = [root]
    while stack:
        here = stack.pop()
        if isinstance(here, ast.NamedExpr):
            yield here.target.id, Binding(How.ASSIGN, here.value, node.lineno)
        if not isinstance(here, ast.Lambda):
            stack += ast.iter_child_nodes(here)


def _opaque(target: ast.expr | None, line: int) -> Iterator[tuple[str, Binding]]:
    if target is None:
        return
    for name, path in _targets(target):
        yield name, Binding(How.OPAQUE, target, line, path)


def _targets(target: ast.expr, path: tuple[int, ...] = ()) -> Iterator[tuple[str, tuple[int, ...]]]:
    if isinstance(target, ast.Name):
        yield target.id, path
    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        yield f"{target.value.id}.{target.attr}", path
    elif isinstance(target, ast.Tuple | ast.List):
        starred = False
        for position, item in enumerate(target.elts):
            starred = starred or isinstance(item, ast.Starred)
            if not starred:
                yield from _targets(item, (*path, position))
