"""The instruction table against the real assembler, and the markers against real text."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from patcher.arch import target
from patcher.cause import accepted, intended, rejected
from patcher.instructions import Verdict, find, markers, shared_memory_size, verdict

PROGRAM = """.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 p) {{
  .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>;
  {line}
  ret;
}}
"""
LINES = {
    "griddepcontrol.wait": "griddepcontrol.wait;",
    "wgmma.fence": "wgmma.fence.sync.aligned;",
    "tcgen05.fence.before_thread_sync": "tcgen05.fence::before_thread_sync;",
    "setmaxnreg.inc": "setmaxnreg.inc.sync.aligned.u32 240;",
    "elect.sync": ".reg .pred %q; elect.sync _|%q, 0xffffffff;",
    "redux.sync.min.f32": "redux.sync.min.f32 %f1, %f2, 0xffffffff;",
    "fma.rn.f32x2": "fma.rn.f32x2 %rd1, %rd2, %rd3, %rd4;",
}
TARGETS = ("sm_90a", "sm_100a", "sm_120", "sm_120a", "sm_120f", "sm_121a")


@pytest.mark.nvcc
@pytest.mark.parametrize("feature", LINES)
@pytest.mark.parametrize("name", TARGETS)
def test_the_table_says_what_ptxas_does(
    feature: str, name: str, nvcc: Path, tmp_path: Path
) -> None:
    source = tmp_path / "k.ptx"
    source.write_text(PROGRAM.format(target=name, line=LINES[feature]))
    done = subprocess.run(
        [nvcc.parent / "ptxas", f"-arch={name}", source, "-o", tmp_path / "k.cubin"],
        capture_output=True, text=True, check=False,
    )
    said = verdict(feature, target(name), "13.0")
    assert (said is Verdict.ACCEPTED) == (done.returncode == 0), done.stderr


def test_a_newer_toolkit_is_no_hardware_limit() -> None:
    """256-bit loads: ptxas 12.8 rejects them on sm_120a, 12.9 takes them."""
    name = "ld.global.v8.f32(256b)"
    assert verdict(name, target("sm_120a"), "12.8") is Verdict.NEWER_TOOLKIT
    assert verdict(name, target("sm_120a"), "12.9") is Verdict.ACCEPTED
    assert verdict(name, target("sm_90a")) is Verdict.REJECTED
    assert verdict("no such thing", target("sm_90a")) is Verdict.UNKNOWN


def test_markers_name_known_instructions_and_hold_their_literals() -> None:
    for marker in markers():
        assert marker.literals
        for feature in marker.features:
            assert verdict(feature, target("sm_80")) is not Verdict.UNKNOWN, feature


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b'asm volatile("tcgen05.mma.cta_group::1.kind::f16 [%0];");', True),
        (b'asm volatile("wgmma.fence.sync.aligned;\\n" ::: "memory");', True),
        (b"using Op = SM100_MMA_F16BF16_SS<a, b>;", True),
        (b'CUTE_INVALID_CONTROL_PATH("Attempting to use SM100_MMA_F16BF16_SS without it");', False),
        (b'printf("tcgen05.mma is not here");', False),
        (b'const char* name = "SM100_MMA_F16BF16_SS";', False),
        (b'asm volatile("griddepcontrol.wait;" ::: "memory");', False),
        (b"template <UMMA::Major A, GMMA::Major B>", False),  # names of layouts: SM120 code too
        (b"cute::TMEM::Allocator1Sm allocator;", True),
        (b"using Tag = cutlass::arch::Sm100;", False),  # dispatch code names it on every target
    ],
)
def test_what_is_evidence_of_hardware(line: bytes, found: bool) -> None:
    hits = {hit.line: (hit,) for hit in find(line)}
    assert bool(rejected("a.cu", [1], hits, [line], target("sm_120a"))) is found


def test_shared_memory_over_the_limit() -> None:
    """SM120 blocks may opt in to 99 KiB, SM100 blocks to 227 KiB (CUDA C++ Programming Guide)."""
    line = b"constexpr uint32_t kMAX_SMEM_SIZE = (227u << 10);"
    assert shared_memory_size(line) == 227 * 1024
    assert rejected("a.cu", [1], {}, [line], target("sm_120a"))
    assert not rejected("a.cu", [1], {}, [line], target("sm_100a"))
    assert shared_memory_size(b"constexpr int kRows = (227u << 10);") is None


def test_accepted_lines_are_evidence_and_rejected_ones_are_not() -> None:
    lines = [b"cudaGridDependencySynchronize();"]
    hits = {hit.line: (hit,) for hit in find(lines[0])}
    (evidence,) = accepted("a.cu", [1], hits, lines, target("sm_120a"), "13.0")
    assert "griddepcontrol.wait: accepted on sm_120a" in evidence.text
    assert not accepted("a.cu", [1], hits, lines, target("sm_80"), "13.0")


COMMENTS = [(10, "# This path is for data centre GPUs."),
            (11, "# RTX/consumer (SM12x) are intentionally excluded here.")]


@pytest.mark.parametrize(
    ("line", "comments", "found"),
    [
        (12, COMMENTS, True),
        (13, COMMENTS, True),
        (20, COMMENTS, False),  # not beside it
        (12, [(11, "# the order of these calls is intentional")], False),  # about something else
        (12, [(11, "# SM12x is not tested")], False),
    ],
)
def test_intent_is_a_comment_beside_the_gate(
    line: int, comments: list[tuple[int, str]], found: bool
) -> None:
    evidence = intended("jit.py", line, line, comments)
    assert bool(evidence) is found
    if found:
        assert "intentionally excluded" in evidence[0].text
