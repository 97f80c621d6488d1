"""Questions about syntax that need no values: where a node stands, what it says, what refuses."""

from __future__ import annotations

import ast
import re
import tokenize
from io import BytesIO

from patcher.edits import Edit, Span
from patcher.python.index import Class, Module
from patcher.python.scope import Scope

Parents = dict[ast.AST, ast.AST]
_QUIET_CALLS = re.compile(r"\b(?:log(?:ger|ging)?|warnings?|print|rank0_log|debug|info)\b")


def parents_of(tree: ast.AST) -> Parents:
    """Each node's parent."""
    found: Parents = {}
    stack = [tree]
    while stack:
        node = stack.pop()
        for child in ast.iter_child_nodes(node):
            found[child] = node
            stack.append(child)
    return found


def chain(node: ast.AST, parents: Parents) -> list[ast.AST]:
    """The enclosing functions and classes, outermost first."""
    found: list[ast.AST] = []
    here = parents.get(node)
    while here is not None:
        if isinstance(here, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.append(here)
        here = parents.get(here)
    return found[::-1]


def qualified(nodes: list[ast.AST]) -> str:
    """``Class.method`` for a chain of definitions."""
    return ".".join(getattr(node, "name", "") for node in nodes)


def stands_within(name: str, within: str) -> bool:
    """True when the qualified name is ``within``, ends with it, or lies inside of it."""
    return not within or f".{within}." in f".{name}."


def scope_at(module: Module, outermost: Scope, nodes: list[ast.AST]) -> Scope:
    """The scope of an expression inside a chain of definitions."""
    scope, owner = outermost, None
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            owner = Class(node, module)
            scope = Scope(module, None, owner, scope)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            base = scope if scope.node is not None else outermost
            scope = Scope(module, node, owner, base)
            owner = None
    return scope


def canonical(node: ast.expr) -> str:
    """The expression's text without white space, redundant parentheses, quote style, and
    with the operands of ``and`` and ``or`` in one order."""
    return ast.unparse(_Sorted().visit(_copy(node)))


def _copy(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


class _Sorted(ast.NodeTransformer):
    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        flat: list[ast.expr] = []
        for value in node.values:
            same = isinstance(value, ast.BoolOp) and type(value.op) is type(node.op)
            flat += value.values if same and isinstance(value, ast.BoolOp) else [value]
        node.values = sorted(flat, key=ast.unparse)
        return node


def refuses(body: list[ast.stmt]) -> str:
    """How a block does nothing but refuse: ``raise``, ``return`` (nothing useful), or ``""``."""
    for statement in body:
        if isinstance(statement, ast.Expr) and _is_quiet(statement.value):
            continue
        if isinstance(statement, ast.Raise):
            return "raise"
        if isinstance(statement, ast.Return):
            return "return" if _is_nothing(statement.value) else ""
        if isinstance(statement, ast.Assert):
            constant = isinstance(statement.test, ast.Constant) and not statement.test.value
            return "raise" if constant else ""
        return ""
    return ""


def _is_quiet(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return True
    return isinstance(value, ast.Call) and bool(_QUIET_CALLS.search(ast.unparse(value.func)))


def _is_nothing(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Tuple):  # ``return False, "reason"``
        return bool(value.elts) and _is_nothing(value.elts[0])
    if isinstance(value, ast.Constant):
        return value.value is None or value.value is False
    return value is None or (isinstance(value, ast.Name) and value.id == "NotImplemented")


def is_positive(node: ast.AST, parents: Parents) -> bool:
    """True when control reaches the feature where the expression is true; false when it is
    reached where it is false (``not``, or a test whose arm only refuses)."""
    positive = True
    here, above = node, parents.get(node)
    while above is not None:
        if isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not):
            positive = not positive
        elif isinstance(above, (ast.If, ast.While)):
            arm = bool(refuses(above.body)) and not refuses(above.orelse)
            return positive != (here is above.test and arm)
        elif isinstance(above, ast.IfExp):
            arm = _is_nothing(above.body) and not _is_nothing(above.orelse)
            return positive != (here is above.test and arm)
        elif not isinstance(above, ast.BoolOp):
            return positive
        here, above = above, parents.get(above)
    return positive


class Text:
    """A source file as text, with the way back from syntax positions to byte offsets."""

    def __init__(self, source: bytes) -> None:
        """Raises UnicodeError, SyntaxError or LookupError when the bytes are no Python text."""
        self.source = source
        self.encoding, _ = tokenize.detect_encoding(BytesIO(source).readline)
        self.text = source.decode(self.encoding)
        if self.text.encode(self.encoding) != source:
            raise UnicodeError("does not survive decoding")
        self._starts = [0, *(m.end() for m in re.finditer(r"\r\n|\r|\n", self.text))]
        self.newline = "\r\n" if "\r\n" in self.text else "\n"

    def offset(self, line: int, column: int) -> int:
        """Character offset of an ast position (column in UTF-8 bytes)."""
        start = self._starts[line - 1]
        end = self._starts[line] if line < len(self._starts) else len(self.text)
        row = self.text[start:end].encode("utf-8")
        return start + len(row[:column].decode("utf-8", "ignore"))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Character offsets of a node."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end, end_column = getattr(node, "end_lineno", line), getattr(node, "end_col_offset", column)
        return self.offset(line, column), self.offset(end, end_column)

    def segment(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def edit(self, start: int, end: int, new: str) -> Edit:
        """Replace characters, trimmed to what really changes."""
        old = self.text[start:end]
        head = 0
        while head < min(len(old), len(new)) and old[head] == new[head]:
            head += 1
        tail = 0
        while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
            tail += 1
        return Edit(Span(self._byte(start + head), self._byte(end - tail)),
                    new[head:len(new) - tail].encode(self._plain))

    @property
    def _plain(self) -> str:
        return "utf-8" if self.encoding == "utf-8-sig" else self.encoding

    def _byte(self, position: int) -> int:
        mark = 3 if self.encoding == "utf-8-sig" else 0
        return mark + len(self.text[:position].encode(self._plain))
