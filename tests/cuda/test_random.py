"""Random projects: gcc and the walker must keep the same lines, whatever is written."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patcher.arch import target
from patcher.cuda.model import TranslationUnit
from patcher.cuda.walk import Walker
from tests.cuda.oracle import configuration, live_marks, read_marks, world_bit, written

pytestmark = pytest.mark.slow
WORLDS = ("host", "sm_90a", "sm_120f")
NAMES = ("A", "B", "C", "__CUDA_ARCH__")
CALLS = ("F", "G")

name = st.sampled_from(NAMES)
call = st.sampled_from(CALLS)
literal = st.sampled_from(["0", "1", "2", "3u", "-1", "900", "1200", "0x10", "'a'"])
atom = st.recursive(
    st.one_of(name, literal, name.map("defined({})".format), name.map("defined {}".format),
              st.sampled_from(["__CUDA_ARCH_FAMILY_SPECIFIC__ == 1200", "HEADER_H", "F"])),
    lambda inner: st.one_of(
        inner.map("({})".format), inner.map("!{}".format), inner.map("-{}".format),
        st.builds("{}({})".format, call, inner), st.builds("CAT({}, {})".format, name, inner),
        st.builds("{} {} {}".format, inner, st.sampled_from(
            ["&&", "||", "==", "!=", "<", ">=", "+", "-", "*", "&", "|", "^", "<<", "and", "or"]),
            inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner)),
    max_leaves=6)
body = st.one_of(literal, name, atom, st.sampled_from(["", "x", "x + 1", "F(x)", "G", "(x)", "x##A",
                                                       "defined(A)", "A B", "F G", "1)", "F("]))
simple = st.one_of(
    st.builds("#define {} {}".format, st.sampled_from(NAMES[:3]), body),
    st.builds("#define {}(x) {}".format, call, body),
    st.builds("#define {}(x, ...) x + {}".format, call, st.sampled_from(["__VA_ARGS__", "0"])),
    st.builds("#undef {}".format, st.sampled_from(NAMES[:3] + CALLS)),
    st.builds('#include "{}.h"'.format, st.sampled_from(["once", "guard", "plain"])),
    st.builds('#pragma {}_macro("{}")'.format, st.sampled_from(["push", "pop"]), name),
    st.sampled_from(["int text;", "#error no", "/* #if 0 */", '"#if 0";', "#include HEADER"]))


def block(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    opening = st.one_of(st.builds("#if {}".format, atom), st.builds("#ifdef {}".format, name),
                        st.builds("#ifndef {}".format, name))
    arm = st.tuples(st.builds("#elif {}".format, atom), inner)
    return st.builds(
        lambda head, first, arms, last: [head, *first, *(x for a, b in arms for x in (a, *b)),
                                         *(["#else", *last] if last else []), "#endif"],
        opening, inner, st.lists(arm, max_size=2), inner)


lines = st.recursive(
    st.lists(simple, min_size=1, max_size=4),
    lambda inner: st.lists(st.one_of(st.lists(simple, max_size=2), block(inner)), min_size=1,
                           max_size=4).map(lambda parts: [x for part in parts for x in part]),
    max_leaves=8)


@st.composite
def projects(draw: st.DrawFn) -> dict[str, str]:
    text = {key: "\n".join(draw(lines)) for key in ("unit.cu", "once.h", "guard.h", "plain.h")}
    # a header may include the others, but nothing twice without end
    for key in ("once.h", "guard.h", "plain.h"):
        text[key] = text[key].replace('"plain.h"', '"guard.h"')
    text["plain.h"] = text["plain.h"].replace('"once.h"', '"guard.h"')
    text["once.h"] = "#pragma once\n" + text["once.h"]
    text["guard.h"] = f"#ifndef HEADER_H\n#define HEADER_H\n{text['guard.h']}\n#endif"
    prefix = '#define HEADER "plain.h"\n#define CAT(a, b) a##b\n#define F(x) x\n#define G(x) F(x)\n'
    text["unit.cu"] = prefix + text["unit.cu"]
    return {key: value.replace("#include HEADER", '#include "once.h"') + "\n"
            if key != "unit.cu" else value + "\n" for key, value in text.items()}


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(files=projects())
def test_gcc_keeps_the_same_lines(files: dict[str, str]) -> None:
    with written(files) as (tree, marked):
        setup = configuration(forced=())
        report = Walker(tree).walk(TranslationUnit("unit.cu", setup), every=True)
        for world in WORLDS:
            flags = [] if world == "host" else [
                f"-D{n}={v}" for n, v in target(world).macros.items()]
            run = subprocess.run(["gcc", "-std=c++17", "-E", "-x", "c++", *flags, "unit.cu"],
                                 cwd=marked, capture_output=True, text=True, check=False)
            real, _ = read_marks(run.stdout)
            ours = live_marks(report, tree, world_bit(world), files)
            for path in files:
                assert ours.get(path, set()) == real.get(path, set()), (world, path, run.stderr)


@pytest.fixture(autouse=True)
def _gcc() -> None:
    try:
        subprocess.run(["gcc", "--version"], capture_output=True, check=True)
    except FileNotFoundError:
        pytest.skip("gcc is not here")
