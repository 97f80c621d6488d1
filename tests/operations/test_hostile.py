"""Scanned files are anybody's: a file made to hurt costs a moment and a plain answer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from patcher.arch import ArchSet, Capability
from patcher.edits import apply_edits
from patcher.operations.base import Outcome
from patcher.operations.registry import find
from patcher.patchset.schema import Count, CudaGuard, Flag, Operation, RelativePath, Text
from patcher.snippets import OneFile
from patcher.tree import FolderTree

TWELVE = ArchSet.of(Capability(12, 0))
CUDA, PYTHON = RelativePath("input.cuh"), RelativePath("input.py")
GUARD = CudaGuard(file=CUDA, condition="__CUDA_ARCH__ == 900", open=TWELVE)
TEXT = Text(file=CUDA, find="x;", replace="y;", within="f")
FLAG = Flag(file=PYTHON, list="flags", flag="-DX")
MEGABYTE = 1 << 20


@pytest.mark.parametrize(("operation", "content"), [
    (GUARD, "#if " + "(" * 3000 + "__CUDA_ARCH__ == 900" + ")" * 3000 + "\n#endif\n"),
    (GUARD, "#if " + "!" * 5000 + "__CUDA_ARCH__\n#endif\n"),
    (GUARD, "#if " + " && ".join(["__CUDA_ARCH__ != 900"] * 3000) + "\n#endif\n"),
    (GUARD, "#if " + " || ".join(f"defined(A{i})" for i in range(3000)) + "\n#endif\n"),
    (GUARD, "#if __CUDA_ARCH__ >= 1000\nint a;\n#endif\n" * 20_000),
    (GUARD, "#if\n#elif ((\n#ifdef\n" * 5000),
    (TEXT, "f(" * (MEGABYTE // 2)),
    (TEXT, "void f() {" * (MEGABYTE // 40)),
    (TEXT, "/*x;*/" * (MEGABYTE // 6)),
    (TEXT, "void f() { " + "x; " * (MEGABYTE // 8) + "}"),
    (TEXT, 'R"(' * (MEGABYTE // 4)),
    (FLAG, "flags = " + " + ".join(["[]"] * 2500)),
    (FLAG, "flags = " + "[" * 3000),
    (FLAG, "a = b\nb = a\nflags = a + b\n"),
    (FLAG, "flags = ['\0']"),
], ids=[str(number) for number in range(15)])
def test_it_answers_soon_and_plainly(tmp_path: Path, operation: Operation, content: str) -> None:
    assert isinstance(operation, CudaGuard | Text | Flag)
    (tmp_path / operation.file).write_text(content)
    start = time.process_time()
    found = find(operation, FolderTree(tmp_path))
    assert time.process_time() - start < 5
    assert isinstance(found.outcome, Outcome)
    assert "\n" not in found.reason
    assert len(found.reason) < 600


@pytest.mark.parametrize("comment", [
    b"caf\xe9", b"\xff\xfe", b"\xed\xa0\x80", b"-*- coding: rot13 -*-", b"-*- coding: no -*-",
    "caf\u00e9 \u4e2d".encode(), b"\x0c", b"\x1a"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_bytes_of_any_encoding_are_kept_in_place(tmp_path: Path, comment: bytes,
                                                 end: bytes) -> None:
    """The anchor in the comment is no code, wherever the bytes before it put it."""
    lines = [b"A = 1", b"B = 2  # " + comment + b" B = 2", b"C = 3  # " + comment]
    (tmp_path / PYTHON).write_bytes(end.join(lines))
    found = find(Text(file=PYTHON, find="B = 2", replace="B = 22"), FolderTree(tmp_path))
    assert found.outcome is Outcome.APPLICABLE, found.reason
    changed = apply_edits(end.join(lines), found.edits[PYTHON])
    assert changed == end.join([lines[0], b"B = 22" + lines[1][5:], lines[2]])


def test_a_long_anchor_is_refused_in_time(tmp_path: Path) -> None:
    """Forty leaves, each to be widened: the search for a rewrite is bounded."""
    anchor = " && ".join(f"__CUDA_ARCH__ != {100 * n}" for n in range(40)) + " && A && B"
    (tmp_path / CUDA).write_text(f"#if {anchor}\n#endif\n")
    operation = CudaGuard(file=CUDA, condition=anchor, count=Count(1), open=TWELVE)
    start = time.process_time()
    assert find(operation, FolderTree(tmp_path)).outcome in (Outcome.APPLICABLE, Outcome.CONFLICT)
    assert time.process_time() - start < 10


def test_a_text_of_white_space_alone_is_a_conflict_and_no_crash() -> None:
    patch = Text(file=RelativePath("k.cu"), find="\n", replace="")
    assert find(patch, OneFile(b"a\n\nb\n")).outcome is Outcome.CONFLICT
