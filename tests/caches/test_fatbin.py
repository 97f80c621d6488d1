"""Which GPU code a library holds: the flags it was built with say so, and cuobjdump agrees."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sysconfig
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patcher.arch import target
from patcher.binary.fatbin import Code, covers, gpu_code
from patcher.errors import InputError, PatcherError

KERNEL = "__global__ void k(float* p) { p[threadIdx.x] += 1.f; }\n"


def compile_to(nvcc: Path, output: Path, *flags: str) -> Path:
    source = output.with_suffix(".cu")
    source.write_text(KERNEL)
    kind = ["-c"] if output.suffix == ".o" else ["-shared", "-Xcompiler", "-fPIC"]
    subprocess.run([nvcc, *kind, *flags, source, "-o", output], check=True, capture_output=True)
    return output


def gencode(*codes: str) -> list[str]:
    return [f"-gencode=arch=compute_{code.partition('_')[2]},code={code}" for code in codes]


def names(path: Path) -> set[str]:
    return {str(code) for code in gpu_code(path)}


SETS = [
    ["sm_120a"], ["sm_120f"], ["sm_120"], ["sm_121a"], ["sm_90a", "sm_100a", "sm_120a"],
    ["compute_120f"], ["compute_90a", "sm_90"], ["sm_80", "compute_80", "sm_121"],
]


@pytest.mark.nvcc
@pytest.mark.parametrize("codes", SETS, ids=" ".join)
def test_objects_hold_what_they_were_built_for(nvcc: Path, tmp_path: Path,
                                               codes: list[str]) -> None:
    assert names(compile_to(nvcc, tmp_path / "k.o", *gencode(*codes))) == set(codes)


@pytest.mark.nvcc
@pytest.mark.parametrize("mode", ["none", "speed", "balance", "size"])
def test_compressed_entries_stay_readable(nvcc: Path, tmp_path: Path, mode: str) -> None:
    flags = [*gencode("sm_120a", "compute_120a"), f"--compress-mode={mode}"]
    assert names(compile_to(nvcc, tmp_path / "k.o", *flags)) == {"sm_120a", "compute_120a"}


@pytest.mark.nvcc
def test_relocatable_code_counts(nvcc: Path, tmp_path: Path) -> None:
    flags = ["-rdc=true", *gencode("sm_120a", "sm_90a")]
    assert names(compile_to(nvcc, tmp_path / "k.o", *flags)) == {"sm_120a", "sm_90a"}


@pytest.mark.nvcc
def test_a_linked_library_agrees_with_cuobjdump(nvcc: Path, tmp_path: Path) -> None:
    beside = Path(sysconfig.get_path("purelib"), "nvidia", "cu13", "bin", "cuobjdump")
    tool = shutil.which("cuobjdump") or (str(beside) if beside.exists() else None)
    if tool is None:
        pytest.skip("no cuobjdump; `pip install nvidia-cuda-cuobjdump`")
    library = compile_to(nvcc, tmp_path / "k.so",
                         *gencode("sm_90a", "sm_120a", "sm_120", "compute_90a", "compute_120"))
    listed = set()
    for option in ("-lelf", "-lptx"):
        told = subprocess.run([tool, option, library], capture_output=True, text=True,
                              check=False).stdout
        for name, kind in re.findall(r"\.(sm_\w+)\.(cubin|ptx)", told):
            listed.add(name.replace("sm_", "compute_") if kind == "ptx" else name)
    assert names(library) == listed != set()


@pytest.mark.nvcc
def test_a_library_without_kernels_holds_nothing(tmp_path: Path) -> None:
    source = tmp_path / "plain.c"
    source.write_text("int plain(void) { return 1; }\n")
    library = tmp_path / "plain.so"
    subprocess.run(["cc", "-shared", source, "-o", library], check=True)
    assert gpu_code(library) == frozenset()


# Which code runs where follows from the CUDA programming guide's compatibility rules.
RUNS = [
    ("sm_120a", "sm_120a", True), ("sm_120a", "sm_121a", False), ("sm_120f", "sm_121a", True),
    ("sm_121f", "sm_120a", False), ("sm_120", "sm_121a", True), ("sm_121", "sm_120a", False),
    ("sm_100f", "sm_120a", False), ("sm_90", "sm_120a", False), ("compute_90", "sm_120a", True),
    ("compute_90a", "sm_120a", False), ("compute_120a", "sm_120f", True),
    ("compute_120f", "sm_121", True), ("compute_121", "sm_120a", False),
]


@pytest.mark.parametrize(("held", "device", "expected"), RUNS)
def test_which_code_runs_on_which_device(held: str, device: str, expected: bool) -> None:
    match = re.fullmatch(r"(sm|compute)_(\d+)([af]?)", held)
    assert match
    code = Code(int(match[2]), match[3], match[1] == "compute")
    assert str(code) == held
    assert covers(frozenset({code}), target(device)) is expected


@pytest.mark.nvcc
@settings(max_examples=60, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_libraries_end_in_a_clear_error(tmp_path: Path, data: st.DataObject,
                                                nvcc: Path) -> None:
    whole = tmp_path / "whole.o"
    if not whole.exists():
        compile_to(nvcc, whole, *gencode("sm_120a"))
    content = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content) - 9))
        content[at:at + 8] = data.draw(st.binary(min_size=8, max_size=8))
    damaged = tmp_path / "damaged.o"
    damaged.write_bytes(content[:data.draw(st.integers(0, len(content)))])
    assert "\n" not in _complaint(damaged)


def _complaint(path: Path) -> str:
    """Any other exception than an expected one fails the test."""
    try:
        gpu_code(path)
    except PatcherError as error:
        return str(error)
    return ""


def test_an_endless_container_is_bounded(tmp_path: Path) -> None:
    """A section of a thousand million zero bytes that exist in no block of the disk."""
    size = 1 << 30
    names = b"\0.nv_fatbin\0"
    table = 64 + len(names)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 0, table, 0,
                         64, 0, 0, 64, 2, 0)
    rows = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64, len(names), 0, 0, 1, 0)
    rows += struct.pack("<IIQQQQIIQQ", 1, 1, 0, 0, 4096, size, 0, 0, 8, 0)
    path = tmp_path / "zeros.so"
    path.write_bytes(header + names + rows)
    with open(path, "r+b") as handle:
        handle.truncate(4096 + size)
    with pytest.raises(InputError, match="too many"):
        gpu_code(path)


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"not elf" * 20])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.so"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a 64-bit ELF file"):
        gpu_code(path)


def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.so")
    with pytest.raises(PatcherError):
        gpu_code(tmp_path / "pipe.so")
