"""Lists of CMake files, judged by CMake itself: what the list holds before and after."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from patcher.edits import Edit, apply_edits
from patcher.operations.base import Outcome
from patcher.operations.flag import find
from patcher.patchset.schema import Flag, RelativePath
from patcher.snippets import OneFile

CASES = 150
ELEMENTS = ("9.0a", "10.0f", "8.0+PTX", "-O3", "-DA=1", "${OTHER}",
            "-gencode=arch=compute_90,code=sm_90")
COMMENTS = ("", " # 12.1a; (not) \"this\"", " #[[ 12.1a ]]", " #[=[ 12.1a\n ]] ]=]")


def value(choose: random.Random, name: str) -> str:
    """A way to write a list, valid by the grammar of cmake-language(7)."""
    elements = choose.sample(ELEMENTS, choose.randint(1, 4))
    newline = choose.choice(("\n", "\r\n"))
    style = choose.randrange(5)
    if style == 0:
        body = '"' + ";".join(elements) + choose.choice(("", ";")) + '"'
    elif style == 1:
        body = " ".join(elements)
    elif style == 2:
        body = ";".join(elements)
    elif style == 3:
        lines = [f'{newline}    "{e}"{choose.choice(COMMENTS)}' for e in elements]
        body = "".join(lines) + newline
    else:
        body = "[[" + ";".join(elements) + "]]"
    command = choose.choice(("set", "SET", "Set"))
    tail = choose.choice(("", "", ' CACHE STRING "x; y"'))
    return f"{command}{choose.choice(('', ' '))}({name} {body}{tail}){choose.choice(COMMENTS)}"


def held(script: Path, names: list[str], cmake: str) -> dict[str, list[str]]:
    """What CMake says each list holds."""
    run = subprocess.run([cmake, "-P", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    lines = [line.removeprefix("-- ") for line in run.stdout.splitlines()]
    shown = dict(line.split("=", 1) for line in lines if line.startswith("L"))
    assert set(shown) == set(names)
    return {name: [item for item in text.split(";") if item] for name, text in shown.items()}


def test_cmake_sees_one_more_element_and_nothing_else(tmp_path: Path) -> None:
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("cmake is not here")
    choose = random.Random(5)
    names = [f"L{number}" for number in range(CASES)]
    data = "set(OTHER x y)\n" + "".join(value(choose, name) + "\n" for name in names)
    data += "".join(f'message(STATUS "{name}=${{{name}}}")\n' for name in names)
    script = tmp_path / "before.cmake"
    edits: list[Edit] = []
    script.write_bytes(data.encode())
    before = held(script, names, cmake)
    for name in names:
        finding = find(Flag(file=RelativePath("x.cmake"), flag="12.1a", list=name),
                       OneFile(data.encode()))
        assert finding.outcome is Outcome.APPLICABLE, (name, finding.reason)
        edits += finding.edits["x.cmake"]
    new = apply_edits(data.encode(), edits)
    script.write_bytes(new)
    after = held(script, names, cmake)
    for name in names:
        assert after[name] == [*before[name], "12.1a"], name
        again = find(Flag(file=RelativePath("x.cmake"), flag="12.1a", list=name), OneFile(new))
        assert again.outcome is Outcome.NOT_NEEDED, name


@pytest.mark.parametrize("data", [b"set(", b'set(A "', b"set(A))", b"(A)", b"set A", b"set(A \\",
                                  b"#[[ x", b"set(A [[ x)", b"\xff\xfe", b"function()"])
def test_whatever_stands_there_is_an_answer(data: bytes) -> None:
    finding = find(Flag(file=RelativePath("CMakeLists.txt"), flag="-x", list="A"), OneFile(data))
    assert finding.outcome is Outcome.CONFLICT


def test_a_hostile_file_takes_linear_time() -> None:
    for piece in (b"set(A ", b'"a', b"#[[", b"#[=[", b"((((", b'a"', b"\\ ", b"a;", b"#\n"):
        data = b"set(A " + piece * 100_000
        find(Flag(file=RelativePath("CMakeLists.txt"), flag="-x", list="A"), OneFile(data))
