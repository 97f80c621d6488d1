"""Evaluation of Python expressions over partial values."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

from patcher.profiles.partial.core import Core
from patcher.profiles.partial.library import bounded, take
from patcher.profiles.partial.values import (
    HOLE,
    Frame,
    Function,
    Instance,
    Raised,
    Stopped,
    Symbol,
    Text,
    Unknown,
    Value,
    is_plain,
    show,
    show_name,
)

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.BitXor: operator.xor,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}
_MAX_NUMBER = 1 << 64
_RECORDS = (dict, list, tuple, Instance)  # a table of these describes what can be built


class Expressions(Core):
    """One method per node type that needs no call."""

    def evaluate(self, node: ast.expr, frame: Frame) -> Value:
        """The node's value; unknown for what is not understood. Raises Stopped or Raised."""
        self.step()
        method = self.handler("_eval_", type(node))
        value: Value = method(node, frame) if method else Unknown(ast.unparse(node)[:80])
        return value

    def items(self, value: Value, node: ast.expr) -> list[Value]:
        """What a loop over the value sees; one unknown element when that is not known."""
        if isinstance(value, list | tuple | str | set | frozenset | dict):
            return take(sorted(value, key=show) if isinstance(value, set | frozenset) else value)
        return [Unknown(f"item of {ast.unparse(node)[:60]}")]

    def _eval_constant(self, node: ast.Constant, frame: Frame) -> Value:
        return node.value

    def _eval_name(self, node: ast.Name, frame: Frame) -> Value:
        value = self.resolve(self.lookup(node.id, frame))
        if isinstance(value, Unknown) and value.name in self.parameters:
            self.reads[value.name] += 1
        return value

    def _eval_list(self, node: ast.List, frame: Frame) -> Value:
        return list(self._elements(node.elts, frame))

    def _eval_tuple(self, node: ast.Tuple, frame: Frame) -> Value:
        return tuple(self._elements(node.elts, frame))

    def _eval_set(self, node: ast.Set, frame: Frame) -> Value:
        return self.hashed(set, list(self._elements(node.elts, frame)), node)

    def _elements(self, nodes: list[ast.expr], frame: Frame) -> Iterator[Value]:
        for node in nodes:
            if isinstance(node, ast.Starred):
                yield from self.items(self.evaluate(node.value, frame), node.value)
            else:
                yield self.evaluate(node, frame)

    def hashed(self, kind: type, values: list[Value], node: ast.expr) -> Value:
        try:
            value: Value = kind(values)
            return value
        except TypeError:
            return Unknown(ast.unparse(node)[:80])

    def _eval_dict(self, node: ast.Dict, frame: Frame) -> Value:
        found: dict[Value, Value] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            item = self.evaluate(value, frame)
            if key is None:
                found.update(item if isinstance(item, dict) else {})
                continue
            name = self.evaluate(key, frame)
            try:
                found[name] = item
            except TypeError:
                return Unknown(ast.unparse(node)[:80])
        return found

    def _eval_joinedstr(self, node: ast.JoinedStr, frame: Frame) -> Value:
        return bounded("".join(self._text_part(part, frame) for part in node.values))

    def _text_part(self, node: ast.expr, frame: Frame) -> str:
        if not isinstance(node, ast.FormattedValue):
            return show(self.evaluate(node, frame))
        value = self.evaluate(node.value, frame)
        if not is_plain(value) or (isinstance(value, str) and HOLE in value):
            return show(value)
        if node.conversion == ord("r"):
            value = repr(value)
        if node.format_spec is None:
            return show(value)
        spec = show(self.evaluate(node.format_spec, frame))
        if len(spec) > 4 or HOLE in spec:
            return HOLE
        try:
            return format(value, spec)
        except (ValueError, TypeError):
            return HOLE

    def _eval_binop(self, node: ast.BinOp, frame: Frame) -> Value:
        left, right = self.evaluate(node.left, frame), self.evaluate(node.right, frame)
        return self.binary(node.op, left, right, node)

    def binary(self, op: ast.operator, left: Value, right: Value,
               node: ast.AST) -> Value:
        """``left op right``: unknown parts of strings, paths and lists stay holes or elements."""
        if isinstance(op, ast.Div) and isinstance(left, PurePosixPath):
            # virtual roots ("@generated") stand for absolute folders
            return PurePosixPath(show(right)) if show(right)[:1] == "@" else left / show(right)
        if isinstance(op, ast.Add):
            if isinstance(left, list) and isinstance(right, Unknown | Symbol):
                return [*left, right]
            if isinstance(right, list) and isinstance(left, Unknown | Symbol):
                return [left, *right]
            if isinstance(left, str) or isinstance(right, str):
                return bounded(show(left) + show(right))
        lists = isinstance(left, list | tuple) and isinstance(right, list | tuple)
        computable = lists or (is_plain(left) and is_plain(right))
        result = self._compute(op, left, right) if computable else None
        return Unknown(ast.unparse(node)[:80]) if result is None else result

    @staticmethod
    def _compute(op: ast.operator, left: Value, right: Value) -> Value:
        """The result, None when Python would raise or it could grow without bound."""
        function = _OPERATORS.get(type(op))
        sized = [v for v in (left, right) if isinstance(v, str | list | tuple)]
        if function is None or (isinstance(op, ast.Mult | ast.Mod) and sized):
            return None  # repetition and old-style formatting
        try:
            result: Value = function(left, right)
        except (TypeError, ArithmeticError):
            return None
        if isinstance(result, int) and abs(result) > _MAX_NUMBER:
            raise Stopped("a number over 64 bits")
        return result

    def _eval_unaryop(self, node: ast.UnaryOp, frame: Frame) -> Value:
        value = self.evaluate(node.operand, frame)
        if isinstance(node.op, ast.Not):
            known = self.known_truth(value)
            return Unknown(f"not {show_name(value)}") if known is None else not known
        if isinstance(node.op, ast.USub) and isinstance(value, int | float):
            return -value
        return Unknown(ast.unparse(node)[:80])

    def _eval_boolop(self, node: ast.BoolOp, frame: Frame) -> Value:
        """Left to right, as Python does; a decision is taken where it is needed."""
        stop_at = isinstance(node.op, ast.Or)
        value: Value = None
        for part in node.values:
            value = self.evaluate(part, frame)
            if part is node.values[-1] or self.truth(value) is stop_at:
                return value
        return value

    def _eval_ifexp(self, node: ast.IfExp, frame: Frame) -> Value:
        chosen = self.truth(self.evaluate(node.test, frame))
        return self.evaluate(node.body if chosen else node.orelse, frame)

    def _eval_compare(self, node: ast.Compare, frame: Frame) -> Value:
        left = self.evaluate(node.left, frame)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate(right_node, frame)
            result = self._compare(op, left, right, node)
            if not isinstance(result, bool):
                return result
            if not result:
                return False
            left = right
        return True

    def _compare(self, op: ast.cmpop, left: Value, right: Value,
                 node: ast.Compare) -> Value:
        if isinstance(op, ast.Eq | ast.Is):
            return self._equal(left, right)
        if isinstance(op, ast.NotEq | ast.IsNot):
            same = self._equal(left, right)
            return not same if isinstance(same, bool) else Unknown(f"not {show_name(same)}")
        if isinstance(op, ast.In | ast.NotIn):
            inside = self._contains(left, right)
            if isinstance(inside, bool):
                return inside is isinstance(op, ast.In)
            return inside if isinstance(op, ast.In) else Unknown(f"not {show_name(inside)}")
        if not (is_plain(left) and is_plain(right)):
            return Unknown(ast.unparse(node)[:80])
        try:
            return bool(_COMPARISONS[type(op)](left, right))
        except TypeError:
            return Unknown(ast.unparse(node)[:80])

    def _equal(self, left: Value, right: Value) -> Value:
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            return Unknown(f"{show_name(left)} == {show_name(right)}")
        if any(isinstance(side, str) and HOLE in side for side in (left, right)):
            return Unknown(f"{show(left)} == {show(right)}")
        if isinstance(left, Symbol) is not isinstance(right, Symbol):
            other = right if isinstance(left, Symbol) else left
            return False if other is None else Unknown(f"{show_name(left)} == {show_name(right)}")
        return left == right

    def _contains(self, item: Value, where: Value) -> Value:
        if isinstance(item, str) and isinstance(where, str) and HOLE not in item + where:
            return item in where
        if not isinstance(where, list | tuple | set | frozenset | dict):
            return Unknown(f"{show_name(item)} in {show_name(where)}")
        answers = [self._equal(item, member) for member in where]
        if any(answer is True for answer in answers):
            return True
        if all(answer is False for answer in answers):
            return False
        return Unknown(f"{show_name(item)} in {show_name(where)}")

    def _eval_subscript(self, node: ast.Subscript, frame: Frame) -> Value:
        value = self.evaluate(node.value, frame)
        if isinstance(node.slice, ast.Slice):
            return self._slice(value, node.slice, frame, node)
        key = self.evaluate(node.slice, frame)
        if isinstance(value, dict) and any(isinstance(v, _RECORDS) for v in value.values()):
            key = self.choose(key, value)
        if isinstance(value, dict | list | tuple | str) and not isinstance(key, Unknown):
            container: Any = value
            try:
                return container[key]
            except (KeyError, IndexError) as error:
                raise Raised(str(error)) from error
            except TypeError:
                return Unknown(ast.unparse(node)[:80])
        return Unknown(f"{show_name(value)}[{show_name(key)}]")

    def _slice(self, value: Value, part: ast.Slice, frame: Frame,
               node: ast.Subscript) -> Value:
        ends = [self.evaluate(e, frame) if e else None for e in (part.lower, part.upper, part.step)]
        if isinstance(value, str | list | tuple) and is_plain(ends):
            try:
                result: Value = operator.getitem(value, slice(*ends))  # type: ignore[arg-type]
            except (TypeError, ValueError):
                return Unknown(ast.unparse(node)[:80])
            return Text(str(result), value.origin) if isinstance(value, Text) else result
        return Unknown(ast.unparse(node)[:80])

    def _eval_lambda(self, node: ast.Lambda, frame: Frame) -> Value:
        return Function(frame.module, node, frame)

    def _eval_namedexpr(self, node: ast.NamedExpr, frame: Frame) -> Value:
        value = self.evaluate(node.value, frame)
        frame.names[node.target.id] = value
        return value

    def _eval_listcomp(self, node: ast.ListComp, frame: Frame) -> Value:
        return [self.evaluate(node.elt, f) for f in self._generate(node.generators, frame)]

    def _eval_generatorexp(self, node: ast.GeneratorExp, frame: Frame) -> Value:
        return [self.evaluate(node.elt, f) for f in self._generate(node.generators, frame)]

    def _eval_setcomp(self, node: ast.SetComp, frame: Frame) -> Value:
        found = [self.evaluate(node.elt, f) for f in self._generate(node.generators, frame)]
        return self.hashed(set, found, node)

    def _eval_dictcomp(self, node: ast.DictComp, frame: Frame) -> Value:
        pairs: list[Value] = [(self.evaluate(node.key, f), self.evaluate(node.value, f))
                              for f in self._generate(node.generators, frame)]
        return self.hashed(dict, pairs, node)

    def _generate(self, clauses: list[ast.comprehension],
                  frame: Frame) -> Iterator[Frame]:
        """The frames in which a comprehension's element is evaluated."""
        if not clauses:
            yield frame
            return
        first, rest = clauses[0], clauses[1:]
        for item in self.items(self.evaluate(first.iter, frame), first.iter):
            inner = Frame(frame.module, {}, frame, frame.function)
            self.assign(first.target, item, inner)
            if all(self.truth(self.evaluate(test, inner)) for test in first.ifs):
                yield from self._generate(rest, inner)
