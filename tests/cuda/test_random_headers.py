"""Random headers with every kind of directive, many in one unit, against nvcc's own passes.

Whole sequences of markers are compared, and the files that are read. ``SM_PATCH_EXAMPLES=500``
makes hundreds of units with 12 headers each, ``SM_PATCH_SEED=8`` others. No macro gets a
wrong number of arguments: gcc refuses that, and what it keeps then differs from what we keep.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from patcher.cuda.model import TranslationUnit
from patcher.tree import FolderTree
from tests.cuda.oracle import (
    WORLDS,
    Oracle,
    configuration,
    read_sequence,
    shadow,
    world_bit,
)
from tests.cuda.oracle_run import first_difference
from tests.cuda.sequence import RecordingWalker, Sequences
from tests.shapes import examples, matching, printed_shapes, seen

__all__ = ["printed_shapes"]

pytestmark = pytest.mark.nvcc
SHAPES = {
    "ladder": r"#\s*if", "nested": r"(?s)#\s*if.*#\s*if.*#endif.*#endif", "elif": "#elif ",
    "elifdef": "#elifn?def", "macro call": r"\b[FG]\(", "paste": "##", "has": "__has_",
    "alternative": r"\b(?:and|or|not|bitand|bitor|xor|compl)\b", "unsigned": r"\du\b",
    "character": "'", "digraph": "%:", "splice": r"\\\n", "raw string": 'R"', "once": "once",
    "computed include": r"#include [A-Z]", "include_next": "include_next",
    "defined in a macro": "#define.*defined",
}
OBJECTS = ("A", "B", "C", "OPEN", "__CUDA_ARCH__")
CALLS = ("F", "G", "CUDA_ARCH_FAMILY", "CUDA_ARCH_CONDITIONAL_OR_FAMILY")
NUMBERS = ("0", "1", "2u", "900", "1200", "1210", "0x4B0", "0b11", "1'200", "'a'", "'\\n'", "'ab'",
           "L'x'", "u8'y'", "18446744073709551615u", "-1", "010", "true", "__cplusplus", "201703L")
ASKED = (
    '__has_include("h0.h")', "__has_include(<vector>)", "__has_include(<no/such.h>)",
    "__has_include_next(<h1.h>)", "__has_builtin(__builtin_expect)", "__has_builtin(no_such)",
    "__has_cpp_attribute(nodiscard)", "__has_cpp_attribute(gnu::noinline)",
    "__has_attribute(aligned)", "__INCLUDE_LEVEL__ > 1",
    "defined(__CUDA_ARCH_FEAT_SM120_ALL)", "defined __CUDA_ARCH_SPECIFIC__",
    "__CUDA_ARCH_FAMILY_SPECIFIC__ == 1200", "__CUDACC_VER_MAJOR__ >= 12", "defined(__CUDACC__)")
OPERATORS = ("&&", "||", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "&", "|", "^", "<<", ">>",
             "and", "or", "bitand", "bitor", "xor", "not_eq", "/", "%")

name, call = st.sampled_from(OBJECTS), st.sampled_from(CALLS)
atom = st.recursive(
    st.one_of(name, st.sampled_from(NUMBERS), st.sampled_from(ASKED), call,
              name.map("defined({})".format), call.map("defined {}".format)),
    lambda inner: st.one_of(
        inner.map("({})".format), inner.map("!{}".format), inner.map("not {}".format),
        inner.map("compl {}".format), st.builds("{}({})".format, call, inner),
        st.builds("{} {} {}".format, inner, st.sampled_from(OPERATORS), inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner)),
    max_leaves=5)
body = st.one_of(atom, st.sampled_from([
    "", "x", "(x)", "x##1", "A##x", "#x", "defined(A)", "defined x", "__VA_ARGS__", "A B", "1)",
    "__VA_OPT__(1 +) 0", "x /* A */ + 1", "F(x)", "G", '"last.h"', "<last.h>", "x##x", "90##0"]))
plain = st.one_of(
    st.builds("#define {} {}".format, st.sampled_from(OBJECTS[:4]), body),
    st.builds("#define {}({}) {}".format, st.sampled_from(CALLS[:2]),
              st.sampled_from(["x", "x, ...", "...", "x..."]), body),
    st.builds("# undef {} ".format, st.sampled_from(OBJECTS[:4] + CALLS[:2])),
    st.builds('#include "h+{}.h"'.format, st.integers(1, 4)),
    st.builds("#include <h+{}.h>".format, st.integers(1, 4)),
    st.builds("#include_next <h+{}.h>".format, st.integers(1, 4)),
    st.sampled_from([
        "#include NEXT", "#define NEXT PATH", "#define NEXT <last.h>", "#pragma once",
        "#pragma unroll", "#error no", "#warning w",
        "#ident \"x\"", "#", "#if/**/1\n#endif", "#/* c */if 1\n#endif", "# /* a\nb */ define A 2",
        "#def\\\nine B 1\\\n + 1", "int text; /* #if 0", "*/", "// #if 0 \\\n#if 0", '"#if 0";',
        'auto r = R"x(\n#if 0\n)x";', "'\"'; // quote",
        '#pragma push_macro("A")', '#pragma pop_macro("A")', "%:define C 7", "??=define C 8",
        "#if 0\n' unbalanced\n#endif", "#define F", "#define __CUDA_ARCH__ 5"]))


def block(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    test = st.one_of(atom.map("if {}".format), name.map("ifdef {}".format),
                     name.map("ifndef {}".format))
    more = st.one_of(atom.map("#elif {}".format), name.map("#elifdef {}".format),
                     name.map("#elifndef {}".format))
    arms = st.lists(st.tuples(more, inner), max_size=2)
    last = st.one_of(st.none(), inner)
    return st.builds(
        lambda mark, head, first, arms, last: [
            f"{mark}{head}", *first, *(line for arm, rest in arms for line in (arm, *rest)),
            *(["#else // x", *last] if last is not None else []), "#endif A"],
        st.sampled_from(["#", "#  ", "#\t/* */ "]), test, inner, arms, last)


lines = st.recursive(
    st.lists(plain, max_size=3),
    lambda inner: st.lists(st.one_of(st.lists(plain, max_size=2), block(inner)), min_size=1,
                           max_size=3).map(lambda parts: [x for part in parts for x in part]),
    max_leaves=6)


def headers_of(count: int) -> st.SearchStrategy[list[list[str]]]:
    return st.lists(lines, min_size=count, max_size=count)


def count(headers: list[list[str]]) -> None:
    """Count the shapes of each."""
    for text in headers:
        seen("random headers", *matching("\n".join(text), SHAPES))


def numbered(text: list[str], number: int, size: int) -> str:
    """A header that includes only later ones: a circle or a header that is not there ends all."""
    def later(found: re.Match[str]) -> str:
        other = number + int(found[1])
        return f"h{other}" if other < size else "last"

    return re.sub(r"h\+(\d)", later, "\n".join([*text, ""]))


def disagreement(headers: list[list[str]], second: list[list[str]], worlds: Iterable[str]) -> str:
    """Where the walker and the compiler part in one unit that includes all headers."""
    with tempfile.TemporaryDirectory() as folder:
        plain, marked = Path(folder) / "plain", Path(folder) / "marked"
        size = len(headers)
        for group, texts in (("a", headers), ("b", [*second, *[[]] * (size - len(second))])):
            (plain / group).mkdir(parents=True)
            (plain / group / "last.h").write_text("#ifdef A\n#undef A\n#endif\n")
            for number, text in enumerate(texts):
                written = numbered(text, number, size)
                if group == "b":  # nothing comes after it
                    written = written.replace("#include_next", "#include")
                (plain / group / f"h{number}.h").write_text(written)
        unit = '#define PATH "last.h"\n#define NEXT PATH\n'  # what is no path cannot be included
        unit += "".join(f"#include <h{number}.h>\n" for number in range(size))
        (plain / "unit.cu").write_text(unit)
        shadow(plain, ["."], marked)
        setup = configuration(["a", "b"])
        tree = FolderTree(plain)
        record = RecordingWalker(tree).record(TranslationUnit("unit.cu", setup))
        sequences, oracle = Sequences(tree), Oracle(marked, setup)
        for world in worlds:
            found, files = read_sequence(oracle.preprocess("unit.cu", world))
            real = [m for m in found if not m[0].startswith("/")]
            bit = world_bit(world)
            mine = sequences.of(record, bit)
            if mine != real:
                return f"{world}: {first_difference(mine, real)}"
            read = {r.path for r in record.below() if r.worlds & bit and r.path[:2] in ("a/", "b/")}
            if read != {f for f in files if f[:2] in ("a/", "b/")}:
                return f"{world}: {sorted(read ^ files)}"
    return ""


@seed(20)
@settings(max_examples=4, deadline=None, phases=[Phase.generate], database=None,
          suppress_health_check=list(HealthCheck))
@given(headers=headers_of(12), second=st.lists(lines, max_size=3))
def test_a_fixed_sample(headers: list[list[str]], second: list[list[str]]) -> None:
    count(headers)
    assert disagreement(headers, second, ("host", "sm_90a", "sm_121f")) == ""


@pytest.mark.slow
@seed(int(os.environ.get("SM_PATCH_SEED", "7")))
@settings(max_examples=examples(20), deadline=None, phases=[Phase.generate], database=None,
          suppress_health_check=list(HealthCheck))
@given(headers=headers_of(12), second=st.lists(lines, max_size=3))
def test_nvcc_keeps_the_same_lines(headers: list[list[str]], second: list[list[str]]) -> None:
    count(headers)
    assert disagreement(headers, second, WORLDS) == ""
