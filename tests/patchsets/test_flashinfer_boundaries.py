"""FlashInfer's patchset at the first and the last release of each of its variants.

gcc's preprocessor and Python's parser say what is open before and after; then to the byte back.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.version import Version

from patcher.errors import Exit
from tests.patchsets.installed import Installed, unpack
from tests.patchsets.reading import DEVICES, lists_of, live_lines

pytestmark = [pytest.mark.slow, pytest.mark.wheels]
COMM = "flashinfer/jit/comm.py"
HEADER = "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh"
UNIT = "flashinfer/data/csrc/trtllm_allreduce.cu"
GEMM, MOE = "flashinfer/jit/gemm/core.py", "flashinfer/jit/fused_moe.py"
MACRO = "-DCUTLASS_ENABLE_GDC_FOR_SM100=1"
ROUTED = ("_mm_M1_16_K7168_N128_shape_checks", "_mm_M1_16_K7168_N256_shape_checks")


def _changed(before: dict[str, str], after: dict[str, str]) -> dict[str, tuple[str, str]]:
    assert before.keys() == after.keys()
    return {name: (before[name], after[name]) for name in before if before[name] != after[name]}


def _comm(here: Installed, before: dict[str, bytes]) -> None:
    """The module's list, and the 13 guards of its header."""
    majors = [lists_of(text, "supported_major_versions")
              for text in (before[COMM].decode(), here.text(COMM))]
    assert _changed(*majors) == {"gen_trtllm_comm_module": ("[9, 10]", "[9, 10, 12]")}
    first, now = before[HEADER].decode(), here.text(HEADER)
    numbers = (0, *(10 * (10 * major + minor) for major, minor in DEVICES))
    old, new = ({number: live_lines(text, number) for number in numbers} for text in (first, now))
    for number in numbers:
        if number >= 1200:  # what 10.0 has, and what 12.x lacked before
            assert new[number] == new[1000]
            assert old[number] != old[1000]
        else:  # a text of the group is for all; what tells one from another is as it was
            assert new[1000] - new[number] == old[1000] - old[number]
            assert new[number] - new[1000] == old[number] - old[1000]


def _gdc(here: Installed, before: dict[str, bytes], there: dict[str, int]) -> None:
    """The macro once more where it lacked, and no other flag."""
    for path, lacking in there.items():
        old, new = before[path].decode(), here.text(path)
        assert new.count(MACRO) == old.count(MACRO) + lacking
        gone = [line for line in new.splitlines() if MACRO in line]
        assert all(line.strip().strip(",\"'[]") for line in gone)
        assert new.replace(MACRO, "").count("-D") == old.replace(MACRO, "").count("-D")


def _router(here: Installed, before: dict[str, bytes], path: str) -> None:
    old, new = (lists_of(text, "supported_compute_capability")
                for text in (before[path].decode(), here.text(path)))
    assert _changed(old, new) == {
        name: (old[name], f"{old[name][:-1]}, 120, 121]") for name in ROUTED}


@pytest.mark.parametrize("version", ["0.5.3", "0.6.2", "0.6.3", "0.6.4", "0.6.5", "0.6.6",
                                     "0.6.7.post3", "0.6.8", "0.6.16.post4", "0.6.17",
                                     "0.6.18.post1"])
def test_at_every_boundary(sliced: Callable[..., Path], tmp_path: Path, version: str) -> None:
    here, known = Installed(tmp_path / "root"), Version(version)
    unpack(sliced("flashinfer-python", version), here.root)
    before = here.bytes()
    groups, files = [], set()
    if known < Version("0.6.17"):
        groups, files = ["trtllm-comm"], {COMM, HEADER, UNIT}
    lacking = {MOE: 1} if Version("0.6.7") <= known < Version("0.6.8") else \
        {GEMM: 2, MOE: 1} if known < Version("0.6.7") else {}
    if lacking:
        groups, files = [*groups, "gdc"], files | set(lacking)
    router = f"flashinfer/gemm/routergemm{'_dsv3' if known < Version('0.6.5') else ''}.py"
    if known >= Version("0.6.3"):
        groups, files = [*groups, "dsv3-router"], files | {router}
    named = [part for group in groups for part in ("--group", group)]
    assert here.run("apply", "flashinfer-sm120", *named) == Exit.DONE
    after = here.bytes()
    assert {path for path in after if after[path] != before[path]} == files
    for path in files:
        if path.endswith(".py"):
            compile(after[path], path, "exec")
    if "trtllm-comm" in groups:
        _comm(here, before)
    if lacking:
        _gdc(here, before, lacking)
    if "dsv3-router" in groups:
        _router(here, before, router)
    assert here.run("revert", "flashinfer-sm120") == Exit.DONE
    assert here.bytes() == before
