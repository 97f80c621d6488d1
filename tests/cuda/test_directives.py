"""Ladders, spans and the form in which conditions are compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patcher.arch import ALL_BITS, HOST_BIT
from patcher.cuda.directives import normalise, parse
from patcher.cuda.live import Segment, segments
from patcher.cuda.model import Configuration, TranslationUnit
from patcher.cuda.walk import Walker
from patcher.edits import Edit, apply_edits
from patcher.tree import FolderTree

GUARD = "defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200"


@pytest.mark.parametrize("spelling", [
    GUARD,
    "(defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))",
    "__CUDA_ARCH__<1200 && (defined __CUDA_ARCH__ && __CUDA_ARCH__>=900)",
    "(__CUDA_ARCH__ >= 900) and ((__CUDA_ARCH__ < 1200)) and defined ( __CUDA_ARCH__ )",
    "defined(__CUDA_ARCH__) /* device */ && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200 // sm90",
    "defined(__CUDA_ARCH__) && \\\n  __CUDA_ARCH__ >= 900 && \\\n  __CUDA_ARCH__ < 1200",
])
def test_spellings_of_one_condition_are_equal(spelling: str) -> None:
    assert normalise(spelling) == normalise(GUARD)


@pytest.mark.parametrize("core", [
    "{open}A{close}".format(open="(" * 5000, close=")" * 5000),
    f"{('!' * 199 + '(') * 150}A{')' * 150}",
    f"{'(A && ' * 199}A{')' * 199}",
    f"{'(' * 150}{'A, ' * 150}A{')' * 150}",
    ", ".join(["A"] * 50_000),
    f"{'1 ? ' * 5000}A{' : 1' * 5000}",
    f"{'F(' * 5000}{')' * 5000}",
])
def test_deep_conditions_compare_like_others(core: str) -> None:
    """A comment changes no condition, however deep; another last name does."""
    assert normalise(core + " /* deep */") == normalise(core)
    assert normalise(core) != normalise(core + " || B")


@pytest.mark.parametrize("text", ["defined", "defined(", "defined )", "A &&", "(A", "A ? B"])
def test_what_is_no_expression_equals_itself_alone(text: str) -> None:
    """A compiler rejects each of these, so none equals the condition that it begins like."""
    assert normalise(f"{text} /* comment */") == normalise(text)
    assert normalise(text) not in ("A", "defined(A)", "A ? B : 0")


@pytest.mark.parametrize("other", [
    "defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900",
    "__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200",
    "defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 || __CUDA_ARCH__ < 1200",
    "defined(__CUDA_ARCH__) && __CUDA_ARCH__ > 900 && __CUDA_ARCH__ < 1200",
    "!(defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200)", "", "1 2",
])
def test_other_conditions_are_not(other: str) -> None:
    assert normalise(other) != normalise(GUARD)


def test_operators_keep_their_meaning() -> None:
    assert normalise("a - b - c") != normalise("a - (b - c)")
    assert normalise("a && (b || c)") != normalise("a && b || c")
    assert normalise("(a && b) && c") == normalise("c && (b && a)")
    assert normalise("a < b") != normalise("b < a")
    assert normalise("f(a, b)") != normalise("f(b, a)")
    assert normalise("not a") == normalise("!a") == normalise("! ( a )")
    assert normalise("(a + b) * 2") != normalise("a + b * 2")
    assert normalise("x ? y : z") != normalise("(x ? y : z) && w")


@given(st.lists(st.sampled_from(["a", "!b", "c > 1", "defined(D)"]), min_size=1, max_size=5),
       st.randoms())
def test_order_does_not_matter(operands: list[str], random: object) -> None:
    shuffled = sorted(operands, key=lambda _: random.random())  # type: ignore[attr-defined]
    for operator in ("&&", "||"):
        assert normalise(operator.join(operands)) == normalise(f" {operator} ".join(shuffled))


def test_normalising_twice_changes_nothing() -> None:
    for text in (GUARD, "a - b - c", "!(a || b) && c ? d : e", "f(x) and not defined y"):
        assert normalise(normalise(text)) == normalise(text)


SOURCE = b"""\
#ifdef A // first
a
# if /* odd */ B && \\
     C /* tail */
