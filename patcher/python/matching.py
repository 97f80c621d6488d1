"""``match`` statements as the ladders of tests that they are."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_Test = ast.expr


class _NotPlain(Exception):
    """A pattern that is no test of a value: a class, a mapping, a star."""


def ladder(node: ast.Match) -> ast.If | None:
    """The same as ``if`` and ``elif``; None when a pattern is more than a test of a value.

    Names that a pattern binds are replaced by their part of the subject in its guard.
    """
    try:
        tests = [(_test(node.subject, case), case) for case in node.cases]
    except _NotPlain:
        return None
    otherwise: list[ast.stmt] = []
    for test, case in reversed(tests):
        if test is None:
            otherwise = case.body
            continue
        made = ast.If(test=test, body=case.body, orelse=otherwise)
        last = case.body[-1]
        made.lineno, made.col_offset = case.pattern.lineno, case.pattern.col_offset
        made.end_lineno, made.end_col_offset = last.end_lineno, last.end_col_offset
        for inner in ast.walk(test):
            if isinstance(inner, ast.expr):
                ast.copy_location(inner, case.pattern)
        otherwise = [made]
    return otherwise[0] if otherwise and isinstance(otherwise[0], ast.If) else None


def case_lines(node: ast.Match) -> Iterator[int]:
    """The lines that the tests are taken to stand on."""
    for case in node.cases:
        yield case.pattern.lineno


def _test(subject: ast.expr, case: ast.match_case) -> _Test | None:
    """What lets a case be taken; None when nothing has to hold."""
    names: dict[str, ast.expr] = {}
    parts = list(_parts(subject, case.pattern, names))
    if case.guard is not None:
        parts.append(_Replaced(names).visit(_copy(case.guard)))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else ast.BoolOp(ast.And(), parts)


def _parts(subject: ast.expr, pattern: ast.pattern, names: dict[str, ast.expr]) -> Iterator[_Test]:
    if isinstance(pattern, ast.MatchValue):
        yield ast.Compare(_copy(subject), [ast.Eq()], [_copy(pattern.value)])
    elif isinstance(pattern, ast.MatchSingleton):
        yield ast.Compare(_copy(subject), [ast.Is()], [ast.Constant(pattern.value)])
    elif isinstance(pattern, ast.MatchAs):
        if pattern.name:
            names[pattern.name] = subject
        if pattern.pattern is not None:
            yield from _parts(subject, pattern.pattern, names)
    elif isinstance(pattern, ast.MatchOr):
        options = [list(_parts(subject, one, names)) for one in pattern.patterns]
        if all(options):
            yield ast.BoolOp(ast.Or(), [
                one[0] if len(one) == 1 else ast.BoolOp(ast.And(), one) for one in options])
    elif isinstance(pattern, ast.MatchSequence):
        for position, one in enumerate(pattern.patterns):
            part = ast.Subscript(_copy(subject), ast.Constant(position), ast.Load())
            yield from _parts(part, one, names)
    else:
        raise _NotPlain


def _copy(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


class _Replaced(ast.NodeTransformer):
    def __init__(self, names: dict[str, ast.expr]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = self._names.get(node.id)
        return node if found is None else _copy(found)
