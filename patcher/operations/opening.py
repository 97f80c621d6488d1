"""Rewrite a condition so that the asked worlds pass it, or stop passing, and no other changes.

Candidates go from the smallest edit to the largest and each is *checked*, not
trusted: the old and the new condition are evaluated in every world, under every
assignment of their atoms (what does not depend on the architecture). Wanted is

- for a world that is not asked: the old value;
- to open: in an asked world, what some device world gets from the old condition;
- to close: false in an asked world.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, islice, product

from patcher.arch import DEVICE, ArchSet, known_targets
from patcher.edits import Edit, Span, apply_edits
from patcher.operations.condition import Kind, Node, on_one_line, parse
from patcher.operations.worlds import truths

MAX_ATOMS = 5
MAX_CANDIDATES = 120  # rewrites tried; the smallest come first
_LESS = re.compile(r"__CUDA_ARCH__ (<=?) (\d+)$")
_GREATER = re.compile(r"(\d+) (>=?) __CUDA_ARCH__$")


@dataclass(frozen=True, slots=True)
class Table:
    """A condition's worlds, as bits, for each assignment of its atoms."""

    atoms: tuple[str, ...]
    rows: tuple[int, ...]

    def opened(self, asked: ArchSet) -> Table:
        """What opening it for ``asked`` should give."""
        rows = tuple(row | asked.bits if row & DEVICE.bits else row & ~asked.bits
                     for row in self.rows)
        return Table(self.atoms, rows)

    def closed(self, asked: ArchSet) -> Table:
        return Table(self.atoms, tuple(row & ~asked.bits for row in self.rows))


def numbers_of(asked: ArchSet) -> list[int]:
    """The values of ``__CUDA_ARCH__`` in these worlds."""
    return sorted({target.number * 10 for target in asked})


def cells(asked: ArchSet) -> ArchSet:
    """All worlds that share their ``__CUDA_ARCH__`` with an asked one: what a rewrite reaches."""
    numbers = set(numbers_of(asked))
    return ArchSet.of(*(t for t in known_targets() if t.number * 10 in numbers))


@lru_cache(maxsize=4096)
def table(text: str, atoms: tuple[str, ...] | None = None) -> Table | None:
    """Evaluate a condition; None when it is no chain of leaves, has too many atoms, or is
    an error in some world."""
    node = parse(text)
    if node is None:
        return None
    leaves = [leaf for leaf, _ in node.leaves()]
    own = tuple(sorted({leaf.text for leaf in leaves if not leaf.is_arch}))
    names = own if atoms is None else atoms
    if set(own) - set(names) or len(names) > MAX_ATOMS or any(leaf.is_mixed for leaf in leaves):
        return None
    conditions = []
    for values in product("01", repeat=len(names)):
        chosen = dict(zip(names, values, strict=True))
        replaced = _replaced(text, [(leaf.span, chosen[leaf.text]) for leaf in leaves
                                    if leaf.text in chosen])
        conditions.append(on_one_line(replaced))
    try:
        return Table(names, tuple(truths(conditions)))
    except ValueError:
        return None


def why_not(text: str) -> str:
    """Why a condition has no table, or does not ask for the architecture; "" when neither is so."""
    node = parse(text)
    if node is None:
        return "it cannot be taken apart"
    leaves = [leaf for leaf, _ in node.leaves()]
    mixed = next((leaf.text for leaf in leaves if leaf.is_mixed), None)
    if mixed:
        return f"{mixed!r} compares the architecture with another macro"
    if not any(leaf.is_arch for leaf in leaves):
        return ("it names no macro of the architecture; where one of its macros is derived from "
                "that, patch the #if around its #define")
    others = {leaf.text for leaf in leaves if not leaf.is_arch}
    if len(others) > MAX_ATOMS:
        return (f"{len(others)} of its parts do not depend on the architecture, and only "
                f"{MAX_ATOMS} can be tried in every combination; patch it with 'text'")
    return "" if table(text) is not None else "it is an error for some target"


def open_condition(text: str, asked: ArchSet) -> str | None:
    """The smallest rewrite that opens ``text`` for ``asked``; None when none is right."""
    return _first(text, asked, _openings(text, asked), Table.opened)


def close_condition(text: str, asked: ArchSet) -> str | None:
    """The smallest rewrite that closes ``text`` for ``asked``; None when none is right."""
    return _first(text, asked, _closings(text, asked), Table.closed)