b
#\telse
c
#endif
#elif !defined(D)
d
#endif
"""


def test_ladders_nest() -> None:
    source = parse(SOURCE)
    outer, inner = source.ladders
    assert [(a.kind, a.condition) for a in outer.arms] == [
        ("ifdef", "defined(A)"), ("elif", "!defined(D)")]
    assert [(a.kind, a.condition) for a in inner.arms] == [("if", "B && C"), ("else", "")]
    assert [(a.line, a.body_line, a.end_line) for a in outer.arms] == [(1, 2, 9), (9, 10, 11)]
    assert [(a.line, a.body_line, a.end_line) for a in inner.arms] == [(3, 5, 6), (6, 7, 8)]
    assert (outer.depth, outer.parent, inner.depth, inner.parent) == (0, None, 1, 1)
    assert source.enclosing(5) == inner.arms[0]
    assert source.enclosing(2) == outer.arms[0]
    assert source.warnings == ()


def test_spans_hold_the_condition_and_nothing_else() -> None:
    arms = [arm for ladder in parse(SOURCE).ladders for arm in ladder.arms]
    texts = [SOURCE[a.span.start : a.span.end] for a in arms]
    assert texts == [b"A", b"!defined(D)", b"B && \\\n     C", b""]
    assert [SOURCE[a.word.start : a.word.end] for a in arms] == [b"ifdef", b"elif", b"if", b"else"]


@pytest.mark.parametrize("change", [lambda b: b, lambda b: b.replace(b"\n", b"\r\n"),
                                    lambda b: b"\xef\xbb\xbf" + b, lambda b: b"\xc3\xa9 \0\n" + b])
def test_a_condition_can_be_replaced_in_place(change: Callable[[bytes], bytes]) -> None:
    source = change(SOURCE)
    inner = parse(source).ladders[1].arms[0]
    edited = apply_edits(source, [Edit(inner.span, b"NEW")])
    assert parse(edited).ladders[1].arms[0].condition == "NEW"
    assert edited.count(b"/* odd */ NEW /* tail */") == 1


@pytest.mark.parametrize(("text", "warning"), [
    (b"#if 1\n", "line 1: unterminated #if"), (b"\n#endif\n", "line 2: #endif without #if"),
    (b"#else\n", "line 1: #else without #if"),
])
def test_what_is_unbalanced_is_named(text: bytes, warning: str) -> None:
    assert parse(text).warnings == (warning,)


@pytest.mark.parametrize("text", [
    b'const char* s = R"(\n#if 0\n)";\n', b'R"x(\n#if 0\n)" )x"\n', b"/*\n#if 0\n*/\n",
    b"// comment \\\n#if 0\n", b'"\\\n#if 0"\n', b"x #if 0\n", b"#define X \\\n#if 0\n",
    b"/* a */ x /* b */ #if 0\n", b'LR"(\n#if 0\n)"\n', b"#pragma if\n", b"#error if\n#warning\n",
])
def test_what_only_looks_like_a_directive(text: bytes) -> None:
    assert parse(text).ladders == ()


@pytest.mark.parametrize("text", [
    b"/* a */ #if 1\n#endif", b"\t # \t if 1\n#endif", b"%:if 1\n%:endif", b"#\\\nif 1\n#endif",
    b"#i\\\nf 1\n#endif",
    b"/*\n*/ # /* */ if 1\n#endif", b"\0#if 1\n#endif", b"#if 1\r\n#endif\r\n",
    b"char c = '\"';\n#if 1\n#endif", b"int x = 1'000;\n#if 1\n#endif", b'FOOR"(";\n#if 1\n#endif',
    b"it's\n#if 1\n#endif", b'"open\n#if 1\n#endif', b"// R\"(\n#if 1\n#endif\n// )\"",
])
def test_directives_in_every_dress(text: bytes) -> None:
    (ladder,) = parse(text).ladders
    assert len(ladder.arms) == 1
    assert parse(text).warnings == ()


def test_live_lines_follow_the_states(tmp_path: Path) -> None:
    text = "a\n#ifdef __CUDA_ARCH__\nb\n# if OPEN\nc\n# endif\nd\n#else\ne\nf\n#endif\ng\n"
    (tmp_path / "unit.cu").write_text(text)
    setup = Configuration("test", forced=(), open_macros=frozenset({"OPEN"}))
    report = Walker(FolderTree(tmp_path)).walk(TranslationUnit("unit.cu", setup), every=True)
    (context,) = report.contexts["unit.cu"]
    device = ALL_BITS & ~HOST_BIT
    assert list(segments(parse(text.encode()), context, 12)) == [
        Segment(1, 1, ALL_BITS, 0), Segment(3, 3, device, 0), Segment(5, 5, 0, device),
        Segment(7, 7, device, 0), Segment(9, 10, HOST_BIT, 0), Segment(12, 12, ALL_BITS, 0)]
