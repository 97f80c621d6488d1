"""Packages that nobody trusts, and machines with nothing left: failed with a reason, never ok."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from patcher.arch import target
from patcher.cuda.model import Configuration, TranslationUnit
from patcher.errors import ToolFailed
from patcher.verify import execute, prepare
from patcher.verify.commands import code_flags, device_command, device_steps
from patcher.verify.compile import Compilers, Job, Stage, compile_job
from patcher.verify.prepare import Workshop

pytestmark = pytest.mark.nvcc
GOAL = target("sm_120a")


def verify(toy: Path, *arguments: str, before: Sequence[str] = (), **environ: str
           ) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, "-m", "patcher", "verify", *arguments, "--root", str(toy),
               "--arch", "sm_120a", "--format", "json"]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={
        **os.environ, "XDG_CACHE_HOME": str(toy.parent / "cache"), **environ})


@pytest.mark.parametrize("name", ["a$(touch owned).cu", *(
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("a`touch owned`.cu", "a;touch owned;.cu", "a b.cu", "it's.cu", "$HOME.cu"))])
def test_the_name_of_a_file_is_no_command(name: str, toy: Path) -> None:
    unit = toy / "toy/csrc" / name
    (toy / "toy/csrc/guarded.cu").rename(unit)
    run = verify(toy, "toy", "--unit", name)
    (row,) = json.loads(run.stdout)["units"]
    # nvcc itself hands such names to a shell; by the same kernels, two of three are hollow
    assert (row["unit"], row["verdict"]) == (f"toy/csrc/{name}", "hollow")
    assert not list(toy.parent.rglob("owned"))
    assert not Path("owned").exists()


def test_no_word_of_a_unit_reaches_a_shell(nvcc: Path, tmp_path: Path) -> None:
    words = ("-DX=$(touch owned)", "-I/x/`touch owned`", "-DS=\"a b\"", "-DT='q'")
    unit = tmp_path / "a;b.cu"
    command = device_command(nvcc, GOAL, words, unit)
    assert command[-1] == str(unit)
    assert "-I/x/`touch owned`" in command
    joined = "\0".join(command).replace("-D\0", "-D")
    for word in words[:1] + words[2:]:
        assert word in joined.split("\0")


@pytest.mark.parametrize("flags", [
    ("-Xcompiler=-fplugin=evil.so",), ("-Xcompiler", "-fplugin=evil.so"), ("-ccbin", "/tmp/evil"),
    ("-ccbin=/tmp/evil",), ("--run",), ("@options",), ("-optf", "file"), ("-o", "/etc/passwd"),
    ("--compiler-options=-fPIC,-wrapper,evil",), ("-Xcompiler=-B/tmp/evil",), ("-Xptxas=-o,x",),
    ("-Xcompiler=-specs=evil",), ("unit2.cu",), ("-Xcompiler=-MF,x",),
])
def test_flags_that_run_or_write_something_are_refused(flags: tuple[str, ...]) -> None:
    with pytest.raises(ToolFailed, match="not one that we pass to a compiler"):
        code_flags(Configuration("x", flags=flags))


def test_the_flags_of_real_modules_are_passed() -> None:
    # every flag that FlashInfer 0.5.3 to 0.7.4 gives to nvcc beside -D, -I and -std
    flags = ("--expt-relaxed-constexpr", "-O3", "--compiler-options=-fPIC", "--threads=1",
             "-static-global-template-stub=false", "-Xfatbin=-compress-all", "-use_fast_math",
             "--compress-mode=size", "--fmad=false", "--expt-extended-lambda", "-lineinfo",
             "--ptxas-options=--register-usage-level=5", "-Wno-deprecated-gpu-targets",
             "--prec-div=true", "--ftz=false", "-rdc=true", "-Xptxas=-uumn")
    kept = [f for f in flags if not f.startswith("--threads")]
    assert code_flags(Configuration("x", flags=flags)) == (*kept, "-std=c++17")


def test_the_text_is_what_nvcc_itself_would_compile(nvcc: Path, toy: Path) -> None:
    unit = TranslationUnit("toy/csrc/guarded.cu", Configuration("x", flags=("-O3",)))
    mine = Workshop(toy, nvcc).preprocess(unit, GOAL)
    theirs = subprocess.run(
        [nvcc, "-O3", "-std=c++17", "-Xcompiler", "-fno-canonical-system-headers", GOAL.gencode,
         "-E", toy / unit.path], check=True, capture_output=True).stdout
    assert mine.text == theirs.replace(f"{toy}".encode(), b"/package")


@pytest.mark.parametrize(("text", "words"), [
    ('#include "b9.cuh"\n', "File size limit exceeded"),
    ('#include "/dev/zero"\n', "out of memory"),
    ('#include "loop.cuh"\n', "error"),
])
def test_a_unit_without_end_is_ended(
    text: str, words: str, nvcc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "_LARGEST", 4 << 20)
    monkeypatch.setattr(execute, "free_memory", lambda: 1 << 30)
    monkeypatch.setattr(prepare, "_SECONDS", 30)
    for number in range(10):  # 8 to the 9th power lines
        inner = f'#include "b{number - 1}.cuh"\n' * 8 if number else "int x;\n"
        (tmp_path / f"b{number}.cuh").write_text(inner)
    (tmp_path / "loop.cuh").write_text('#include "loop.cuh"\n')
    (tmp_path / "unit.cu").write_text(text)
    made = Workshop(tmp_path, nvcc).preprocess(TranslationUnit("unit.cu", Configuration("x")), GOAL)
    assert made.text == b""
    assert words in made.error


def test_a_tool_has_its_limits_from_its_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver starts its compiler at once, on a busy machine before we run again."""
    monkeypatch.setattr(execute, "_LARGEST", 4 << 20)
    monkeypatch.setattr(execute, "free_memory", lambda: 1 << 30)
    registered = execute._registered

    def late(process: subprocess.Popen[bytes]) -> contextlib.AbstractContextManager[None]:
        time.sleep(0.3)
        return registered(process)

    monkeypatch.setattr(execute, "_registered", late)
    driver = tmp_path / "driver"
    driver.write_text("#!/bin/sh\nsh -c 'ulimit -f; ulimit -v'\n")
    driver.chmod(0o755)
    # ulimit counts blocks of 512 bytes and units of 1,024
    assert execute.run_tool([str(driver)], tmp_path, 20).output.split() == [b"8192", b"1048576"]


