"""Projects that mean harm, and what only the machine could say."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from patcher.cmake.model import Settings
from patcher.cmake.project import configure
from patcher.errors import InputError
from patcher.tree import FolderTree


def _read(folder: Path, text: str, **variables: str) -> dict[str, str]:
    (folder / "CMakeLists.txt").write_text(text)
    return dict(configure(FolderTree(folder), "", Settings(variables)).variables)


@pytest.mark.parametrize("text", [
    "while(1)\nset(A 1)\nendwhile()\n",
    "while(1)\nendwhile()\n",
    "function(f)\nf()\nendfunction()\nf()\n",
    "macro(m)\nm()\nendmacro()\nm()\n",
    "if(1)\n" * 100 + "endif()\n" * 100,
    "set(A\n",
    "endif()\n",
    "if(1)\n",
    ")",
])
def test_what_does_not_end_is_refused_in_bounded_time(text: str, tmp_path: Path) -> None:
    before = time.process_time()
    with pytest.raises(InputError):
        _read(tmp_path, text)
    assert time.process_time() - before < 15


@pytest.mark.parametrize("text", [
    "set(A ab)\nforeach(x RANGE 60)\nset(A ${A}${A})\nendforeach()\n",
    "set(A \"${A}${A}\")\n" * 60,
    "foreach(x RANGE 1 200000)\nlist(APPEND A yyyyyyyyyyyyyyyyyyyy)\nendforeach()\n",
])
def test_values_do_not_grow_without_bounds(text: str, tmp_path: Path) -> None:
    before = time.process_time()
    try:
        found = _read(tmp_path, text, A="ab")
    except InputError:
        found = {}
    assert time.process_time() - before < 15
    assert len(found.get("A", "")) <= 1 << 20


@pytest.mark.parametrize("expression", ["^(a+)+$", "^(a|a)*$", "^(a*)*b", "((a+))+x", "(aa|a+)+$",
                                        "a*a*a*a*a*a*a*a*b"])
def test_an_expression_that_could_take_for_ever_is_not_tried(expression: str,
                                                             tmp_path: Path) -> None:
    before = time.process_time()
    found = _read(tmp_path, f'string(REGEX MATCH "{expression}" A "{"a" * 40}!")\n')
    assert time.process_time() - before < 2
    assert "A" not in found


def test_nothing_outside_the_project_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret.cmake").write_text("set(SEEN 1)\n")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "link.cmake").symlink_to(tmp_path / "secret.cmake")
    text = (f"include({tmp_path}/secret.cmake)\ninclude(../secret.cmake)\n"
            f"file(READ {tmp_path}/secret.cmake TEXT)\nfile(READ ../secret.cmake OTHER)\n"
            f'file(GLOB FOUND "{tmp_path}/*" "../*")\n')
    found = _read(tmp_path / "project", text)
    assert {"SEEN", "TEXT", "OTHER"}.isdisjoint(found)
    assert found["FOUND"] == ""
    linked = tmp_path / "project"
    with pytest.raises(Exception, match="leads out"):
        _read(linked, "include(link.cmake)\n")


def test_what_the_machine_would_decide_is_said(tmp_path: Path) -> None:
    """An arm that only gives up is not taken; the condition is listed with its place."""
    (tmp_path / "CMakeLists.txt").write_text(
        "execute_process(COMMAND x RESULT_VARIABLE CODE OUTPUT_VARIABLE TEXT)\n"
        "if(NOT CODE EQUAL 0)\n  message(FATAL_ERROR no)\nelse()\n  set(A 1)\nendif()\n"
        "if(TEXT STREQUAL \"yes\" AND 0)\n  set(B 1)\nendif()\n"
        "find_package(Thing)\nif(Thing_FOUND OR 1)\n  set(C 1)\nendif()\n")
    read = configure(FolderTree(tmp_path), "", Settings())
    assert not read.fatal
    assert {"A", "C"} <= set(read.variables)
    assert "B" not in read.variables
    assert [(u.line, u.text) for u in read.undecided] == [(2, "if(NOT CODE EQUAL 0)")]


def test_where_a_project_gives_up_is_said(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "set(A 1)\nif(NOT CMAKE_CUDA_FLAGS)\n  message(FATAL_ERROR \"no \" arch)\nendif()\n")
    assert configure(FolderTree(tmp_path), "", Settings()).fatal == "CMakeLists.txt:3 no arch"


def test_macros_and_functions_differ_in_their_variables(tmp_path: Path) -> None:
    """A macro sets its caller's variables, a function its own unless PARENT_SCOPE is said."""
    found = _read(tmp_path, "function(f)\nset(A 1)\nset(B 1 PARENT_SCOPE)\nendfunction()\n"
                            "macro(m)\nset(C 1)\nendmacro()\nf()\nm()\n")
    assert {"B", "C"} <= set(found)
    assert "A" not in found