def _first(text: str, asked: ArchSet, candidates: Iterator[str], wish: object) -> str | None:
    assert callable(wish)
    old = table(text)
    if old is None:
        return None
    wanted = wish(old, asked)
    tried = islice(candidates, MAX_CANDIDATES)
    return next((new for new in tried if table(new, old.atoms) == wanted), None)


def _replaced(text: str, pieces: Sequence[tuple[Span, str]]) -> str:
    edits = [Edit(span, new.encode("latin-1")) for span, new in pieces]
    return apply_edits(text.encode("latin-1"), edits).decode("latin-1")


def _openings(text: str, asked: ArchSet) -> Iterator[str]:
    node = parse(text)
    assert node is not None
    yield from _without_one(text, node)
    yield from _raised_bound(text, node, asked)
    yield from _widened_leaves(text, node, asked)


def _closings(text: str, asked: ArchSet) -> Iterator[str]:
    node = parse(text)
    assert node is not None
    values = numbers_of(asked)
    if max(values) == max(numbers_of(DEVICE)):
        yield _joined(text, node, [f"__CUDA_ARCH__ < {min(values)}"])
    yield _joined(text, node, [f"__CUDA_ARCH__ != {value}" for value in values])


def _joined(text: str, node: Node, tests: list[str]) -> str:
    """``text && test && ...``, inside the condition's own parentheses if it has them."""
    inner = node
    while inner.kind is Kind.GROUP:
        inner = inner.parts[0]
    body = text[inner.span.start:inner.span.end]
    if inner.kind is Kind.OR:
        body = f"({body})"
    tests = [f"({test})" for test in tests] if "(" in body else tests
    return _replaced(text, [(inner.span, " && ".join([body, *tests]))])


def _without_one(text: str, node: Node) -> Iterator[str]:
    """Drop one operand of an ``&&``: an upper bound, a ``!=``.

    Never the last one that asks for the architecture: nothing would tell
    later that this was a gate, and is open.
    """
    gates = sum(leaf.is_arch for leaf, _ in node.leaves())
    for chain in node.walk():
        if chain.kind is not Kind.AND:
            continue
        for index, part in enumerate(chain.parts):
            leaves = [leaf for leaf, _ in part.leaves()]
            if all(leaf.is_arch for leaf in leaves) and len(leaves) < gates:
                if index:
                    gone = Span(chain.parts[index - 1].span.end, part.span.end)
                else:
                    gone = Span(part.span.start, chain.parts[1].span.start)
                yield _replaced(text, [(gone, "")])


def _raised_bound(text: str, node: Node, asked: ArchSet) -> Iterator[str]:
    """``< 1200`` becomes ``< 1210``: up to the first world that is not asked."""
    highest = max(numbers_of(asked))
    above = [value for value in numbers_of(DEVICE) if value > highest]
    for leaf, positive in node.leaves():
        match = _LESS.match(leaf.text) or _GREATER.match(leaf.text)
        if not match or not positive:
            continue
        strict = "=" not in leaf.text
        if strict and not above:
            continue
        old = match[2] if match.re is _LESS else match[1]
        new = str(above[0] if strict else highest)
        raw = text[leaf.span.start:leaf.span.end]
        yield _replaced(text, [(leaf.span, re.sub(rf"\b{old}\b", new, raw, count=1))])


def _widened_leaves(text: str, node: Node, asked: ArchSet) -> Iterator[str]:
    """Arch leaves that stand in the way of an asked world get an exception for it: as few
    leaves as possible."""
    parents = {part.span: chain for chain in node.walk() for part in chain.parts}
    pieces = []
    for leaf, positive in node.leaves():
        raw = text[leaf.span.start:leaf.span.end]
        blocked = _blocked(raw, positive, asked) if leaf.is_arch else []
        if blocked:
            sign, join = ("==", "||") if positive else ("!=", "&&")
            new = f" {join} ".join([raw, *(f"__CUDA_ARCH__ {sign} {n}" for n in blocked)])
            parent = parents.get(leaf.span)
            alone = parent is None or parent.kind is Kind.GROUP or parent.kind.value == join
            pieces.append((leaf.span, new if alone else f"({new})"))
    for size in range(1, len(pieces) + 1):
        for chosen in combinations(pieces, size):
            yield _replaced(text, chosen)


def _blocked(leaf: str, positive: bool, asked: ArchSet) -> list[int]:
    """The asked numbers for which an arch leaf has the value that keeps them out."""
    try:
        holds = ArchSet(truths([on_one_line(leaf)])[0])
    except ValueError:
        return []
    return numbers_of(asked - holds if positive else asked & holds)
