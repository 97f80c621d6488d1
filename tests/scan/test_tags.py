"""Template tags: what a source takes for its kernels, and what it only asks or is written for."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.host import find_tags
from patcher.report.text_why import render_why
from patcher.scan.model import Report

# shape, and the capabilities of the tags that are taken in it
SHAPES = {
    "an alias": ("using ArchTag = cutlass::arch::Sm100;", [100]),
    "a template argument": ("using Gemm = cutlass_3x_gemm<T, cutlass::arch::Sm90, 4>;", [90]),
    "an argument of a call": ("run<T, cutlass::arch::Sm80>(a);\nrun<T, arch::Sm89>(a);", [80, 89]),
    "white space": ("using A = cutlass::arch :: Sm120;", [120]),
    "the body of a macro": ("#define MAKE(T) \\\n  struct K##T { using A = arch::Sm103; };",
                            [103]),
    "a comment": ("// arch::Sm100\n/* arch::Sm90 */ int a;", []),
    "a text": ('throw Error("built for arch::Sm100 only");', []),
    "a question": ("if constexpr (std::is_same_v<ArchTag, cutlass::arch::Sm90>) { f(); }", []),
    "an assertion": ("static_assert(!cute::is_same<A, arch::Sm75>::value);", []),
    "a specialisation": ("template <class T>\nstruct Traits<T, arch::Sm80,\n T> { int a; };", []),
    "a template that takes one": ("template <class T>\nstruct Gemm {\n  using A = arch::Sm120;\n};",
                                  [120]),
    "another namespace": ("using A = march::Sm100; using B = arch::Smart;", []),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape(shape: str) -> None:
    text, expected = SHAPES[shape]
    assert [tag.minimum for tag in find_tags(text.encode())] == expected


def test_lines_are_those_of_the_file() -> None:
    text = b"/* one\n   two */\n\nusing A = arch::Sm90;\r\nusing B = cutlass::arch::Sm100;\n"
    assert [(tag.minimum, tag.line) for tag in find_tags(text)] == [(90, 4), (100, 5)]


@pytest.mark.parametrize("text", [b"arch::Sm90 " * 30_000, b"arch::Sm" * 200_000,
                                  b"template <arch::Sm90 " * 15_000, b"<" * 500_000 + b"arch::Sm90",
                                  b"template " * 100_000 + b"struct arch::Sm90 {"])
def test_hostile_texts_are_read_in_bounded_time(text: bytes) -> None:
    before = time.process_time()
    find_tags(text)
    assert time.process_time() - before < 5


@pytest.mark.wheels
def test_a_tags_number_is_the_capability_that_cutlass_states(
    unpacked: Callable[[str, str], Path],
) -> None:
    """``kMinComputeCapability`` of each tag in CUTLASS's own text."""
    header = (unpacked("flashinfer-python", "0.6.6")
              / "flashinfer/data/cutlass/include/cutlass/arch/arch.h").read_text()
    stated = re.findall(r"struct Sm(\d+) \{\s*static int const kMinComputeCapability = (\d+);",
                        header)
    assert len(stated) >= 14
    assert all(number == minimum for number, minimum in stated)


@pytest.mark.wheels
@pytest.mark.parametrize(("name", "expected"), [
    # read in the files: the first argument of each CollectiveBuilder, and one alias
    ("gemm_groupwise_sm120.cuh", {(120, 91), (120, 101)}),
    ("gemm_groupwise_sm100.cuh", {(100, 84), (100, 90), (100, 215), (100, 221)}),
    ("group_gemm_sm90.cuh", {(90, 88), (90, 101)}),
])
def test_flashinfers_groupwise_kernels(unpacked: Callable[[str, str], Path], name: str,
                                       expected: set[tuple[int, int]]) -> None:
    data = (unpacked("flashinfer-python", "0.6.6")
            / "flashinfer/data/include/flashinfer/gemm" / name).read_bytes()
    assert {(tag.minimum, tag.line) for tag in find_tags(data)} == expected
    lines = data.decode().splitlines()
    assert all(f"arch::Sm{minimum}" in lines[line - 1] for minimum, line in expected)


@pytest.mark.slow
@pytest.mark.wheels
@pytest.mark.parametrize(("device", "said"), [("sm_120a", "none is of 12.x"),
                                              ("sm_100a", "Sm100: of 10.x")])
def test_why_says_what_the_sources_say_of_themselves(
    scanned: Callable[..., Report], device: str, said: str,
) -> None:
    """The module whose kernels are all made from SM100 templates; nothing shuts it by that."""
    report = scanned("0.6.6", device, "gemm_sm100")
    (module,) = report.modules
    assert {row.name for row in module.tags} == {"Sm100"}
    assert any(place.endswith("gemm_groupwise_sm100.cuh:84") for place in module.tags[0].places)
    text = " ".join(render_why(report).split())
    assert said in text
    assert "refuses no GPU" in text
    assert not any("arch::Sm" in gate.condition for gate in report.gates)
