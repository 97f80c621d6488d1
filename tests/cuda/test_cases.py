"""Cases from public reports whose answers are about directives alone: by hand, and by nvcc."""

from __future__ import annotations

from pathlib import Path

import pytest

from patcher.arch import target
from patcher.cuda.model import TranslationUnit
from patcher.cuda.walk import Walker
from patcher.tree import FolderTree
from tests.cuda.oracle import compare, configuration, live_marks, world_bit

WORLDS = ("sm_90a", "sm_100a", "sm_120", "sm_120a", "sm_120f", "sm_121a", "sm_121f", "host")


def live(folder: Path, text: str) -> dict[str, bool]:
    """Whether each world compiles what follows the first directive of the unit."""
    plain = folder / "plain"
    plain.mkdir(exist_ok=True)
    (plain / "unit.cu").write_text(text)
    tree = FolderTree(plain)
    report = Walker(tree).walk(TranslationUnit("unit.cu", configuration(forced=())), every=True)
    marks = {world: live_marks(report, tree, world_bit(world), ["unit.cu"]) for world in WORLDS}
    return {world: 1 in found.get("unit.cu", set()) for world, found in marks.items()}


@pytest.mark.nvcc
def test_c18_alternative_tokens_are_operators(tmp_path: Path) -> None:
    """DeepGEMM's ``sm100_bf16_gemm.cuh``: true on every device from 10.0 on, 12.x with it."""
    test = "(defined(__CUDA_ARCH__) and (__CUDA_ARCH__ >= 1000)) or defined(__CLION_IDE__)"
    text = f"#if {test}\nint a;\n#elif not defined(__CUDA_ARCH__) xor 0\nint b;\n#endif\n"
    assert live(tmp_path, text) == {w: w not in ("sm_90a", "host") for w in WORLDS}
    assert compare({"unit.cu": text}, tmp_path, worlds=["host", "sm_90a", "sm_121a"]) == []


@pytest.mark.parametrize(("condition", "true"), [
    ("defined(__CUDA_ARCH_FEAT_SM120_ALL)", ["sm_120a"]),
    ("defined(__CUDA_ARCH_FEAT_SM121_ALL)", ["sm_121a"]),
    ("__CUDA_ARCH_SPECIFIC__ == 1200", ["sm_120a"]),
    ("__CUDA_ARCH_SPECIFIC__ == 1210", ["sm_121a"]),
    ("__CUDA_ARCH_FAMILY_SPECIFIC__ == 1200", ["sm_120a", "sm_120f"]),
    ("__CUDA_ARCH_FAMILY_SPECIFIC__ == 1210", ["sm_121a", "sm_121f"]),
    ("__CUDA_ARCH__ == 1200", ["sm_120", "sm_120a", "sm_120f"]),
])
def test_c19_what_each_suffix_defines(tmp_path: Path, condition: str, true: list[str]) -> None:
    """As nvcc 13.0 defines them (-E -dM, measured once per target)."""
    found = live(tmp_path, f"#if {condition}\nint a;\n#endif\n")
    assert [world for world in WORLDS if found[world]] == true


@pytest.mark.nvcc
def test_c19_is_what_nvcc_says(tmp_path: Path) -> None:
    names = ("__CUDA_ARCH_FEAT_SM120_ALL", "__CUDA_ARCH_FEAT_SM121_ALL", "__CUDA_ARCH_SPECIFIC__",
             "__CUDA_ARCH_FAMILY_SPECIFIC__")
    text = "".join(f"#if defined({name}) && {value}\nint a;\n#endif\n" for name in names
                   for value in ("1", f"{name} == 1200", f"{name} == 1210"))
    worlds = [world for world in WORLDS if world == "host" or target(world).number >= 120]
    assert compare({"unit.cu": text}, tmp_path, worlds=worlds) == []
