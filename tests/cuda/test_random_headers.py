"""Random headers with every kind of directive, a dozen in one unit, against nvcc's own passes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patcher.cuda.model import TranslationUnit
from patcher.cuda.predefined import ToolkitMacros
from patcher.tree import FolderTree
from tests.cuda.oracle import configuration
from tests.cuda.oracle_run import Comparison, Corpus

pytestmark = [pytest.mark.slow, pytest.mark.nvcc]
COUNT = 12
OBJECTS = ("A", "B", "C", "OPEN", "__CUDA_ARCH__")
CALLS = ("F", "G", "CUDA_ARCH_FAMILY", "CUDA_ARCH_CONDITIONAL_OR_FAMILY")
NUMBERS = ("0", "1", "2u", "900", "1200", "1210", "0x4B0", "0b11", "1'200", "'a'", "'\\n'", "'ab'",
           "L'x'", "u8'y'", "18446744073709551615u", "-1", "010", "true", "__cplusplus", "201703L")
ASKED = (
    '__has_include("h0.h")', "__has_include(<vector>)", "__has_include(<no/such.h>)",
    "__has_include_next(<h1.h>)", "__has_builtin(__builtin_expect)", "__has_builtin(no_such)",
    "__has_cpp_attribute(nodiscard)", "__has_cpp_attribute(gnu::noinline)",
    "__has_attribute(aligned)", "__INCLUDE_LEVEL__ > 1", "__COUNTER__ % 2",
    "defined(__CUDA_ARCH_FEAT_SM120_ALL)", "defined __CUDA_ARCH_SPECIFIC__",
    "__CUDA_ARCH_FAMILY_SPECIFIC__ == 1200", "__CUDACC_VER_MAJOR__ >= 12", "defined(__CUDACC__)")
OPERATORS = ("&&", "||", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "&", "|", "^", "<<", ">>",
             "and", "or", "bitand", "bitor", "xor", "not_eq", "/", "%", ",")

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
    "__VA_OPT__(1 +) 0", "x /* A */ + 1", "F(x)", "G", '"h2.h"', "<h3.h>", "x##x", "90##0"]))
plain = st.one_of(
    st.builds("#define {} {}".format, st.sampled_from(OBJECTS[:4]), body),
    st.builds("#define {}({}) {}".format, st.sampled_from(CALLS[:2]),
              st.sampled_from(["x", "x, ...", "...", "x, y", "x..."]), body),
    st.builds("# undef {} ".format, st.sampled_from(OBJECTS[:4] + CALLS[:2])),
    st.builds('#include "h{}.h"'.format, st.integers(0, 3)),
    st.builds("#include <h{}.h>".format, st.integers(0, 3)),
    st.builds("#include_next <h{}.h>".format, st.integers(0, 3)),
    st.sampled_from([
        "#include A", "#include OPEN", "#pragma once", "#pragma unroll", "#error no", "#warning w",
        "#ident \"x\"", "#", "#if/**/1\n#endif", "#/* c */if 1\n#endif", "# /* a\nb */ define A 2",
        "#def\\\nine B 1\\\n + 1", "int text; /* #if 0", "*/", "// #if 0 \\\n#if 0", '"#if 0";',
        'auto r = R"x(\n#if 0\n)x";', "'\"'; // quote", "_Pragma(\"once\")",
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


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(headers=st.lists(lines, min_size=COUNT, max_size=COUNT), second=st.lists(lines, max_size=3))
def test_nvcc_keeps_the_same_lines(headers: list[list[str]], second: list[list[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "plain"
        for group, texts in (("a", headers), ("b", second)):
            (place / group).mkdir(parents=True)
            for number, text in enumerate(texts):
                (place / group / f"h{number}.h").write_text("\n".join([*text, ""]))
        unit = "".join(f"#include <h{number}.h>\n" for number in range(COUNT))
        (place / "unit.cu").write_text(unit)
        setup = configuration(["a", "b"])
        corpus = Corpus("random", FolderTree(place), (TranslationUnit("unit.cu", setup),),
                        ToolkitMacros())
        row = Comparison(corpus, Path(folder)).compare(corpus.units[0])
        problems = row["problems"]
        assert isinstance(problems, list)
        assert [p for p in problems if "is unknown" not in p] == []
