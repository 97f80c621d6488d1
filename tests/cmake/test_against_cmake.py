"""What a project builds: our reading against the real CMake's, target by target."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from patcher.cmake.model import Settings
from patcher.cmake.project import configure, gencodes, options_of
from patcher.tree import FolderTree
from tests.cmake.real import HERE, cmake, of_project, ours, theirs

MINI = HERE / "mini"


@pytest.mark.parametrize(("archs", "cuda"), [
    ("120", "13.0"), ("121", "12.8"), ("80 90 100 120", "13.0"), ("90 120", "12.9")])
def test_our_own_project_is_read_as_cmake_reads_it(archs: str, cuda: str, tmp_path: Path) -> None:
    assert of_project(ours(MINI, archs, cuda)) == theirs(MINI, archs, cuda, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.16.0", "0.18.0", "0.33.0"])
@pytest.mark.parametrize(("archs", "cuda"), [
    ("120", "12.8"), ("120", "13.0"), ("121", "12.9"), ("121a", "13.0"),
    ("80 90 100 120", "13.0"), ("90a 100a 103a 110 120f", "13.4"), ("75 86 89", "12.8")])
def test_vllm_is_read_as_cmake_reads_it(version: str, archs: str, cuda: str, tmp_path: Path,
                                        source_tree: object) -> None:
    project = source_tree("vllm", version)  # type: ignore[operator]
    read = ours(project, archs, cuda)
    assert not read.fatal
    assert of_project(read) == theirs(project, archs, cuda, tmp_path)


def test_what_the_mini_project_builds_for_each_architecture() -> None:
    """Reasoned from its CMakeLists.txt; 12.1 has no source of its own and takes 12.0f."""
    new = ours(MINI, "121", "13.0")
    library = next(t for t in new.targets if t.name == "_C")
    assert library.sources == ["csrc/entry.cu", "csrc/bind.cpp", "csrc/sm120/blockwise.cu",
                               "csrc/sm120/fp8.cu"]
    assert list(gencodes(options_of(library, new, "csrc/sm120/fp8.cu"))) == ["sm_120f"]
    assert list(gencodes(options_of(library, new, "csrc/entry.cu"))) == ["sm_121"]
    flags = options_of(library, new, "csrc/entry.cu")
    assert {"-DENABLE_SCALED_SM120=1", "-DENABLE_MLA=1", "-DNAME_OF=_C", "-DSTABLE"} <= set(flags)
    assert "-DENABLE_SCALED_SM90=1" not in flags
    old = ours(MINI, "121", "12.8")  # there the list says 12.0a, which is no code for 12.1
    library = next(t for t in old.targets if t.name == "_C")
    assert library.sources == ["csrc/entry.cu", "csrc/bind.cpp"]
    assert new.fetched == ("other",)


def test_a_list_of_architectures_is_followed_to_where_it_was_made() -> None:
    read = ours(MINI, "120", "13.0")
    (option, *_) = read.source_options["csrc/sm120/fp8.cu"]
    assert option.place.text.startswith("build_for(SRCS")
    made = [place for place in option.origins if place.text.startswith("archs_met(")]
    text = (MINI / "CMakeLists.txt").read_text().splitlines()
    assert [text[place.line - 1].strip() for place in made] == [
        'archs_met(SCALED_ARCHS "12.0f" "${CUDA_ARCHS}")']


def test_random_expressions_have_cmakes_values(tmp_path: Path) -> None:
    """Versions, natural order, lists, regular expressions and conditions, 600 of them."""
    chance = random.Random(7)
    pieces = [_expression(chance) for _ in range(600)]
    body = "\n".join(
        f'unset(R)\n{piece}\nlist(APPEND ALL "{number}=[${{R}}]")'
        for number, piece in enumerate(pieces))
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.25)\n{body}\nset(LAST 1)\n")
    script = tmp_path / "script.cmake"
    script.write_text(f'{(tmp_path / "CMakeLists.txt").read_text()}\n'
                      f'file(WRITE {tmp_path}/out "${{ALL}}")\n')
    subprocess.run([cmake(), "-P", script], check=True, capture_output=True)
    expected = (tmp_path / "out").read_text()
    found = configure(FolderTree(tmp_path), "", Settings()).variables["ALL"]
    pairs = zip(found.split("="), expected.split("="), pieces, strict=False)
    assert [p for p in pairs if p[0] != p[1]] == []
    assert found == expected


def _arch(chance: random.Random) -> str:
    number = chance.choice(["7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.1", "10.3", "11.0",
                            "12.0", "12.1", "120", "9", "1.02", "1.2", "0.9", "10"])
    return number + chance.choice(["", "", "a", "f", "+PTX"])


def _expression(chance: random.Random) -> str:
    a, b, c = (_arch(chance) for _ in range(3))
    items = ";".join(_arch(chance) for _ in range(chance.randint(0, 6)))
    word = chance.choice(["LESS", "GREATER", "EQUAL", "LESS_EQUAL", "GREATER_EQUAL"])
    return chance.choice([
        f'if("{a}" VERSION_{word} "{b}")\nset(R yes)\nelse()\nset(R no)\nendif()',
        (f'if(NOT "{a}" STR{word} "{b}" AND ({a} {word} {b} OR "{c}" MATCHES "^1[0-2]"))\n'
        "set(R ${CMAKE_MATCH_0})\nendif()"),
        (f'set(R "{items}")\nlist(SORT R COMPARE NATURAL ORDER {chance.choice(["ASC", "DESC"])}'
        "ENDING)"),
        f'set(R "{items}")\nlist(REMOVE_ITEM R "{a}" "{b}")\nlist(REMOVE_DUPLICATES R)',
        f'set(R "{items}")\nlist(FILTER R {chance.choice(["INCLUDE", "EXCLUDE"])} REGEX "[af]$")',
        f'set(L "{items};{a}")\nlist(LENGTH L N)\nlist(GET L -1 R)\nset(R "${{R}} ${{N}}")',
        f'set(L {items} "")\nlist(JOIN L "," R)\nlist(FIND L "{a}" F)\nset(R "${{R}}:${{F}}")',
        f'string(REGEX REPLACE "([0-9]+)([0-9][af]?)" "\\\\1.\\\\2" R "{a} {b}")',
        (f'string(REGEX MATCHALL "[0-9]+\\\\.[0-9]+[af]?" R "{items} {a}")\n'
        'set(R "${R} ${CMAKE_MATCH_0}")'),
        f'string(REPLACE "." "" R "{a}{b}")\nstring(FIND "${{R}}" "+PTX" R)',
        f'set(R {a})\nset(N R)\nset(R ${{${{N}}}}-{b})\nstring(TOUPPER "${{R}}" R)',
        (f'set(L {items})\nset(R)\nforeach(x IN LISTS L)\nif(x STREQUAL "{a}")\ncontinue()\nendif()'
        '\nlist(APPEND R "<${x}>")\nendforeach()'),
        f'set(R a\\;b "c;{a}" [=[d${{R}}]=] "e\\"f\\\\g")\nlist(LENGTH R N)\nlist(APPEND R ${{N}})',
        (f'function(f out)\nset(${{out}} "${{ARGN}}|${{ARGC}}" PARENT_SCOPE)\nendfunction()\n'
        f'f(R {a} "{items}" {b})'),
        f'macro(m out)\nset(${{out}} ${{ARGN}} {c})\nendmacro()\nm(R {a} "{items}")',
        (f'set(V {a})\nif(V)\nset(R 1)\nendif()\nif("V")\nlist(APPEND R 2)\nendif()\n'
        f'if(V STREQUAL {a})\nlist(APPEND R 3)\nendif()\nif({b} IN_LIST V)\nlist(APPEND R 4)\n'
        'endif()\nif(DEFINED V AND NOT DEFINED W)\nlist(APPEND R 5)\nendif()'),
        (f'include(CMakeParseArguments)\ncmake_parse_arguments(p "Q;Z" "ONE" "MANY" x Q ONE {a} '
        f'MANY "{items}" {b} MANY {c})\nset(R "${{p_Q}}|${{p_Z}}|${{p_ONE}}|${{p_MANY}}|'
        '${p_UNPARSED_ARGUMENTS}")'),
    ])
