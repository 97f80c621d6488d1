"""Add a flag to a list in build code: Python here, CMake in its own module.

Whether the flag is there is decided by evaluating the list, not by looking for
the text: through ``+``, ``+=`` and names of the function and the module. A flag
that is only added under a condition is not there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from patcher.edits import Edit, Span
from patcher.operations import cmake
from patcher.operations.base import Evidence, Finding, Outcome
from patcher.operations.region import offsets_of
from patcher.patchset.schema import Flag
from patcher.python.index import parse
from patcher.tree import Tree

_MACRO = re.compile(r"-D\s*(\w+)(?:=(.*))?$", re.S)
_MAX_DEPTH = 8  # names that lead to names


@dataclass(frozen=True, slots=True)
class Site:
    """One place where the list gets a value: what it holds, and the edits that add a flag."""

    present: Sequence[str]
    edits: Callable[[str], tuple[Edit, ...]]


def find(operation: Flag, source: Tree) -> Finding:
    """The edits that add the flag, or why there are none."""
    file, place = operation.file, f"{operation.file} {operation.within}".strip()
    try:
        data = source.read(file)
    except FileNotFoundError:
        return Finding(Outcome.MISSING, f"{file} is not in this package", files=(file,))
    try:
        every = _cmake_sites(data, operation) if cmake.is_cmake(file) else _sites(data, operation)
    except ValueError as error:
        return Finding(Outcome.CONFLICT, f"{file} {error}; not applied", files=(file,))
    sites = [site for site in every if not operation.holds or operation.holds in site.present]
    if len(sites) != operation.count:
        return Finding(Outcome.CONFLICT, f"{place}: {_miscounted(operation, len(sites))}",
                       evidence=Evidence.GATES if sites else Evidence.ABSENCE, files=(file,))
    lacking = [site for site in sites if operation.flag not in site.present]
    if not lacking:
        return Finding(Outcome.NOT_NEEDED, f"{place}: {operation.list} has {operation.flag}",
                       files=(file,))
    if len(lacking) != len(sites):
        return Finding(Outcome.CONFLICT, f"{place}: only {len(lacking)} of {len(sites)} lists "
                       f"{operation.list!r} lack {operation.flag}", files=(file,))
    for flag in (flag for site in sites for flag in site.present):
        if _same_macro(flag, operation.flag):
            return Finding(Outcome.CONFLICT, f"{place}: {operation.list} has {flag}",
                           files=(file,))
    try:
        edits = tuple(edit for site in sites for edit in site.edits(operation.flag))
    except ValueError as error:
        return Finding(Outcome.CONFLICT, f"{place}: {error}", files=(file,))
    return Finding(Outcome.APPLICABLE, "", {file: edits}, files=(file,))


def _miscounted(operation: Flag, count: int) -> str:
    holding = f" that holds {operation.holds}" if operation.holds else ""
    advice = ("" if operation.holds else "; name the function in 'within', "
              "or an element of the right list in 'holds'")
    return (f"{operation.list!r}{holding} gets a value in {count} places, "
            f"expected {operation.count}{advice}")


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


def _cmake_sites(data: bytes, operation: Flag) -> list[Site]:
    return [Site(found.elements, found.insertion)
            for found in cmake.lists(data, operation.list, operation.within)]


def _sites(data: bytes, operation: Flag) -> list[Site]:
    tree = parse(data)
    if tree is None:
        raise ValueError("is not Python that parses")
    found: list[Site] = []
    scopes = functions(tree, operation.within) if operation.within else iter([tree])
    for scope in scopes:
        for node in ast.walk(scope):
            for value in _values_given(node, operation):
                present = tuple(_flags(value, scope, tree))
                found.append(Site(present, _Insertion(data, value)))
    return found


def _values_given(node: ast.AST, operation: Flag) -> Iterator[ast.expr]:
    """What the list is given here; what it grows by only for who names an element of it."""
    name = operation.list
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(t, ast.Name) and t.id == name for t in targets):
            yield node.value
    elif isinstance(node, ast.keyword) and node.arg == name:
        yield node.value
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == name:
                yield value
    elif operation.holds and isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        if isinstance(node.target, ast.Name) and node.target.id == name:
            yield node.value
    elif operation.holds and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = node.func.value
        if isinstance(owner, ast.Name) and owner.id == name and node.func.attr == "extend":
            yield from node.args


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
        elif isinstance(part, ast.List | ast.Tuple | ast.Set):
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


@dataclass(frozen=True, slots=True)
class _Insertion:
    """Adds an element behind the last one of a value, in the way that one is written."""

    data: bytes
    value: ast.expr

    def __call__(self, flag: str) -> tuple[Edit, ...]:
        literal = _last_list(self.value)
        if literal is None:
            end = offsets_of(self.data, self.value)[1]
            return (Edit(Span(end, end), f' + ["{flag}"]'.encode()),)
        start, end = offsets_of(self.data, literal)
        if not literal.elts:
            comma = "," if isinstance(literal, ast.Tuple) else ""
            return (Edit(Span(start + 1, start + 1), f'"{flag}"{comma}'.encode()),)
        return self._behind(literal, literal.elts[-1], end, flag)

    def _behind(self, literal: ast.List | ast.Tuple | ast.Set, last: ast.expr, end: int,
                flag: str) -> tuple[Edit, ...]:
        data = self.data
        first_byte, behind = offsets_of(data, last)
        # parentheses around the element are no part of its syntax node
        behind += _match(rb"(?:(?:\s|#[^\n]*)*\))*", data[behind:end - 1])
        quote = data[first_byte:first_byte + 1].decode("latin-1")
        text = (f"'{flag}'" if quote == "'" else f'"{flag}"').encode()
        if last.lineno == literal.lineno:
            return (Edit(Span(behind, behind), b", " + text),)
        comma = _match(rb"(?:\s|#[^\n]*)*,", data[behind:end])
        line_start = data.rfind(b"\n", 0, first_byte) + 1
        indent = data[line_start:line_start + _match(rb"[ \t]*", data[line_start:])]
        newline = b"\r\n" if data[:line_start].endswith(b"\r\n") else b"\n"
        # a comment behind the last element stays with it
        place = behind + comma
        place += _match(rb"[ \t]*#[^\r\n]*", data[place:end])
        added = newline + indent + text + b","
        if comma or place == behind:
            return (Edit(Span(place, place), (b"" if comma else b",") + added),)
        return Edit(Span(behind, behind), b","), Edit(Span(place, place), added)


def _match(pattern: bytes, data: bytes) -> int:
    """How many bytes at the start match."""
    found = re.match(pattern, data)
    return found.end() if found else 0


def _last_list(value: ast.expr) -> ast.List | ast.Tuple | ast.Set | None:
    """The last list literal of a ``+`` chain."""
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, ast.List | ast.Tuple | ast.Set):
            return part
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
            stack += [part.left, part.right]
    return None
