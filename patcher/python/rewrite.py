"""Open or close a Python gate: minimal edits against the bytes, checked by evaluating again.

The only place that uses libcst, and only on the displays and import statements
that change; the rest of the file is never printed again, so its bytes stay.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any

from patcher.arch import DEVICE, EMPTY, ArchSet
from patcher.edits import Edit, EditClash, apply_edits, merge_edits
from patcher.python.index import Index, parse
from patcher.python.joins import joined
from patcher.python.match import File, Located, display, locate, members, open_file
from patcher.python.model import GateSpec, Kind, Rewrite, Status, effective
from patcher.python.scope import Scope
from patcher.python.siblings import Sibling, cover, narrower, passing, siblings, union
from patcher.python.spelling import Axis, written
from patcher.python.syntax import Text

Reach = tuple[ArchSet, ArchSet]  # what is opened and what is closed, as far as the gate can


class Unsupported(Exception):
    """This shape cannot express the change; the message says why."""


@dataclass
class Batch:
    """The edits of one rewrite; names to import are gathered per statement."""

    text: Text
    edits: list[Edit] = field(default_factory=list)
    imports: dict[ast.ImportFrom, dict[str, str]] = field(default_factory=dict)

    def replace(self, node: ast.AST, new: str) -> None:
        start, end = self.text.span(node)
        self.edits.append(self.text.edit(start, end, new))

    def finished(self) -> tuple[Edit, ...]:
        for statement, names in self.imports.items():
            self.replace(statement, _with_names(self.text.segment(statement), names, self.text))
        return merge_edits(self.edits)


def rewrite(source: bytes, path: str, spec: GateSpec, index: Index | None) -> Rewrite:
    """Edits that let ``spec.open`` pass and stop ``spec.close`` at the gates the anchor names.

    Exactly ``spec.count`` matches must need the change. The result is proved:
    the new text is parsed and evaluated, and its worlds must be the old ones
    plus and minus the effective set. ``effective`` may be larger than asked
    when the gate is coarser; judging that is the caller's part.
    """
    file = open_file(source, path, index)
    if file is None:
        return Rewrite(Status.UNREADABLE, reason="not Python that can be parsed")
    found = locate(file, spec)
    matches = tuple(f.match() for f in found)
    if not found:
        return Rewrite(Status.NO_MATCH, reason=f"no gate {spec.gate!r} in {spec.within or path}")
    unread = next((f.note for f in found if f.note), "")
    needed = [f for f in found if spec.open.device - f.worlds or spec.close & f.worlds]
    before = tuple(f.worlds for f in found)
    if unread or not needed:
        status = Status.UNREADABLE if unread else Status.ALREADY
        return Rewrite(status, (), before, before, EMPTY, found[0].kind, matches, unread)
    if len(needed) != spec.count:
        return Rewrite(Status.WRONG_COUNT, (), before, before, EMPTY, needed[0].kind, matches,
                       f"{len(needed)} gates need the change, {spec.count} expected")
    before = tuple(f.worlds for f in needed)
    try:
        edits, reached = _edits(file, source, needed, spec)
        after = _after(source, path, spec, index, edits, needed, reached)
    except (Unsupported, EditClash, UnicodeError, LookupError, SyntaxError) as error:
        return Rewrite(Status.UNSUPPORTED, (), before, before, EMPTY, needed[0].kind, matches,
                       str(error))
    total = EMPTY
    for opened, closed in reached:
        total = total | opened | closed
    return Rewrite(Status.REWRITTEN, edits, before, after, total, needed[0].kind, matches)


def _edits(file: File, source: bytes, needed: list[Located],
           spec: GateSpec) -> tuple[tuple[Edit, ...], list[Reach]]:
    """The edits, and what they open and close per match."""
    batch = Batch(Text(source))
    reached = [_change(file, batch, found, spec) for found in needed]
    return batch.finished(), reached


def _change(file: File, batch: Batch, found: Located, spec: GateSpec) -> Reach:
    """Add one gate's edits; returns what they really open and close."""
    opened, closed = spec.open.device - found.worlds, spec.close & found.worlds
    if found.kind is Kind.PREDICATE and found.subject is None:
        return _change_predicate(file, batch, found, spec, opened, closed)
    if found.axis is None:
        raise Unsupported("the architecture operand of this gate cannot be read")
    reach_open = effective(opened, found.axis.resolution)
    reach_close = effective(closed, found.axis.resolution)
    if reach_open & reach_close:
        raise Unsupported("this gate cannot tell what is opened from what is closed")
    if found.subject is None:
        _change_members(batch, found, spec, opened, closed)
    else:
        add, drop = (opened, closed) if found.positive else (closed, opened)
        if not _change_membership(batch, found, add, drop):
            batch.replace(found.node, joined(found, batch.text, add, drop))
    return reach_open, reach_close


