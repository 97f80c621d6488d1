"""Join an expression with more of its kind: ``a or b``, ``a and x not in (...)``."""

from __future__ import annotations

import ast

from patcher.arch import ArchSet
from patcher.python.match import Located
from patcher.python.spelling import written
from patcher.python.syntax import Text

_LOOSE = (ast.If, ast.While, ast.Assert, ast.Return, ast.Assign, ast.AnnAssign, ast.IfExp,
          ast.keyword, ast.Call, ast.Lambda, ast.comprehension, ast.Expr)


def joined(found: Located, text: Text, add: ArchSet, drop: ArchSet,
           adding: list[str] | None = None, dropping: list[str] | None = None) -> str:
    """The expression's new text: true for ``add`` too, false for ``drop``.

    ``adding`` and ``dropping`` are predicates; without them tests on the
    architecture operand of the expression are made.
    """
    node = found.node
    adding = adding or ([_test(found, text, add, positive=True)] if add else [])
    removing = [f"not {d}" for d in dropping or ()] or (
        [_test(found, text, drop, positive=False)] if drop else [])
    result, loosest = text.segment(node), type(node)
    if adding:
        base = result if not isinstance(node, ast.IfExp | ast.Lambda) else f"({result})"
        result, loosest = " or ".join([base, *adding]), ast.BoolOp
    shortened = _without(node, text, dropping or []) if not adding else None
    if shortened is not None:
        return shortened
    is_or = bool(adding) or (isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or))
    if removing:
        base = f"({result})" if is_or or isinstance(node, ast.IfExp | ast.Lambda) else result
        result, is_or, loosest = " and ".join([base, *removing]), False, ast.BoolOp
    return _wrapped(found, result, is_or) if loosest is ast.BoolOp else result


def _wrapped(found: Located, result: str, is_or: bool) -> str:
    above = found.parents.get(found.node)
    if isinstance(above, ast.BoolOp) and (isinstance(above.op, ast.Or) or not is_or):
        return result
    was = isinstance(found.node, ast.BoolOp) and isinstance(found.node.op, ast.Or) is is_or
    loose = isinstance(above, _LOOSE) and not (isinstance(above, ast.Call)
                                               and above.func is found.node)
    return result if loose or was else f"({result})"


def _without(node: ast.expr, text: Text, dropping: list[str]) -> str | None:
    """An ``or`` without operands; None when they are not operands of it."""
    if not isinstance(node, ast.BoolOp) or not isinstance(node.op, ast.Or) or not dropping:
        return None
    kept = [v for v in node.values if ast.unparse(v) not in dropping]
    if len(kept) != len(node.values) - len(dropping) or not kept:
        return None
    return " or ".join(text.segment(value) for value in kept)


def _test(found: Located, text: Text, worlds: ArchSet, *, positive: bool) -> str:
    """``x in (120, 121)`` or its opposite on the expression's own operand."""
    assert found.axis is not None
    assert found.subject is not None
    sample = found.samples[0] if found.samples else None
    value = sample.value if isinstance(sample, ast.Constant) else None
    sample_text = text.segment(sample) if sample is not None else ""
    keys = [written(key, value, sample_text) for key in found.axis.elements(worlds)]
    subject = text.segment(found.subject)
    if len(keys) == 1:
        return f"{subject} {'==' if positive else '!='} {keys[0]}"
    return f"{subject} {'in' if positive else 'not in'} ({', '.join(keys)})"
