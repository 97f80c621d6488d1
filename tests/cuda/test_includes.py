"""Which header an #include names, and what including it again does, against nvcc."""

from __future__ import annotations

from pathlib import Path

import pytest

from patcher.arch import ALL_BITS
from patcher.cuda.model import Configuration, Missing, TranslationUnit
from patcher.cuda.walk import Walker
from patcher.tree import FolderTree
from tests.cuda.oracle import compare

compiled = pytest.mark.nvcc
WORLDS = ["host", "sm_90a", "sm_120a"]

NEXT = {
    "unit.cu": '#include <over.h>\n#include "here.h"\n#if LEVEL == 2\nint a;\n#endif\n',
    "one/over.h": "#define FIRST\n#include_next <over.h>\n#ifdef SECOND\nint b;\n#endif\n",
    "two/over.h": "#define SECOND\n#if __has_include_next(<over.h>)\nint c;\n#else\n"
                  "#define LEVEL 2\n#endif\n",
    "here.h": "#include_next <here.h>\n#ifdef THERE\nint d;\n#endif\n",
    "one/here.h": "#define THERE\n",
}
AGAIN = {
    "unit.cu": "#ifdef __CUDA_ARCH__\n#include \"guard.h\"\n#include \"once.h\"\n#endif\n"
               "#include \"guard.h\"\n#include \"once.h\"\n#include \"plain.h\"\n#define TWICE\n"
               "#include \"plain.h\"\n#include \"copy.h\"\n#if SEEN == 2\nint a;\n#endif\n",
    "guard.h": "#ifndef GUARD_H\n#define GUARD_H\n#ifdef __CUDA_ARCH__\nint b;\n#endif\n#endif\n",
    "once.h": "#pragma once\n#if __CUDA_ARCH__ >= 1200\nint c;\n#define SEEN 2\n#endif\n",
    "copy.h": "#pragma once\n#if __CUDA_ARCH__ >= 1200\nint c;\n#define SEEN 2\n#endif\n",
    "plain.h": "#ifdef TWICE\nint d;\n#else\nint e;\n#endif\n",
}
COMPUTED = {
    "unit.cu": "#define DIR sub\n#define STR(x) #x\n#define XSTR(x) STR(x)\n"
               "#define ANGLE <sub/a.h>\n#define PATH(x) XSTR(DIR/x.h)\n#ifdef __CUDA_ARCH__\n"
               "#define WHICH \"sub/b.h\"\n#else\n#define WHICH \"sub/c.h\"\n#endif\n"
               "#include ANGLE\n#include PATH(b)\n#include WHICH\n"
               "#include /* c */ \"sub/a.h\" // x\n"
               "#if A + B + C == 3\nint a;\n#endif\n#if C\nint c;\n#endif\n",
    "sub/a.h": "#define A 1\n", "sub/b.h": "#define B 1\n", "sub/c.h": "#define C 1\n",
}
STACK = {
    "unit.cu": "#define M 1\n#pragma push_macro(\"M\")\n#undef M\n#ifdef __CUDA_ARCH__\n"
               "#define M 2\n#pragma push_macro(\"M\")\n#undef M\n#endif\n"
               "#ifdef M\nint a;\n#endif\n"
               "#pragma pop_macro(\"M\")\n#if M == 2\nint b;\n#elif M == 1\nint c;\n#endif\n"
               "#pragma pop_macro(\"M\")\n#if M == 1\nint d;\n#endif\n#pragma pop_macro(\"M\")\n"
               "#if M == 1\nint e;\n#endif\n",
}


@compiled
def test_include_next_continues_after_the_folder_it_was_found_in(tmp_path: Path) -> None:
    # here.h is found beside the unit, so that its #include_next searches the whole path
    assert compare(NEXT, tmp_path, worlds=WORLDS, include=("one", "two")) == []


@compiled
def test_system_folders_come_later_and_swallow_repeats(tmp_path: Path) -> None:
    files = NEXT | {"unit.cu": "#include <over.h>\n#ifdef FIRST\nint a;\n#endif\n"}
    assert compare(files, tmp_path, worlds=["host"], include=("one", "two"), system=("one",)) == []


@compiled
def test_guards_and_once_hold_world_by_world(tmp_path: Path) -> None:
    # copy.h equals once.h: gcc takes equal files as one for #pragma once
    assert compare(AGAIN, tmp_path, worlds=WORLDS) == []


@compiled
def test_computed_includes(tmp_path: Path) -> None:
    assert compare(COMPUTED, tmp_path, worlds=WORLDS, include=(".",)) == []


@compiled
def test_saved_macros(tmp_path: Path) -> None:
    assert compare(STACK, tmp_path, worlds=WORLDS) == []


def walk(folder: Path, files: dict[str, str], **options: object):  # type: ignore[no-untyped-def]
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    setup = Configuration("test", forced=(), **options)  # type: ignore[arg-type]
    return Walker(FolderTree(folder)).walk(TranslationUnit("unit.cu", setup), every=True)


def test_includes_nest_as_deep_as_the_compiler_lets_them(tmp_path: Path) -> None:
    """gcc stops at 200 and counts the unit: what stands behind the last include is compiled once
    less, and a macro that counts ends at the same number."""
    count = "".join(f"#ifdef D{n}\n#undef D{n}\n#define D{n + 1}\n#else\n" for n in range(198))
    files = {"unit.cu": '#define D0\n#include "a.h"\n#ifdef D198\nint a;\n#endif\n',
             "a.h": count + "#endif\n" * 198 + '#include "a.h"\n'}
    assert compare(files, tmp_path, worlds=["host"]) == []


def test_missing_headers_are_listed_with_their_place(tmp_path: Path) -> None:
    report = walk(tmp_path, {"unit.cu": '#include "a.h"\n', "a.h": "\n#include <gone.h>\n"})
    assert report.missing == (Missing("<gone.h>", "a.h", 2),)


def test_the_chain_is_a_shortest_one(tmp_path: Path) -> None:
    files = {"unit.cu": '#include "a.h"\n#include "b.h"\n', "a.h": '#pragma once\n#include "c.h"\n',
             "c.h": '#pragma once\n#include "d.h"\n', "d.h": "#pragma once\n",
             "b.h": '#include "d.h"\n'}
    report = walk(tmp_path, files)
    assert report.chain("d.h") == ("unit.cu", "b.h", "d.h")
    assert report.chain("nowhere.h") == ()


def test_each_inclusion_that_differs_is_a_context(tmp_path: Path) -> None:
    # X-macro style: the same file, once without and once with the switch
    files = {"unit.cu": '#include "x.h"\n#define ON\n#include "x.h"\n#include "x.h"\n',
             "x.h": "#if defined(ON) && __CUDA_ARCH__ >= 900\n#endif\n"}
    states = walk(tmp_path, files).arms["x.h", 1]
    assert [s.closed == ALL_BITS for s in states] in ([True, False], [False, True])


def test_a_folder_outside_the_root_is_not_reached(tmp_path: Path) -> None:
    (tmp_path / "secret.h").write_text("#define SECRET\n")
    report = walk(tmp_path / "root", {"unit.cu": '#include "../secret.h"\n'})
    assert report.files == {"unit.cu"}
    assert [m.include for m in report.missing] == ['"../secret.h"']