def _change_members(batch: Batch, found: Located, spec: GateSpec, opened: ArchSet,
                    closed: ArchSet) -> None:
    """A list, constant, decorator argument or dict."""
    assert found.axis is not None
    target = display(found.node)
    if not isinstance(target, ast.List | ast.Tuple | ast.Set | ast.Dict):
        if closed:
            raise Unsupported(f"{ast.unparse(target)} is shared: name that constant instead")
        extra = ", ".join(repr(k) for k in found.axis.elements(opened))
        batch.replace(found.node, f"[*{batch.text.segment(target)}, {extra}]")
        return
    _edit_display(batch, target, found.axis, opened, closed, spec.value)


def _change_membership(batch: Batch, found: Located, add: ArchSet, drop: ArchSet) -> bool:
    """``x in [9, 10]`` (or ``x == 10``) by its members; False when it has no such shape."""
    node = found.node
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or node.left is not found.subject:
        return False
    operator, right = node.ops[0], node.comparators[0]
    if isinstance(operator, ast.NotIn | ast.NotEq):
        add, drop = drop, add
    target = display(right)
    assert found.axis is not None
    if isinstance(operator, ast.In | ast.NotIn):
        if isinstance(target, ast.List | ast.Tuple | ast.Set) and members(target):
            if found.axis.worlds(_literals(target)) <= effective(drop, found.axis.resolution):
                return False  # nothing would be left in it
            _edit_display(batch, target, found.axis, add, drop, None)
            return True
        if isinstance(target, ast.Name | ast.Attribute) and not drop:
            extra = ", ".join(repr(k) for k in found.axis.elements(add))
            batch.replace(right, f"(*{batch.text.segment(right)}, {extra})")
            return True
        return False
    if not isinstance(operator, ast.Eq | ast.NotEq) or drop:
        return False
    return _equality(batch, node, found, add)


def _literals(node: ast.List | ast.Tuple | ast.Set) -> list[Any]:
    return [ast.literal_eval(e) for e in node.elts if _is_literal(e)]


def _equality(batch: Batch, node: ast.Compare, found: Located, add: ArchSet) -> bool:
    """``x == 10`` becomes ``x in (10, 12)``."""
    assert found.axis is not None
    text, right = batch.text, node.comparators[0]
    start, end = text.span(node.left)[1], text.span(right)[1]
    gap = text.text[start:text.span(right)[0]]
    old, new = ("==", "in") if isinstance(node.ops[0], ast.Eq) else ("!=", "not in")
    before, found_it, after = gap.partition(old)
    if not found_it or "#" in gap:
        return False
    sample = text.segment(right)
    keys = [sample, *_written(found.axis.elements(add), sample, right)]
    new = f"{before or ' '}{new}{after or ' '}({', '.join(keys)})"
    batch.edits.append(text.edit(start, end, new))
    return True


def _written(keys: list[Any], sample: str, node: ast.expr) -> list[str]:
    value = node.value if isinstance(node, ast.Constant) else None
    return [written(key, value, sample) for key in keys]


def _change_predicate(file: File, batch: Batch, found: Located, spec: GateSpec,
                      opened: ArchSet, closed: ArchSet) -> Reach:
    """Join a predicate with its siblings, or take it out."""
    add, drop = (opened, closed) if found.positive else (closed, opened)
    operands = found.node.values if isinstance(found.node, ast.BoolOp) else [found.node]
    named = sorted(operands, key=lambda o: spec.gate not in ast.unparse(o))
    if drop and not add and (swapped := _swapped(file, batch, named, found.scope, drop)):
        return (EMPTY, swapped) if found.positive else (swapped, EMPTY)
    choices = [s for operand in named for s in siblings(file, operand, found.scope, add | drop)]
    adding, dropping = cover(choices, add), cover(choices, drop)
    if (add and not adding) or (drop and not dropping):
        raise Unsupported(f"{ast.unparse(named[0])} has no sibling for these architectures")
    if any(spec.gate in sibling.text for sibling in dropping):
        raise Unsupported("the anchor itself would go: name the whole expression instead")
    for sibling in (*adding, *dropping):
        _bring(batch, sibling)
    batch.replace(found.node, joined(found, batch.text, add, drop,
                                     [s.text for s in adding], [s.text for s in dropping]))
    added, dropped = union(adding), union(dropping)
    return (added, dropped) if found.positive else (dropped, added)


