"""What depends on more than macros must not be remembered for another place, tree or process,
also where a macro hides the question: ``#define HAS(x) __has_include(x)``. gcc is the judge."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from patcher.cuda import shelf
from patcher.cuda.model import Configuration, TranslationUnit
from patcher.cuda.store import Store
from patcher.cuda.walk import Walker
from tests.cuda.oracle import live_marks, read_marks, world_bit, written

HAS = ("__has_include", "HAS", "TWICE")  # as it stands, behind a macro, and behind two
MACROS = "#define HAS(x) __has_include(x)\n#define TWICE(x) HAS(x)\n"


@pytest.fixture(autouse=True)
def _every_row_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "_FEW", 0)


def unit(*include: str) -> TranslationUnit:
    return TranslationUnit("unit.cu", Configuration("test", include=include, forced=()))


def kept_by_gcc(marked: Path, include: Sequence[str], paths: Mapping[str, str],
                ) -> dict[str, set[int]]:
    run = subprocess.run(["gcc", "-std=c++17", "-E", "-x", "c++", "-nostdinc",
                          *(f"-I{folder}" for folder in include), "unit.cu"],
                         cwd=marked, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return {path: lines for path, lines in read_marks(run.stdout)[0].items() if path in paths}


def same(walker: Walker, files: Mapping[str, str], marked: Path, include: Sequence[str]) -> None:
    report = walker.walk(unit(*include), every=True)
    ours = live_marks(report, walker._tree, world_bit("host"), files)  # type: ignore[arg-type]
    assert {p: n for p, n in ours.items() if n} == kept_by_gcc(marked, include, files)


@pytest.mark.parametrize("has", HAS)
def test_a_header_of_another_package(tmp_path: Path, has: str) -> None:
    """One store, two trees with one text: a header is here and there it is not."""
    text = f"{MACROS}#if {has}(<x.h>)\nint yes;\n#else\nint no;\n#endif\n"
    for files in ({"unit.cu": text, "x.h": ""}, {"unit.cu": text}, {"unit.cu": text, "x.h": ""}):
        with written(files) as (tree, marked):
            walker = Walker(tree, store=Store(tmp_path / "store"), reports=False)
            same(walker, files, marked, ["."])
            walker.save()


@pytest.mark.parametrize("has", HAS)
def test_a_header_in_another_units_folders(has: str) -> None:
    files = {"unit.cu": '#include "ask.h"\n',
             "ask.h": f"{MACROS}#if {has}(<x.h>)\nint yes;\n#else\nint no;\n#endif\n",
             "a/x.h": "", "b/y.h": ""}
    with written(files) as (tree, marked):
        walker = Walker(tree)
        for folder in ("a", "b", "a"):
            same(walker, files, marked, [folder])


@pytest.mark.parametrize("level", ["__INCLUDE_LEVEL__", "LEVEL", "DEEP(1)"])
def test_how_deep_a_header_is_included(level: str) -> None:
    files = {"unit.cu": '#define LEVEL __INCLUDE_LEVEL__\n#define DEEP(x) LEVEL\n'
                        '#include "ask.h"\n#include "between.h"\n',
             "between.h": '#include "ask.h"\n',
             "ask.h": f"#if {level} > 1\n#define DEEPER\n#else\n#define UPPER\n#endif\n"}
    with written(files) as (tree, marked):
        walker = Walker(tree)
        report = walker.walk(unit(), every=True)
        # both inclusions, each with an arm of its own
        contexts = [live for live in report.contexts["ask.h"] if live.worlds & world_bit("host")]
        assert len(contexts) == 2
        same(walker, files, marked, [])


@pytest.mark.parametrize("follows", ["__has_include_next", "NEXT"])
def test_what_follows_a_header(follows: str) -> None:
    """One file, found in two folders of the search path: what comes behind them differs."""
    files = {"unit.cu": "#define NEXT(x) __has_include_next(x)\n"
                        "#include <sub/x.h>\n#undef FIRST\n#include <x.h>\n",
             "sub/x.h": f"#if {follows}(<x.h>)\n#define FOUND\n#else\n#define LAST\n#endif\n",
             "last/y.h": ""}
    with written(files) as (tree, marked):
        walker = Walker(tree)
        report = walker.walk(unit(".", "sub", "last"), every=True)
        assert len(report.contexts["sub/x.h"]) == 2
        same(walker, files, marked, [".", "sub", "last"])
