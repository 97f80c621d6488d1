"""Verdicts against the truth: what NVIDIA's disassembler finds in the cubins of the same kernels.

Kernels, files and the order of all are shuffled, so that nothing can go by name.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.arch import target
from patcher.verify.commands import device_steps
from patcher.verify.compile import Compilers, Job, Stage, compile_job
from patcher.verify.judge import Verdict, judge_kernels
from patcher.verify.kernels import Code
from tests.verify.kernels import KERNELS, source

pytestmark = [pytest.mark.nvcc, pytest.mark.wheels, pytest.mark.slow]

REFERENCES = ("sm_100a", "sm_90a")
FLAGS = ("-std=c++17", "--expt-relaxed-constexpr")
# What a kernel is for, by the machine instructions that do it. Losing one of these classes
# against a reference is a loss; griddepcontrol.launch_dependents and setmaxnreg are hints.
CLASSES = {
    "stores to global memory": r"ST|STG|UTMASTG|UTMAREDG|UBLKCP|RED|REDG|REDUX|ATOM|ATOMG",
    "atomics": r"RED|REDG|ATOM|ATOMG",
    "matrix": r"\w*MMA",
    "tensor memory": r"LDTM|STTM|UTCATOMSWS|UTCBAR|UTCCP",
    "bulk copies": r"UTMALDG|UTMASTG|UBLKCP",
    "matrix loads and stores": r"LDSM|STSM|LDGSTS",
    "waits for the grid before": r"ACQBULK",
    "cluster barriers": r"UCGABAR_\w+",
    "barriers": r"SYNCS|BAR",
}
_SECTION = re.compile(r"^\.text\.(\w+):$", re.M)
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9_]*)")
# calls go through a table in constant memory; ptxas has support functions of its own there
_CONSTANT = re.compile(r"/\*([0-9a-f]{4})\*/\s+\.dword\s+(vprintf|__assertfail)\b")
_TRAPS = {"BPT", "vprintf", "__assertfail"}


def disassemble(nvdisasm: Path, cubin: Path) -> dict[str, set[str]]:
    """The machine instructions of every kernel, and what it calls to print or to fail."""
    run = subprocess.run([nvdisasm, cubin], check=True, capture_output=True, text=True)
    table = {f"0x{int(offset, 16):x}": name for offset, name in _CONSTANT.findall(run.stdout)}
    parts = _SECTION.split(run.stdout)
    found = {}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        code = body.split("//-----")[0]
        called = {table[place] for place in _table_places(code) if place in table}
        found[name] = set(_INSTRUCTION.findall(code)) | (called if "CALL" in code else set())
    return found


def _table_places(code: str) -> set[str]:
    """Offsets into the table of callees, as written or by way of a register."""
    found = set(re.findall(r"c\[0x4\]\[(0x[0-9a-f]+)\]", code))
    for register in set(re.findall(r"c\[0x4\]\[(U?R\d+)\]", code)):
        found |= set(re.findall(rf"\bU?MOV {register}, (0x[0-9a-f]+) ;", code))
    return found


def classes(opcodes: set[str]) -> set[str]:
    return {name for name, pattern in CLASSES.items()
            if any(re.fullmatch(pattern, opcode) for opcode in opcodes)}


def is_hollow(mine: set[str], references: list[set[str]]) -> bool:
    """The truth: something that a reference does is gone, or a trap took its place."""
    return any(classes(theirs) - classes(mine) or (_TRAPS & mine and not _TRAPS & theirs)
               for theirs in references)


@pytest.fixture
def unit(unpacked: Callable[[str, str], Path], tmp_path: Path) -> tuple[Path, dict[str, str],
                                                                        tuple[str, ...]]:
    """One shuffled unit of all kernels, their names in it, and its flags."""
    shuffle = random.Random()  # another one at every run
    kinds = list(KERNELS)
    shuffle.shuffle(kinds)
    names = {kind: f"k{shuffle.getrandbits(60):x}" for kind in kinds}
    path = tmp_path / f"{shuffle.getrandbits(40):x}" / f"{shuffle.getrandbits(40):x}.cu"
    path.parent.mkdir()
    path.write_text(source(names, ("CUTLASS_ENABLE_GDC_FOR_SM90 1",)))
    data = unpacked("flashinfer-python", "0.6.3") / "flashinfer" / "data"
    return path, names, (*FLAGS, f"-I{data}/include", f"-I{data}/cutlass/include")


def test_no_hollow_kernel_is_called_ok_and_no_good_one_hollow(
    unit: tuple[Path, dict[str, str], tuple[str, ...]], nvcc: Path, nvdisasm: Path,
    compilers: Compilers, tmp_path: Path,
) -> None:
    path, names, flags = unit
    codes: dict[str, Code] = {}
    machine: dict[str, dict[str, set[str]]] = {}
    for name in ("sm_120a", *REFERENCES):
        goal = target(name)
        text = subprocess.run([nvcc, *flags, goal.gencode, "-E", path], check=True,
                              capture_output=True).stdout
        steps = device_steps(nvcc, goal, FLAGS, quick=True)
        made = compile_job(Job("", name, text, steps, Stage.READ, compilers.identity), compilers)
        assert not made.error
        codes[name] = made.code
        cubin = tmp_path / f"{name}.cubin"
        subprocess.run([nvcc, *flags, goal.gencode, "-cubin", path, "-o", cubin], check=True,
                       capture_output=True)
        machine[name] = disassemble(nvdisasm, cubin)
    references = {name: codes[name] for name in REFERENCES}
    told = {k.name: k for k in judge_kernels(codes["sm_120a"], references)}
    truth = {kind: is_hollow(machine["sm_120a"][name], [machine[r][name] for r in REFERENCES])
             for kind, name in names.items()}
    wrong = {kind: (hollow, told[names[kind]].reason) for kind, hollow in truth.items()
             if hollow != (told[names[kind]].verdict is Verdict.HOLLOW)}
    assert wrong == {}
    assert len(truth) >= 60
    assert sum(truth.values()) >= 20
    assert len(truth) - sum(truth.values()) >= 20
