"""The siblings of a predicate: ``is_sm120_supported`` for ``is_sm100_supported``.

A sibling counts only when its definition exists and was evaluated; its worlds
decide, never its name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from patcher.arch import DEVICE, EMPTY, ArchSet
from patcher.python.bindings import Binding, How
from patcher.python.calls import apply
from patcher.python.index import External, Function, absolute
from patcher.python.match import File
from patcher.python.scope import Scope, module_name
from patcher.python.values import Value, Varied, truth_of

_NUMBER = re.compile(r"(\d{2,3})([af]?)(?=_|$)")
_FAMILY = re.compile(r"blackwell|hopper")


@dataclass(frozen=True)
class Sibling:
    """A predicate to join: its text, what lets it pass, and what the file still lacks."""

    text: str
    worlds: ArchSet
    imports: tuple[tuple[ast.ImportFrom, str, str], ...] = ()  # (statement, beside, name)
    definitions: tuple[tuple[ast.stmt, str], ...] = ()  # (after this statement, new statement)


def siblings(file: File, node: ast.expr, scope: Scope, asked: ArchSet) -> list[Sibling]:
    """Every usable sibling of one predicate that lets pass a part of what is asked."""
    found: dict[str, Sibling] = {}
    for made in _candidates(file, node, scope, asked):
        if made.worlds & asked and made.text not in found:
            found[made.text] = made
    return list(found.values())


def cover(choices: list[Sibling], asked: ArchSet) -> list[Sibling]:
    """A small choice that lets all asked worlds pass with the least surplus; [] if none can."""
    left, chosen = asked, []
    while left:
        useful = [s for s in choices if s.worlds & left]
        if not useful:
            return []
        best = min(useful, key=lambda s: (len(s.worlds - asked), -len(s.worlds & left)))
        chosen.append(best)
        left = left - best.worlds
    return chosen


def narrower(file: File, node: ast.expr, scope: Scope, drop: ArchSet) -> Sibling | None:
    """The predicate that lets pass exactly what this one does without ``drop``."""
    value = file.evaluator.value(node, scope)
    keep = DEVICE - truth_of(value).false - drop if isinstance(value, Varied) else EMPTY
    return next((s for s in siblings(file, node, scope, keep) if s.worlds == keep), None)


def union(chosen: list[Sibling]) -> ArchSet:
    """The worlds that one of the siblings lets pass."""
    total = EMPTY
    for sibling in chosen:
        total = total | sibling.worlds
    return total


def resolution(choices: list[Sibling]) -> tuple[ArchSet, ...]:
    """The partition the siblings can tell apart; the last cell is what none of them reaches."""
    parts: list[ArchSet] = [DEVICE]
    for sibling in choices:
        parts = [p for part in parts for p in (part & sibling.worlds, part - sibling.worlds) if p]
    return tuple(parts)


def _candidates(file: File, node: ast.expr, scope: Scope, asked: ArchSet) -> Iterator[Sibling]:
    called = node.func if isinstance(node, ast.Call) else node
    if isinstance(node, ast.Call) and (number := _number_argument(node)) is not None:
        yield from _by_argument(file, node, scope, asked, number)
    elif isinstance(called, ast.Attribute):
        for name in _names(called.attr, asked):
            text = f"{ast.unparse(called.value)}.{name}" + ("()" if called is not node else "")
            if worlds := _worlds(file, text, scope):
                yield Sibling(text, worlds)
    elif isinstance(called, ast.Name) and isinstance(node, ast.Call):
        yield from _functions(file, node, called.id, scope, asked)
    elif isinstance(called, ast.Name):
        yield from _variables(file, called.id, scope, asked)


def _names(name: str, asked: ArchSet) -> list[str]:
    """Names with another number, the name's own suffix first."""
    match = _NUMBER.search(name)
    numbers = {c.number: None for c in asked.capabilities} | {
        c.major * 10: None for c in asked.capabilities}
    if match is None:  # a family's name: is_blackwell
        plain = [_FAMILY.sub(f"sm{number}", name) for number in numbers]
        return [other for other in plain if other != name]
    suffixes = dict.fromkeys((match[2], "", "a", "f"))
    found = [f"{name[:match.start()]}{number}{suffix}{name[match.end():]}"
             for number in numbers for suffix in suffixes]
    return [other for other in found if other != name]


def _worlds(file: File, text: str, scope: Scope) -> ArchSet:
    return passing(file.evaluator.value(ast.parse(text, mode="eval").body, scope))


def passing(value: Value) -> ArchSet:
    """What may pass a test; nothing for one that does not differ by device."""
    return DEVICE - truth_of(value).false if isinstance(value, Varied) else EMPTY


