"""Our reader of ninja's dependency log against ninja itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patcher.caches.ninja import read_build_file, read_deps, recorded
from tests.caches.workspace import CSRC, Workspace


def _ninja_deps(workspace: Workspace, folder: Path) -> dict[str, set[str]]:
    """What ``ninja -t deps`` prints: an output's line, then its inputs, indented by four."""
    told = subprocess.run([workspace.ninja, "-C", folder, "-t", "deps"],
                          check=True, capture_output=True, text=True).stdout
    found: dict[str, set[str]] = {}
    output = ""
    for line in told.splitlines():
        if line.startswith("    "):
            found[output].add(os.path.normpath(folder / line.strip()))
        elif ": #deps" in line:
            output = os.path.normpath(folder / line.split(": #deps")[0])
            found[output] = set()
    return found


@pytest.mark.nvcc
def test_the_log_reads_as_ninja_reads_it(workspace: Workspace) -> None:
    folder = workspace.ops / "toy"
    ours = {output: set(inputs) for output, inputs in recorded(folder).items()}
    assert ours == _ninja_deps(workspace, folder)
    assert len(ours) == 4


@pytest.mark.nvcc
def test_a_log_that_grew_keeps_the_last_record(workspace: Workspace) -> None:
    folder = workspace.ops / "toy"
    workspace.write(f"{CSRC}/uses_deep.cu", "__global__ void alone(float* p) { *p = 1.f; }\n")
    os.utime(workspace.site / CSRC / "uses_deep.cu")
    workspace.build("toy")
    inputs = recorded(folder)[str(folder / "uses_deep.cuda.o")]
    assert not any(path.endswith("deep.cuh") for path in inputs)
    assert {k: set(v) for k, v in recorded(folder).items()} == _ninja_deps(workspace, folder)


def test_relative_names_are_taken_from_the_build_folder(tmp_path: Path, ninja: Path) -> None:
    (tmp_path / "in put.txt").write_text("x")
    (tmp_path / "build.ninja").write_text(
        "rule r\n  command = cp 'in put.txt' $out && echo '$out: in\\ put.txt sub/../b' > $out.d\n"
        "  depfile = $out.d\n  deps = gcc\nbuild out.o: r in$ put.txt\nbuild b: phony\n")
    subprocess.run([ninja, "-C", tmp_path], check=True, capture_output=True)
    assert recorded(tmp_path) == {
        str(tmp_path / "out.o"): (str(tmp_path / "in put.txt"), str(tmp_path / "b"))}
    assert read_build_file(tmp_path / "build.ninja").builds[0].inputs == (
        str(tmp_path / "in put.txt"),)


@pytest.mark.nvcc
def test_a_truncated_log_keeps_what_came_before(workspace: Workspace) -> None:
    data = (workspace.ops / "toy" / ".ninja_deps").read_bytes()
    whole = read_deps(data)
    for cut in range(0, len(data), max(1, len(data) // 97)):
        part = read_deps(data[:cut])
        assert part.items() <= whole.items()


@given(st.binary(max_size=300))
def test_garbage_is_survived(tail: bytes) -> None:
    assert read_deps(tail) == {}
    read_deps(b"# ninjadeps\n\x04\0\0\0" + tail)


@pytest.mark.nvcc
def test_the_build_file_names_sources_and_folders(workspace: Workspace) -> None:
    build = read_build_file(workspace.ops / "toy" / "build.ninja")
    objects = {Path(b.output).name: (Path(b.inputs[0]).name, b.is_host)
               for b in build.builds if b.is_object}
    assert objects == {
        "uses_deep.cuda.o": ("uses_deep.cu", False), "uses_other.cuda.o": ("uses_other.cu", False),
        "binding.o": ("binding.cpp", True), "plain.o": ("plain.cpp", True)}
    assert build.system == (f"{workspace.cuda}/include",
                            str(workspace.site / "flashinfer/data/include"),
                            str(workspace.site / CSRC))
    assert build.include == ()
