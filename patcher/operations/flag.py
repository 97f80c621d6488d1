"""Add a compiler flag to a list in Python build code.

Whether the flag is there is decided by evaluating the list, not by looking for
the text: through ``+``, ``+=`` and names of the function and the module. A flag
that is only added under a condition is not there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from patcher.edits import Edit, Span
from patcher.operations.base import Evidence, Finding, Outcome
from patcher.operations.region import offsets_of
from patcher.patchset.schema import Flag
from patcher.python.index import parse
from patcher.tree import Tree

_MACRO = re.compile(r"-D\s*(\w+)(?:=(.*))?$", re.S)
_MAX_DEPTH = 8  # names that lead to names


@dataclass(frozen=True, slots=True)
class Site:
    """The one place where the list gets its value."""

    value: ast.expr
    scope: ast.AST


def find(operation: Flag, source: Tree) -> Finding:
    """The edit that adds the flag, or why there is none."""
    file, place = operation.file, f"{operation.file} {operation.within}".strip()
    try:
        data = source.read(file)
    except FileNotFoundError:
        return Finding(Outcome.MISSING, f"{file} is not in this package", files=(file,))
    tree = parse(data)
    if tree is None:
        return Finding(Outcome.CONFLICT, f"{file} is not Python that parses; not applied",
                       files=(file,))
    sites = list(_sites(tree, operation))
    if len(sites) != 1:
        return Finding(Outcome.CONFLICT, f"{place}: {operation.list!r} gets a value in "
                       f"{len(sites)} places, expected 1; name the function in 'within'",
                       evidence=Evidence.GATES if sites else Evidence.ABSENCE, files=(file,))
    present = list(_flags(sites[0].value, sites[0].scope, tree))
    if operation.flag in present:
        return Finding(Outcome.NOT_NEEDED, f"{place}: {operation.list} has {operation.flag}",
                       files=(file,))
    rival = next((flag for flag in present if _same_macro(flag, operation.flag)), None)
    if rival:
        return Finding(Outcome.CONFLICT, f"{place}: {operation.list} has {rival}", files=(file,))
    edit = _insertion(data, sites[0].value, operation.flag)
    return Finding(Outcome.APPLICABLE, "", {file: (edit,)}, files=(file,))


def _same_macro(one: str, other: str) -> bool:
    first, second = _MACRO.match(one), _MACRO.match(other)
    return bool(first and second and first[1] == second[1])


def functions(tree: ast.Module, name: str) -> Iterator[ast.AST]:
    """Every function or class called ``name``, ``Class.method`` included."""
    stack: list[tuple[ast.AST, str]] = [(tree, "")]
    while stack:
        node, scope = stack.pop()
        for child in ast.iter_child_nodes(node):
            inner = scope
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{scope}.{child.name}"
                if inner.endswith(f".{name}"):
                    yield child
            stack.append((child, inner))


def _sites(tree: ast.Module, operation: Flag) -> Iterator[Site]:
    scopes = functions(tree, operation.within) if operation.within else iter([tree])
    for scope in scopes:
        for node in ast.walk(scope):
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(t, ast.Name) and t.id == operation.list for t in targets):
                    yield Site(node.value, scope)
            elif isinstance(node, ast.keyword) and node.arg == operation.list:
                yield Site(node.value, scope)


def _flags(value: ast.expr, scope: ast.AST, tree: ast.AST, depth: int = 0) -> Iterator[str]:
    """The strings that the list holds whatever happens at run time."""
    for part in _parts(value):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
        elif isinstance(part, ast.Name) and depth < _MAX_DEPTH:
            for inner in _values_of(part.id, scope) or _values_of(part.id, tree):
                yield from _flags(inner, scope, tree, depth + 1)


def _parts(value: ast.expr) -> Iterator[ast.expr]:
    """What ``+``, list displays and ``*`` put together, from the left; a stack, no recursion."""
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
            stack += [part.right, part.left]
        elif isinstance(part, ast.List | ast.Tuple):
            stack += reversed(part.elts)
        elif isinstance(part, ast.Starred):
            stack.append(part.value)
        else:
            yield part


def _values_of(name: str, scope: ast.AST) -> list[ast.expr]:
    """What is assigned and added to a name by the unconditional statements of a scope."""
    found = []
    for node in getattr(scope, "body", []):
        if isinstance(node, ast.Assign):
            targets: list[ast.expr] = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        else:
            continue
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            assert node.value is not None
            found.append(node.value)
    return found


def _insertion(data: bytes, value: ast.expr, flag: str) -> Edit:
    literal = _last_list(value)
    if literal is None:
        _, end = offsets_of(data, value)
        return Edit(Span(end, end), f' + ["{flag}"]'.encode())
    start, end = offsets_of(data, literal)
    if not literal.elts:
        return Edit(Span(start + 1, start + 1), f'"{flag}"'.encode())
    last = literal.elts[-1]
    first_byte, behind = offsets_of(data, last)
    quote = data[first_byte:first_byte + 1].decode("latin-1")
    text = f"'{flag}'" if quote == "'" else f'"{flag}"'
    comma = re.match(rb"(?:\s|#[^\n]*)*,", data[behind:end])
    if last.lineno == literal.lineno:
        return Edit(Span(behind, behind), f", {text}".encode())
    line_start = data.rfind(b"\n", 0, first_byte) + 1
    indent = re.match(rb"[ \t]*", data[line_start:])
    assert indent
    newline = b"\r\n" if data[:line_start].endswith(b"\r\n") else b"\n"
    place = behind + (comma.end() if comma else 0)
    lead = b"" if comma else b","
    return Edit(Span(place, place), lead + newline + indent[0] + text.encode() + b",")


def _last_list(value: ast.expr) -> ast.List | None:
    """The last list literal of a ``+`` chain."""
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, ast.List):
            return part
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
            stack += [part.left, part.right]
    return None
