"""Composition is exact: edits of one base, and other people's edits beside ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patcher.composition import ForeignClash, foreign_edits, recompose, transplant
from patcher.edits import Edit, Span, apply_edits

BASE = b"one\ntwo\nthree\nfour\nfive\n"
TWO = Edit(Span(4, 7), b"TWO!")  # the word "two"
FOUR = Edit(Span(14, 18), b"4")  # the word "four"

texts = st.binary(max_size=60).map(lambda b: bytes(b"ab\n "[c % 4] for c in b))


@st.composite
def based_edits(draw: st.DrawFn) -> tuple[bytes, list[Edit]]:
    """A base and edits that neither overlap nor touch."""
    base = draw(texts)
    edits, position = [], 0
    while position <= len(base):
        start = draw(st.integers(position, len(base)))
        end = draw(st.integers(start, min(len(base), start + 4)))
        edits.append(Edit(Span(start, end), draw(st.binary(max_size=4))))
        position = end + 1
        if draw(st.booleans()):
            break
    return base, edits


@given(texts, texts)
def test_foreign_edits_turn_one_text_into_the_other(one: bytes, other: bytes) -> None:
    assert apply_edits_loosely(one, foreign_edits(one, other)) == other


def apply_edits_loosely(base: bytes, edits: tuple[Edit, ...]) -> bytes:
    """Edits of a diff may be adjacent, which apply_edits refuses: make them from the end."""
    for edit in reversed(edits):
        base = base[:edit.span.start] + edit.new + base[edit.span.end:]
    return base


@given(based_edits(), st.data())
def test_recompose_leads_from_any_subset_to_any_other(
        case: tuple[bytes, list[Edit]], data: st.DataObject) -> None:
    base, edits = case
    old = [e for e in edits if data.draw(st.booleans())]
    new = [e for e in edits if data.draw(st.booleans())]
    steps = recompose(base, old, new)
    assert apply_edits(apply_edits(base, old), steps) == apply_edits(base, new)


def test_recompose_replaces_overlapping_edits_of_a_changed_patchset() -> None:
    wider = Edit(Span(4, 13), b"2-3")
    steps = recompose(BASE, [TWO, FOUR], [wider, FOUR])
    assert apply_edits(apply_edits(BASE, [TWO, FOUR]), steps) == b"one\n2-3\n4\nfive\n"


def test_a_foreign_edit_of_the_next_line_is_kept() -> None:
    left = apply_edits(BASE, [TWO])
    disk = left.replace(b"three", b"THREE").replace(b"one", b"zero\none")
    back = transplant(left, disk, recompose(BASE, [TWO], []))
    assert back == b"zero\none\ntwo\nTHREE\nfour\nfive\n"


@pytest.mark.parametrize(("find", "foreign"), [
    (b"TWO!", b"TWO?"),  # inside our text
    (b"TWO!", b"TWO! and more"),  # directly behind it, in the same line
    (b"one\nTWO!\n", b""),  # our line is gone with another
])
def test_a_foreign_edit_inside_our_span_is_refused(find: bytes, foreign: bytes) -> None:
    left = apply_edits(BASE, [TWO])
    with pytest.raises(ForeignClash):
        transplant(left, left.replace(find, foreign), recompose(BASE, [TWO], []))


def test_a_foreign_edit_in_a_span_that_stays_does_not_matter() -> None:
    left = apply_edits(BASE, [TWO, FOUR])
    disk = left.replace(b"TWO!", b"TWO?")
    assert transplant(left, disk, recompose(BASE, [TWO, FOUR], [TWO])) == BASE.replace(
        b"two", b"TWO?")


def test_thousands_of_equal_lines_are_compared_in_bounded_time() -> None:
    left = b"#endif\n" * 30_000
    disk = b"// head\n" + left.replace(b"#endif\n", b"#endif\n#if 1\n", 1) + b"// tail\n"
    assert apply_edits_loosely(left, foreign_edits(left, disk)) == disk