def _number_argument(node: ast.Call) -> ast.Constant | None:
    given = [*node.args, *(k.value for k in node.keywords)]
    for value in given:
        if isinstance(value, ast.Constant) and type(value.value) is int and 50 <= value.value < 200:
            return value
    return None


def _by_argument(file: File, node: ast.Call, scope: Scope, asked: ArchSet,
                 number: ast.Constant) -> Iterator[Sibling]:
    for capability in asked.capabilities:
        for other in (capability.major * 10, capability.number):
            text = ast.unparse(_with_number(node, number, other))
            if worlds := _worlds(file, text, scope):
                yield Sibling(text, worlds)


def _with_number(node: ast.Call, number: ast.Constant, other: int) -> ast.expr:
    text = ast.unparse(node)
    old, new = ast.unparse(number), str(other)
    return ast.parse(re.sub(rf"(?<=[(,= ]){old}(?=[,)])", new, text, count=1), mode="eval").body


def _functions(file: File, node: ast.Call, name: str, scope: Scope,
               asked: ArchSet) -> Iterator[Sibling]:
    """Functions beside the called one, imported from where it comes from."""
    place = _binding(file, name, scope)
    arguments = ast.unparse(node).removeprefix(name)
    for other in _names(name, asked):
        if _binding(file, other, scope) is not None:
            there = file.evaluator.value(ast.parse(other, mode="eval").body, scope)
            worlds = _worlds(file, other + arguments, scope)
            if worlds and _takes(there, len(node.args)):
                yield Sibling(other + arguments, worlds)
            continue
        statement = place.node if place and place.how is How.IMPORT else None
        if not isinstance(statement, ast.ImportFrom):
            continue
        source = file.evaluator.index.module(absolute(file.module, statement))
        function = module_name(file.evaluator, source, other) if source else External(other)
        if isinstance(function, External) or not _takes(function, len(node.args)):
            continue
        args = [file.evaluator.value(a, scope) for a in node.args]
        worlds = passing(apply(file.evaluator, function, other, args, {}))
        if worlds:
            yield Sibling(other + arguments, worlds, ((statement, name, other),))


def _takes(function: Value, count: int) -> bool:
    """True unless the function is known to take fewer arguments."""
    if not isinstance(function, Function):
        return True
    spec = function.node.args
    return spec.vararg is not None or len(spec.posonlyargs) + len(spec.args) >= count


def _binding(file: File, name: str, scope: Scope) -> Binding | None:
    here: Scope | None = scope
    while here is not None:
        if here.node is not None and (places := here.module.bindings_of(here.node).get(name)):
            return places[0]
        here = here.parent
    places = file.module.bindings.get(name)
    return places[0] if places else None


def _variables(file: File, name: str, scope: Scope, asked: ArchSet) -> Iterator[Sibling]:
    """A variable beside this one: the one that is there, or a definition like this one's."""
    value = file.evaluator.value(ast.parse(name, mode="eval").body, scope)
    if isinstance(value, Function):
        return
    place = _binding(file, name, scope)
    for other in _names(name, asked):
        if _binding(file, other, scope) is not None and (worlds := _worlds(file, other, scope)):
            yield Sibling(other, worlds)
    if place is None or place.how is not How.ASSIGN or place.path:
        return
    statement = file.parents.get(place.node)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return
    yield from _defined_like(file, name, statement, asked)


def _defined_like(file: File, name: str, statement: ast.Assign,
                  asked: ArchSet) -> Iterator[Sibling]:
    scope, _ = file.scope_of(statement.value)
    for part in ast.walk(statement.value):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
            old, made = part.func.id, _functions(file, part, part.func.id, scope, asked)
        elif isinstance(part, ast.Attribute) and _NUMBER.search(part.attr):
            old, made = part.attr, _candidates(file, part, scope, asked)
        else:
            continue
        for like in made:
            new = like.text.partition("(")[0] if isinstance(part, ast.Call) \
                else like.text.rpartition(".")[2]
            other = _numbered(name, new)
            value = re.sub(rf"\b{re.escape(old)}\b", new, ast.unparse(statement.value))
            if other:
                yield Sibling(other, like.worlds, like.imports,
                              ((statement, f"{other} = {value}"),))


def _numbered(name: str, like: str) -> str:
    """``name`` with the number that ``like`` has; empty when one of them has none."""
    number, old = _NUMBER.search(like), _NUMBER.search(name)
    if number is None or old is None:
        return ""
    return f"{name[:old.start()]}{number[1]}{old[2]}{name[old.end():]}"
