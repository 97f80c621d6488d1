"""Twenty variations of a real header: the same decision written differently.

What is compiled comes from ``nvcc -E`` of the varied header alone (its other
includes dropped, its lines kept), once per target; the scan reads the varied
wheel as a whole.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from patcher.arch import target
from patcher.changes import Create, Delete, Modify
from patcher.gates import Effect, Gate, Layer
from patcher.package.environment import find_environment
from patcher.package.find import find_package
from patcher.package.model import Package
from patcher.profiles import profile_for
from patcher.scan.model import Options
from patcher.scan.run import scan
from patcher.toolchain.find import find_toolkit
from patcher.tree import ChangedTree, FolderTree, Tree

pytestmark = [pytest.mark.wheels, pytest.mark.nvcc, pytest.mark.slow]

FOLDER = "flashinfer/data/include/flashinfer/comm"
HEADER = f"{FOLDER}/trtllm_allreduce.cuh"
UNIT = "flashinfer/data/csrc/trtllm_allreduce.cu"
GUARD = b"#if (defined(__CUDA_ARCH__) && (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200))"
KERNEL = b"__global__ void lamport_style_one_shot_all_reduce_norm_kernel"
TARGETS = ("sm_90a", "sm_100a", "sm_120a")
INCLUDE = re.compile(rb'^#include [<"](?!mutant)[^\n]*$', re.MULTILINE)


@dataclass(frozen=True)
class Mutant:
    """The varied header, where it lies, headers beside it, and the unit when it changes."""

    header: bytes
    path: str = HEADER
    beside: tuple[tuple[str, bytes], ...] = ()
    unit: bytes | None = None


Make = Callable[[bytes, bytes], Mutant]  # from the header and the unit


def condition(text: bytes) -> Make:
    return lambda header, unit: Mutant(header.replace(GUARD, b"#if " + text))


def far_macro(definition: bytes) -> Make:
    """The condition is a macro that the fourth header in a row defines."""

    def make(header: bytes, unit: bytes) -> Mutant:
        chain = [(f"mutant_{n}.h", b"#pragma once\n" + (
            f'#include "mutant_{n + 1}.h"\n'.encode() if n < 4 else definition
        )) for n in (1, 2, 3, 4)]
        body = header.replace(GUARD, b"#if MUTANT_OPEN")
        return Mutant(b'#include "mutant_1.h"\n' + body, beside=tuple(chain))

    return make


def renamed(name: str) -> Make:
    def make(header: bytes, unit: bytes) -> Mutant:
        changed = unit.replace(b"comm/trtllm_allreduce.cuh", f"comm/{name}".encode())
        assert changed != unit
        return Mutant(header, f"{FOLDER}/{name}", unit=changed)

    return make


def shifted(lines: int, end: bytes = b"\n") -> Make:
    return lambda header, unit: Mutant((b"// moved" + end) * lines + header.replace(b"\n", end))


def ladder(first: bytes, other: bytes = b"") -> Make:
    """The guard as the second arm of a ladder, with perhaps a third."""

    def make(header: bytes, unit: bytes) -> Mutant:
        head = b"#if " + first + b"\n;\n#elif" + GUARD.removeprefix(b"#if")
        parts = header.split(GUARD)
        tails = [part.replace(b"#endif", other + b"#endif", 1) for part in parts[1:]]
        return Mutant(head.join([parts[0], *tails]))

    return make


def nested(outer: bytes) -> Make:
    def make(header: bytes, unit: bytes) -> Mutant:
        parts = header.split(GUARD)
        tails = [part.replace(b"#endif", b"#endif\n#endif", 1) for part in parts[1:]]
        return Mutant((b"#if " + outer + b"\n" + GUARD).join([parts[0], *tails]))

    return make


BOTH = b"defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900"
MUTANTS: dict[str, Make] = {
    "as released": lambda header, unit: Mutant(header),
    "opened": condition(BOTH),
    "bounded by the last data centre number": condition(BOTH + b" && __CUDA_ARCH__ <= 1030"),
    "two numbers excluded": condition(BOTH + b" && __CUDA_ARCH__ != 1200 && __CUDA_ARCH__ != 1210"),
    "only one of the two numbers excluded": condition(BOTH + b" && __CUDA_ARCH__ != 1210"),
    "negated": condition(b"!(!defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 900 || "
                         b"__CUDA_ARCH__ / 100 == 12)"),
    "alternative tokens": condition(b"defined __CUDA_ARCH__ and __CUDA_ARCH__ >= 900 and not "
                                    b"(__CUDA_ARCH__ >= 1200)"),
    "by suffix macros": condition(b"defined(__CUDA_ARCH_FEAT_SM90_ALL) || "
                                  b"defined(__CUDA_ARCH_FEAT_SM100_ALL)"),
    "continuation lines": condition(b"defined(__CUDA_ARCH__) && \\\n    __CUDA_ARCH__ >= 900 \\\n"
                                    b"    && __CUDA_ARCH__ < 1200"),
    "comments inside": condition(b"/* PDL */ " + BOTH + b" /* not\nyet */ && __CUDA_ARCH__ < 1200"),
    "macro four headers away": far_macro(
        b"#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200\n"
        b"#define MUTANT_OPEN 1\n#endif\n"),
    "function-like macro four headers away": far_macro(
        b"#define MUTANT_AT(n) (__CUDA_ARCH__ >= (n))\n"
        b"#define MUTANT_OPEN (MUTANT_AT(900) && !MUTANT_AT(1200))\n"),
    "macro that is open": far_macro(b"#define MUTANT_OPEN (__CUDA_ARCH__ >= 900)\n"),
    "renamed": renamed("allreduce_kernels_renamed.cuh"),
    "shifted": shifted(500),
    "shifted, CRLF": shifted(37, b"\r\n"),
    "second arm": ladder(b"defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800"),
    "second arm, a later arm takes the target": ladder(
        b"defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800",
        b"#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200\n;\n"),
    "nested in an open guard": nested(b"defined(__CUDA_ARCH__)"),
    "nested in a closed guard": nested(b"!defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 1200"),
}


def test_there_are_twenty() -> None:
    assert len(MUTANTS) == 20


@pytest.fixture(scope="module")
def package(unpacked: Callable[[str, str], Path]) -> Package:
    root = unpacked("flashinfer-python", "0.6.3")
    return find_package("flashinfer", find_environment(None, str(root)))


def compiled_lines(mutant: Mutant, name: str, folder: Path, nvcc: Path) -> set[int]:
    """The lines of the header that nvcc keeps for a target."""
    for beside, data in mutant.beside:
        (folder / beside).write_bytes(data)
    unit = folder / "unit.cu"
    unit.write_bytes(INCLUDE.sub(b"", mutant.header))
    done = subprocess.run([nvcc, target(name).gencode, "-E", unit], capture_output=True, check=True)
    kept, line, inside = set(), 0, False
    for text in done.stdout.splitlines():
        if marker := re.match(rb'# (\d+) "([^"]*)"', text):
            line, inside = int(marker[1]), marker[2].endswith(b"unit.cu")
        else:
            if inside and text.strip():
                kept.add(line)
            line += 1
    return kept


def changed(package: Package, mutant: Mutant) -> Tree:
    base = package.tree
    changes: list[Modify | Create | Delete] = [
        Create(f"{FOLDER}/{name}", data) for name, data in mutant.beside
    ]
    if mutant.path == HEADER:
        changes.append(Modify(HEADER, base.read(HEADER), mutant.header))
    else:
        changes += [Delete(HEADER, base.read(HEADER)), Create(mutant.path, mutant.header)]
    if mutant.unit is not None:
        changes.append(Modify(UNIT, base.read(UNIT), mutant.unit))
    return ChangedTree(base, changes)


def lost_regions(header: bytes, kept: dict[str, set[int]]) -> set[int]:
    """First lines of the runs of code that a reference keeps and the target does not."""
    lost = sorted((kept["sm_90a"] | kept["sm_100a"]) - kept["sm_120a"])
    blank = {n for n, text in enumerate(header.split(b"\n"), 1)
             if not text.strip() or text.lstrip().startswith((b"//", b"#pragma"))}
    starts, previous = set(), -1
    for line in lost:
        if not all(n in blank for n in range(previous + 1, line)) or previous < 0:
            starts.add(line)
        previous = line
    return starts


def region_of(gate: Gate, line: int, header: bytes) -> int:
    """The first line of code behind a directive."""
    lines = header.split(b"\n")
    while lines[line - 1].rstrip(b"\r").endswith(b"\\") or b"/* not" in lines[line - 1]:
        line += 1
    while not lines[line].strip() or lines[line].startswith(b"#if"):
        line += 1
    return line + 1


@pytest.mark.parametrize("name", MUTANTS)
def test_the_scan_sees_what_nvcc_sees(
    name: str, package: Package, nvcc: Path, tmp_path: Path
) -> None:
    tree = package.tree
    assert isinstance(tree, FolderTree)
    mutant = MUTANTS[name](tree.read(HEADER), tree.read(UNIT))
    assert GUARD in tree.read(HEADER)
    kept = {each: compiled_lines(mutant, each, tmp_path, nvcc) for each in TARGETS}
    expected = lost_regions(mutant.header, kept)

    varied = replace(package, tree=changed(package, mutant))
    profile = profile_for(varied)
    options = Options(frozenset({Layer.PREPROCESSOR}), modules=("trtllm_comm",))
    references = [target("sm_90a"), target("sm_100a")]
    report = scan(varied, profile, [target("sm_120a")], references,
                  find_toolkit(None, varied.environment), options)
    found = [g for g in report.findings if g.location.path == mutant.path]
    regions = {region_of(g, line, mutant.header) for g in found for line in g.lines}
    if name == "second arm, a later arm takes the target":
        assert len(expected) == 13  # these lines are lost, but a later arm has the target's own
        assert not found
        return
    assert regions == expected

    kernel = mutant.header[: mutant.header.index(KERNEL)].count(b"\n") + 1
    bodies = [line for g in found if g.effect is Effect.KERNEL_BODY for line in g.lines]
    inside = [line for line in expected if kernel < line < kernel + 6]
    assert len(bodies) == len(inside)
    assert sum(g.count for g in found if g.effect is Effect.SYNC) == len(expected) - len(inside)