def _swapped(file: File, batch: Batch, operands: list[ast.expr], scope: Scope,
             drop: ArchSet) -> ArchSet:
    """Put a narrower predicate for the one operand that lets ``drop`` pass; what that drops."""
    wide = [o for o in operands if passing(file.evaluator.value(o, scope)) & drop]
    sibling = narrower(file, wide[0], scope, drop) if len(wide) == 1 else None
    if sibling is None:
        return EMPTY
    _bring(batch, sibling)
    batch.replace(wide[0], sibling.text)
    return passing(file.evaluator.value(wide[0], scope)) - sibling.worlds


def _bring(batch: Batch, sibling: Sibling) -> None:
    """Import a sibling, or define it after the variable it is like."""
    for statement, beside, name in sibling.imports:
        batch.imports.setdefault(statement, {})[name] = beside
    for after, line in sibling.definitions:
        start, end = batch.text.span(after)
        row = batch.text.text.rfind("\n", 0, start) + 1
        indent = batch.text.text[row:start]
        if indent.strip():
            raise Unsupported(f"cannot add {line!r} beside a statement that shares its line")
        edit = batch.text.edit(end, end, f"{batch.text.newline}{indent}{line}")
        if edit not in batch.edits:
            batch.edits.append(edit)


def _after(source: bytes, path: str, spec: GateSpec, index: Index | None,
           edits: tuple[Edit, ...], needed: list[Located],
           reached: list[Reach]) -> tuple[ArchSet, ...]:
    """The gates' worlds in the new text; raises Unsupported when they are not the promised ones."""
    new = apply_edits(source, edits)
    if parse(new) is None:
        raise Unsupported("the new text would not parse")
    file = open_file(new, path, index)
    again = locate(file, spec) if file else []
    promised = [(f.worlds | opened) - closed
                for f, (opened, closed) in zip(needed, reached, strict=True)]
    after = [f.worlds for f in again if not (spec.open.device - f.worlds or spec.close & f.worlds)]
    if len(after) != len(again):
        raise Unsupported("the gate would still not let the asked architectures pass")
    for want in promised:
        if want & DEVICE not in after:
            raise Unsupported("the edit would change architectures that were not asked for")
    return tuple(promised)


def _edit_display(batch: Batch, node: ast.expr, axis: Axis, opened: ArchSet, closed: ArchSet,
                  value: str | None) -> None:
    """Add and remove members of a written list, tuple, set or dict."""
    import libcst as cst

    text = batch.text
    shown = cst.parse_expression(text.segment(node), _config(text))
    if not isinstance(shown, cst.List | cst.Tuple | cst.Set | cst.Dict):
        raise Unsupported(f"{ast.unparse(node)} is no list that can be edited")
    keys = _keys(node)
    gone = set(axis.elements(closed))
    known = [ast.literal_eval(k) if _is_literal(k) else None for k in keys]
    names = [ast.unparse(k).rpartition(".")[2] for k in keys]
    elements = list(shown.elements)
    if gone:
        spelled = {written(key, None, "").strip('"') for key in gone}
        kept = [e for e, k, n in zip(elements, known, names, strict=True)
                if k not in gone and n not in spelled]
        if not kept or len(kept) == len(elements):
            raise Unsupported("closing would leave the list empty or does not concern it")
        kept[-1] = kept[-1].with_changes(comma=elements[-1].comma)
        elements = kept
    fresh = axis.elements(opened)
    if fresh:
        elements = _appended(shown, elements, fresh, node, value, text)
    changed = shown.with_changes(elements=elements)
    batch.replace(node, cst.Module([], default_newline=text.newline).code_for_node(changed))


