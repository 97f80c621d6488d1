"""Ranges that return one after the other, with a refusal behind the last: who gets there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from patcher.host.statements import If, closing, refusal, statement_end
from patcher.host.values import Value, Values, evaluate

_NUMBER = re.compile(r"\d{2,3}[uUlL]*$")


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A refusal, the token range from the first branch to it, and who never comes to it."""

    condition: tuple[str, ...]
    first: int
    last: int
    passed: Value


def dispatches(texts: Sequence[str], values: Values, ifs: Sequence[If]) -> Iterator[Dispatch]:
    """In every block of a function."""
    branches = {branch.first: branch for branch in ifs}
    for position, text in enumerate(texts):
        if text == "{":
            yield from _block(texts, position + 1, values, branches)
        elif text == "switch" and texts[position + 1 : position + 2] == ["("]:
            yield from _switch(texts, position, values)


def _block(texts: Sequence[str], start: int, values: Values, branches: Mapping[int, If],
           ) -> Iterator[Dispatch]:
    left: list[int | None] = []
    conditions: list[str] = []
    first, position = start, start
    while position < len(texts) and texts[position] != "}":
        end = statement_end(texts, position)
        branch = branches.get(position)
        if branch is not None and branch.value is not None and _leaves(texts, branch.then):
            if branch.other and "return" in texts[branch.other.start : branch.other.stop]:
                return  # who goes on is not plain
            first = first if conditions else position
            conditions += [*(["||"] if conditions else []), *branch.condition]
            left = [_and_not(a, b) for a, b in
                    zip(left or [1] * len(branch.value), branch.value, strict=True)]
        elif refusal(texts, position):
            if conditions:
                passed: Value = tuple(None if v is None else int(not v) for v in left)
                yield Dispatch(tuple(conditions), first, end - 1, passed)
            return
        elif texts[position] == "return" or end <= position:
            return
        position = end


def _switch(texts: Sequence[str], position: int, values: Values) -> Iterator[Dispatch]:
    opening = position + 1
    end = closing(texts, opening)
    value = evaluate(texts[opening + 1 : end], values)
    if value is None or None in value or texts[end + 1 : end + 2] != ["{"]:
        return
    last = closing(texts, end + 1)
    body = texts[end + 2 : last]
    named = [body[i + 1] for i, text in enumerate(body[:-1]) if text == "case"]
    numbers = {values.constants[n] if n in values.constants else int(n.rstrip("uUlL"))
               for n in named if n in values.constants or _NUMBER.match(n)}
    after = body.index("default") + 2 if "default" in body else len(body)
    refusing = any(refusal(body, i) for i in range(after, len(body)))
    if numbers and refusing and len(numbers) == len(set(named)):
        yield Dispatch((*texts[opening + 1 : end], "in", ", ".join(map(str, sorted(numbers)))),
                       position, last, tuple(int(v in numbers) for v in value))


def _leaves(texts: Sequence[str], then: range) -> bool:
    """True when the branch's own statements return."""
    depth = 0
    for index in then:
        depth += (texts[index] == "{") - (texts[index] == "}")
        if texts[index] == "return" and depth <= 1:
            return True
    return False


def _and_not(left: int | None, value: int | None) -> int | None:
    if left == 0 or value:
        return 0
    return None if left is None or value is None else 1

