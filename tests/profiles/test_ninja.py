"""Build files against ninja itself, and compiler arguments."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from patcher.profiles.flags import read_flags
from patcher.profiles.ninja import compile_commands

BUILD = """\
ninja_required_version = 1.3
cuda_home = /usr/local/cuda
nvcc = $cuda_home/bin/nvcc
common_cflags = -DA=1 $
    -I/with$ space $
    -isystem $cuda_home/include
cuda_cflags = $common_cflags $
    -DNAME=\\"x\\" -DCOST=$$5
# a comment
rule compile
  command = c++ -MMD -MF $out.d ${common_cflags} -c $in -o $out
  depfile = $out.d

rule cuda_compile
  command = $nvcc $cuda_cflags -c $in -o $out
  deps = gcc
rule link
  command = c++ $in -o $out

build a.o: compile a.cpp
build b.cuda.o: cuda_compile b.cu
build c.cuda.o: cuda_compile c.cu
  cuda_cflags = $common_cflags -DOWN
build m.so: link a.o b.cuda.o c.cuda.o
build one.so: link a.o
default m.so
"""


def test_commands_are_those_ninja_would_run(tmp_path: Path) -> None:
    beside = Path(sys.executable).with_name("ninja")
    ninja = str(beside) if beside.exists() else shutil.which("ninja")
    if ninja is None:
        pytest.skip("ninja is not here; it is in the dev extra")
    (tmp_path / "build.ninja").write_text(BUILD)
    told = subprocess.run([ninja, "-C", tmp_path, "-t", "commands", "m.so"], check=True,
                          capture_output=True, text=True).stdout
    expected = [tuple(shlex.split(line)) for line in told.splitlines() if " -c " in line]
    assert [c.arguments for c in compile_commands(BUILD)] == expected
    assert [c.source for c in compile_commands(BUILD)] == ["a.cpp", "b.cu", "c.cu"]


@pytest.mark.parametrize("text", ["", "build", "rule\n  command = x\nbuild a: b", "x = $x\ny = $",
                                  "rule r\n command = 'a $in -c\nbuild o: r i\n", "\0\n="])
def test_broken_build_files_do_no_harm(text: str) -> None:
    compile_commands(text)


def test_a_variable_that_names_itself_ends() -> None:
    (command,) = compile_commands("a = $a\nrule r\n  command = x $a -c $in\nbuild o: r i\n")
    assert command.source == "i"


def test_arguments_are_sorted_by_what_they_do() -> None:
    flags = read_flags(shlex.split(
        "-I a -Ib -isystem c -isystemd -DX -DY=2 -D Z=3 -DX=4 -UY -include f.h -std=c++20 -O3 "
        "-gencode=arch=compute_120a,code=sm_120a -gencode arch=compute_90a,code=sm_90a "
        "-ccbin g++ -o x.o -c x.cu -MF x.d"))
    assert (flags.include, flags.system) == (["a", "b"], ["c", "d"])
    assert flags.define == {"X": "4", "Z": "3"}
    assert flags.forced == ["f.h"]
    assert flags.std == "c++20"
    assert flags.targets == ("sm_120a", "sm_90a")
