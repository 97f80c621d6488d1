"""Where in a file an anchor may stand: function bodies, and what is not code.

Works on bytes of Python and of C-like files without parsing the latter: comments
and literals are blanked, then braces are matched.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice

from patcher.edits import Span
from patcher.python.index import parse

_C_OPAQUE = re.compile(
    rb"//(?:\\\r?\n|[^\n])*|/\*.*?(?:\*/|\Z)"
    rb'|\b(?:u8|[uUL])?R"(?P<mark>[^()\s\\]{0,16})\(.*?(?:\)(?P=mark)"|\Z)'
    rb'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
_MAX_CALLS = 1_000  # places where a function's name is followed by a parenthesis
_MAX_HEAD = 4_000  # bytes of a parameter list
_DIGIT_MARK = re.compile(rb"[0-9a-fA-F]\Z")


_ASCII = bytes(code if code < 128 else ord("x") for code in range(256))


def is_python(path: str) -> bool:
    return path.endswith((".py", ".pyi"))


def without_code(path: str, data: bytes) -> list[Span]:
    """Comments and, in Python, docstrings: text in them is never an anchor.

    Python that does not parse has none: the caller's own check refuses it.
    """
    if not is_python(path):
        return [span for span, comment in _opaque(data) if comment]
    tree = parse(data)
    if tree is None:
        return []
    lines = _line_starts(data)
    strings = [_ast_span(node, lines) for node in ast.walk(tree)
               if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
               and isinstance(node.value.value, str)]
    return _disjoint([*strings, *_python_comments(data)])


def _python_comments(data: bytes) -> Iterator[Span]:
    starts = _line_starts(data)
    text = data.translate(_ASCII).decode()  # a comment in any encoding, at its place in bytes
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                start = starts[row - 1] + column
                yield Span(start, start + len(token.string))
    except (tokenize.TokenError, SyntaxError, IndexError):
        return


def function_spans(path: str, data: bytes, name: str) -> list[Span]:
    """Every definition of ``name`` (``Class.method`` or ``ns::name`` narrows it), head included."""
    if is_python(path):
        return _disjoint(_python_functions(data, name))
    return _disjoint(_c_functions(data, re.split(r"::|\.", name)[-1].encode()))


def _disjoint(spans: list[Span]) -> list[Span]:
    """The outermost of nested spans, in order."""
    found: list[Span] = []
    for span in sorted(spans):
        if not found or span.end > found[-1].end:
            found.append(span)
    return found


def inside(span: Span, spans: list[Span]) -> bool:
    """True when ``span`` lies wholly in one of ``spans``, which are disjoint and in order."""
    index = bisect_right(spans, span.start, key=lambda s: s.start) - 1
    return index >= 0 and span.end <= spans[index].end


def line_of(data: bytes, offset: int) -> int:
    """The 1-based line of a byte offset."""
    return data.count(b"\n", 0, offset) + 1


def _line_starts(data: bytes) -> list[int]:
    first = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    return [first, *(match.end() for match in re.finditer(rb"\r\n|\r|\n", data))]


def offsets_of(data: bytes, node: ast.stmt | ast.expr) -> tuple[int, int]:
    """The byte offsets of a syntax node."""
    span = _ast_span(node, _line_starts(data))
    return span.start, span.end


def _ast_span(node: ast.stmt | ast.expr, lines: list[int]) -> Span:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return Span(lines[node.lineno - 1] + node.col_offset,
                lines[node.end_lineno - 1] + node.end_col_offset)


def _python_functions(data: bytes, name: str) -> list[Span]:
    tree = parse(data)
    if tree is None:
        return []
    lines, found = _line_starts(data), []
    stack: list[tuple[ast.AST, str]] = [(tree, "")]
    while stack:
        node, scope = stack.pop()
        for child in ast.iter_child_nodes(node):
            inner = scope
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{scope}.{child.name}"
                if inner.endswith(f".{name}"):
                    found.append(_ast_span(child, lines))
            stack.append((child, inner))
    return found


def _opaque(data: bytes) -> Iterator[tuple[Span, bool]]:
    """Comments (True) and literals (False)."""
    for match in _C_OPAQUE.finditer(data):
        text = match[0]
        if text[:1] == b"'" and _DIGIT_MARK.search(data[max(0, match.start() - 1):match.start()]):
            continue  # 1'000'000
        yield Span(*match.span()), text[:2] in (b"//", b"/*")


def blanked(data: bytes) -> bytes:
    """The C-like text with comments and literals as spaces; offsets stay."""
    pieces, position = [], 0
    for span, _ in _opaque(data):
        hole = re.sub(rb"[^\n]", b" ", data[span.start:span.end])
        pieces += [data[position:span.start], hole]
        position = span.end
    return b"".join([*pieces, data[position:]])


def _c_functions(data: bytes, name: bytes) -> list[Span]:
    code, found = blanked(data), []
    calls = re.finditer(rb"(?<!\w)" + re.escape(name) + rb"\s*\(", code)
    for match in islice(calls, _MAX_CALLS):
        close = _matching(code, match.end() - 1, b"(", b")", _MAX_HEAD)
        brace = code.find(b"{", close) if close else -1
        # between the parameters and the body stand qualifiers and initialisers, never ; or =
        if brace < 0 or not re.fullmatch(rb"[\w\s:,()<>&*\[\]-]*", code[close:brace]):
            continue
        end = _matching(code, brace, b"{", b"}")
        if not end:
            break  # nothing behind it balances either
        found.append(Span(match.start(), end))
    return found


def _matching(code: bytes, start: int, opening: bytes, closing: bytes,
              within: int | None = None) -> int:
    """The offset behind the bracket that closes the one at ``start``, at most ``within`` bytes
    further; 0 when none does."""
    depth, end = 0, len(code) if within is None else start + within
    for match in re.compile(b"[" + re.escape(opening + closing) + b"]").finditer(code, start, end):
        depth += 1 if match[0] == opening else -1
        if depth == 0:
            return match.end()
    return 0