def test_a_tool_that_is_not_there_is_said(tmp_path: Path) -> None:
    missing = tmp_path / "ptxas"
    problem = execute.run_tool([str(missing)], tmp_path, 20).problem
    assert problem == f"cannot run {missing}: No such file or directory"
    missing.write_text("no program")
    problem = execute.run_tool([str(missing)], tmp_path, 20).problem
    assert problem == f"cannot run {missing}: Permission denied"


def test_a_compiler_without_memory_is_a_failure(
    nvcc: Path, compilers: Compilers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "free_memory", lambda: 150 << 20)
    steps = device_steps(nvcc, GOAL, (), quick=True)
    body = "".join(f"p[{n}] = p[{n + 1}] * {n};" for n in range(60_000))
    text = f"__attribute__((global)) void k(int *p) {{ {body} }}".encode()
    made = compile_job(Job("", GOAL.name, text, steps, Stage.READ, compilers.identity), compilers)
    assert made.error
    assert not made.code.kernels


@pytest.mark.slow
def test_a_disk_without_room_fails_the_unit(toy: Path, tmp_path: Path) -> None:
    """A real file system of a few hundred KB takes the temporary files."""
    small = tmp_path / "small"
    small.mkdir()
    mount = f"mount -t tmpfs -o size=%s tmpfs {small} && exec \"$@\""
    inside = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    if not shutil.which("unshare") or subprocess.run(
            [*inside, mount % "1m", "sh", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    seen = set()
    for size in ("16k", "300k", "1500k"):
        run = verify(toy, "toy", "--unit", "other.cu", before=[*inside, mount % size, "sh"],
                     TMPDIR=str(small))
        assert "internal error" not in run.stderr
        assert run.returncode in (1, 2), run.stdout
        seen.add(run.returncode)
        said = run.stderr + "".join(r for row in json.loads(run.stdout or '{"units": []}')["units"]
                                    for r in row["reasons"])
        assert "no space is left" in said or "No space left" in said
        assert '"ok"' not in run.stdout
    assert 1 in seen  # once there is room for the tree, the unit fails and not the run


def test_a_folder_for_temporary_files_may_have_any_name(toy: Path, tmp_path: Path) -> None:
    odd = tmp_path / "it's \"odd\" $HOME"
    odd.mkdir()
    run = verify(toy, "toy", "--unit", "guarded.cu", TMPDIR=str(odd))
    (row,) = json.loads(run.stdout)["units"]
    assert row["verdict"] == "hollow"
    assert os.listdir(odd) == []


def test_a_package_that_cannot_be_written_is_judged(toy: Path) -> None:
    folders = [toy, *(p for p in toy.rglob("*") if p.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        run = verify(toy, str(toy.parent / "toy.yaml"))
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert run.returncode == 0, run.stderr
    assert [row["verdict"] for row in json.loads(run.stdout)["units"]] == ["ok"]