def _keys(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Dict):
        if any(key is None for key in node.keys):
            raise Unsupported("the dict is merged from others")
        return [key for key in node.keys if key is not None]
    assert isinstance(node, ast.List | ast.Tuple | ast.Set)
    return list(node.elts)


def _is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (
        isinstance(node, ast.Tuple) and all(map(_is_literal, node.elts)))


def _config(text: Text) -> Any:
    import libcst as cst

    return cst.PartialParserConfig(default_newline=text.newline)


def _appended(shown: Any, elements: list[Any], fresh: list[Any], node: ast.expr,
              value: str | None, text: Text) -> list[Any]:
    """The elements plus new ones, with the separators and line breaks of the display."""
    import libcst as cst

    last = elements[-1]
    keys = _keys(node)
    sample = keys[-1]
    between = elements[-2].comma if len(elements) > 1 else _separator(shown, last)
    added = []
    for key in fresh:
        constant = sample.value if isinstance(sample, ast.Constant) else None
        code = cst.parse_expression(written(key, constant, text.segment(sample)), _config(text))
        if isinstance(shown, cst.Dict):
            content = cst.parse_expression(value, _config(text)) if value else _nearest(
                keys, elements, key)
            added.append(last.with_changes(key=code, value=content, comma=between))
        else:
            added.append(cst.Element(code, comma=between))
    trailing = last.comma
    if isinstance(shown, cst.Tuple) and len(elements) == 1 and not _has_break(trailing):
        trailing = cst.MaybeSentinel.DEFAULT
    added[-1] = added[-1].with_changes(comma=trailing)
    return [*elements[:-1], last.with_changes(comma=between), *added]


def _separator(shown: Any, last: Any) -> Any:
    """The comma of a display with one element: on a new line when its element is."""
    import libcst as cst

    opening = getattr(shown, "lbracket", None) or getattr(shown, "lbrace", None)
    space = opening.whitespace_after if opening is not None else cst.SimpleWhitespace("")
    if isinstance(space, cst.ParenthesizedWhitespace):
        return cst.Comma(whitespace_after=space)
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def _has_break(comma: Any) -> bool:
    import libcst as cst

    return isinstance(comma, cst.Comma) and isinstance(
        comma.whitespace_after, cst.ParenthesizedWhitespace)


def _nearest(keys: list[ast.expr], elements: list[Any], key: Any) -> Any:
    """The value of the nearest lower key."""
    ranked = [(_rank(ast.literal_eval(k)), e) for k, e in zip(keys, elements, strict=True)
              if _is_literal(k)]
    lower = [pair for pair in ranked if pair[0] < _rank(key)]
    if not lower:
        raise Unsupported("a new dict key needs its value")
    return max(lower, key=lambda pair: pair[0])[1].value


def _rank(key: Any) -> list[int]:
    """Order of keys in one spelling: the numbers in it."""
    return [int(number) for number in re.findall(r"\d+", str(key))]


def _with_names(statement: str, names: dict[str, str], text: Text) -> str:
    """An import statement with more names, each after the one it is like."""
    import libcst as cst

    parsed = cst.parse_statement(statement, _config(text))
    assert isinstance(parsed, cst.SimpleStatementLine)
    imported = parsed.body[0]
    assert isinstance(imported, cst.ImportFrom)
    assert not isinstance(imported.names, cst.ImportStar)
    aliases = list(imported.names)
    for name, beside in reversed(names.items()):
        place = next((i for i, a in enumerate(aliases) if _bound(a) == beside), len(aliases) - 1)
        old = aliases[place]
        between = old.comma
        if old is aliases[-1]:  # its comma, if any, belongs before the closing parenthesis
            between = aliases[place - 1].comma if place else _import_comma(imported)
        aliases[place:place + 1] = [
            old.with_changes(comma=between),
            cst.ImportAlias(cst.Name(name), comma=old.comma)]
    changed = imported.with_changes(names=aliases)
    return cst.Module([], default_newline=text.newline).code_for_node(changed)


def _import_comma(imported: Any) -> Any:
    import libcst as cst

    space = imported.lpar.whitespace_after if imported.lpar else cst.SimpleWhitespace("")
    broken = isinstance(space, cst.ParenthesizedWhitespace)
    return cst.Comma(whitespace_after=space if broken else cst.SimpleWhitespace(" "))


def _bound(alias: Any) -> str:
    name = alias.asname.name if alias.asname else alias.name
    return str(name.value)
