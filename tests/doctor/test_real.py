"""Real libraries: the ABI of torch, GPU code as cuobjdump lists it, Triton's assemblers.

Only the members that matter are fetched from the wheels (corpus/members.py).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.arch import target
from patcher.binary.abi import Exports
from patcher.binary.dynamic import read_dynamic
from patcher.binary.fatbin import fat_binaries, loaded
from patcher.binary.ptxas import read_ptxas
from patcher.binary.stubs import stubs
from patcher.doctor.checks.triton import choice, triton_ptxas
from patcher.doctor.fit import judge, releases_for, table
from patcher.doctor.model import Status
from tests.conftest import REPOSITORY
from tests.doctor import mini
from tests.doctor.helpers import bad, sm_patch
from tests.doctor.trees import trees

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.wheels]
PARTS = REPOSITORY / "corpus" / "parts"
Members = Callable[..., Path]
TORCH = tuple(f"torch/lib/{name}.so" for name in (
    "libc10", "libc10_cuda", "libtorch", "libtorch_cpu", "libtorch_cuda", "libtorch_python"))
COMMON = "sgl_kernel/sm100/common_ops.abi3.so"


@pytest.fixture(scope="session")
def members() -> Members:
    """``members("vllm==0.15.1", "vllm/_C.abi3.so")``: a folder with these files of the wheel."""

    def fetch(requirement: str, *names: str) -> Path:
        folder = PARTS / requirement.replace("==", "-").replace("-kernel", "_kernel")
        if not all((folder / name).is_file() for name in names):
            command: list[str | Path] = [sys.executable, REPOSITORY / "corpus" / "members.py",
                                         requirement, "312", folder, *names]
            if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode:
                pytest.skip(f"{requirement} cannot be fetched here")
        return folder

    return fetch


USERS = {
    "sgl-kernel==0.3.21": (COMMON, "sgl_kernel/flash_ops.abi3.so"),
    "vllm==0.15.1": ("vllm/_C.abi3.so", "vllm/_moe_C.abi3.so"),
    "xformers==0.0.34": ("xformers/_C.so",),
}
# Missing symbols against the union of each torch's libraries, counted with nm -D.
LACKING = [
    ("sgl-kernel==0.3.21", COMMON, {"2.8.0": 2, "2.9.1": 0, "2.10.0": 2, "2.11.0": 2}),
    ("sgl-kernel==0.3.21", "sgl_kernel/flash_ops.abi3.so",
     {"2.8.0": 2, "2.9.1": 0, "2.10.0": 1, "2.11.0": 1}),
    ("vllm==0.15.1", "vllm/_C.abi3.so", {"2.8.0": 0, "2.9.1": 0, "2.10.0": 2, "2.11.0": 2}),
    ("vllm==0.15.1", "vllm/_moe_C.abi3.so", {"2.8.0": 0, "2.9.1": 0, "2.10.0": 1, "2.11.0": 1}),
    ("xformers==0.0.34", "xformers/_C.so", {"2.8.0": 15, "2.9.1": 11, "2.10.0": 0, "2.11.0": 0}),
]


@pytest.mark.parametrize(("requirement", "name", "lacking"), LACKING)
def test_which_torch_a_library_was_built_for(members: Members, requirement: str, name: str,
                                             lacking: dict[str, int]) -> None:
    library = read_dynamic(members(requirement, *USERS[requirement]) / name)
    fit = table().fit(library.undefined)
    assert {r: len(fit.lacking.get(r, ())) for r in lacking} == lacking
    assert not fit.unknown


@pytest.mark.parametrize("release", ["2.8.0", "2.9.1", "2.10.0", "2.11.0"])
def test_the_table_agrees_with_the_libraries_and_with_nm(members: Members, release: str) -> None:
    torch = members(f"torch=={release}", *TORCH) / "torch/lib"
    exports = Exports.of(read_dynamic(path) for path in sorted(torch.glob("*.so")))
    run = subprocess.run(["nm", "-D", "--defined-only", *sorted(torch.glob("*.so"))], check=True,
                         capture_output=True, text=True)
    exported = {line.split()[-1].split("@")[0] for line in run.stdout.splitlines()
                if len(line.split()) == 3}
    for requirement, names in USERS.items():
        for name in names:
            library = read_dynamic(members(requirement, *names) / name)
            missing = judge(library, exports).missing
            assert missing is not None
            by_library = {symbol.symbol for symbol in missing}
            assert by_library == set(table().fit(library.undefined).lacking.get(release, ()))
            torch_like = {s for s in library.undefined if s.startswith(
                ("_ZN3c10", "_ZNK3c10", "_ZN2at", "_ZNK2at", "_ZN5torch", "torch_", "aoti_"))}
            assert by_library >= torch_like - exported


def test_sgl_kernel_on_a_newer_torch(members: Members) -> None:
    library = members("sgl-kernel==0.3.21", *USERS["sgl-kernel==0.3.21"]) / COMMON
    start = time.process_time()
    fit = judge(read_dynamic(library), None)
    assert time.process_time() - start < 1
    assert fit.fit.fitting == ("2.9.1",)
    text = sm_patch("abi", library, "--root", library.parent)
    assert "parameter 4: int expected, unsigned int provided" in text
    assert releases_for("sgl-kernel", "2.9.1+cu128")[1] == "sgl-kernel==0.3.21"


def cuobjdump(library: Path) -> Counter[str]:
    """Cubins and PTX by name, as NVIDIA's tool lists them; it shows an ``f`` cubin as plain."""
    folder = trees.unpacked("nvidia-cuda-cuobjdump", "13.5.37")
    tool = folder / "nvidia" / "cu13" / "bin" / "cuobjdump"
    found: Counter[str] = Counter()
    for option in ("--list-elf", "--list-ptx"):
        run = subprocess.run([tool, option, library], capture_output=True, text=True, check=False)
        for name, kind in re.findall(r"\.sm_(\w+)\.(cubin|ptx)$", run.stdout, re.M):
            found[f"{'compute' if kind == 'ptx' else 'sm'}_{name}"] += 1
    return found


# Usable containers of all, by what each holds and CUDA's rules of compatibility.
CODE = [
    ("sgl-kernel==0.3.21", COMMON, (74, 0, 74)),
    ("sgl-kernel==0.3.21", "sgl_kernel/flash_ops.abi3.so", (0, 0, 182)),
    ("vllm==0.15.1", "vllm/_C.abi3.so", (73, 57, 107)),
    ("vllm==0.15.1", "vllm/_moe_C.abi3.so", (26, 26, 33)),
    ("vllm==0.15.1", "vllm/_flashmla_C.abi3.so", (0, 0, None)),
    ("xformers==0.0.34", "xformers/_C.so", (10, 10, 10)),
]


@pytest.mark.parametrize(("requirement", "name", "usable"), CODE)
def test_gpu_code_equals_what_cuobjdump_lists(members: Members, requirement: str, name: str,
                                              usable: tuple[int, int, int | None]) -> None:
    library = members(requirement, name) / name
    binaries = fat_binaries(library)
    held = Counter(str(entry.code) for binary in binaries for entry in binary)
    plain = Counter[str]()
    for code, count in held.items():
        plain[code.rstrip("f")] += count
    assert plain == cuobjdump(library)
    for device, expected in zip(("sm_120a", "sm_121a"), usable[:2], strict=True):
        assert sum(loaded(b, target(device)) is not None for b in binaries) == expected
    assert usable[2] in (None, len(binaries))
    if name == "vllm/_flashmla_C.abi3.so":
        assert held["sm_100f"]
        assert not held["sm_100"]


def test_stubs_of_a_real_library(members: Members) -> None:
    """On 10.0a CUTLASS's Sm90 kernels print and trap: 384 bytes each, thousands on 12.0a."""
    library = members("sgl-kernel==0.3.21", COMMON) / COMMON
    binaries = fat_binaries(library)
    assert not stubs(library, binaries, target("sm_120a")).found
    found = stubs(library, binaries, target("sm_100a")).found
    assert sum("MainloopSm90" in stub.kernel for stub in found) >= 80
    assert all(stub.size <= 512 < 4 * stub.size <= stub.other_size for stub in found)


TRITON = {"3.3.1": (True, False), "3.5.1": (True, False), "3.6.0": (True, True),
          "3.9.0": (True, True)}
BIN = "triton/backends/nvidia/bin"


@pytest.mark.parametrize("version", TRITON)
def test_tritons_assembler(members: Members, tmp_path: Path, version: str) -> None:
    """Reading the file tells the same as running it."""
    names = {choice(version, number).file for number in (120, 121)} | {"ptxas"}
    folder = members(f"triton=={version}", *(f"{BIN}/{name}" for name in names))
    for tool in sorted((folder / BIN).glob("ptxas*")):
        tool.chmod(0o755)
        text = subprocess.run([tool, "--help"], capture_output=True, text=True, check=True).stdout
        told = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True)
        read = read_ptxas(tool)
        assert read.version in told.stdout
        assert read.targets == set(re.findall(r"'(sm_(?:9\d|1\d\d)[af]?)'", text))
    mini.dist(tmp_path, "triton", version)
    (tmp_path / "triton").symlink_to(folder / "triton")
    for device, known in zip(("sm_120a", "sm_121a"), TRITON[version], strict=True):
        (result,) = triton_ptxas(mini.surroundings(tmp_path, device))
        assert (result.status is Status.OK) is known
        unit = mini.write(tmp_path / "empty.ptx", f".version 8.7\n.target {device}\n"
                          ".address_size 64\n.visible .entry k() { ret; }\n")
        tool = folder / BIN / choice(version, target(device).number).file
        ran = subprocess.run([tool, f"--gpu-name={device}", unit, "-o", tmp_path / "k.cubin"],
                             capture_output=True, text=True, check=False)
        assert ("is not defined for option 'gpu-name'" in ran.stderr) is not known, ran.stderr


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter without headers, as slim images have it: this one's program and library."""
    base = tmp_path_factory.mktemp("bare")
    program = Path(os.path.realpath(sys.executable))
    library = Path(sysconfig.get_path("stdlib"))
    (base / "bin").mkdir()
    shutil.copy(program, base / "bin" / "python3")
    (base / "lib").mkdir()
    (base / "lib" / library.name).symlink_to(library)
    return base / "bin" / "python3"


def test_a_fresh_venv_without_compiler_and_headers(bare_python: Path, tmp_path: Path) -> None:
    """torch and Triton installed, gcc and Python.h not: both are named in one run."""
    venv = tmp_path / "venv"
    if subprocess.run([bare_python, "-m", "venv", "--without-pip", venv], check=False).returncode:
        pytest.skip("this interpreter cannot be copied")
    install = [sys.executable, "-m", "pip", "--python", str(venv), "install", "--quiet",
               "--no-deps", "--only-binary=:all:", "torch==2.13.0", "triton==3.9.0"]
    if subprocess.run(install, check=False, capture_output=True).returncode:
        pytest.skip("torch cannot be installed here")
    environ = {"HOME": str(tmp_path), "PATH": "/nonexistent"}
    run = subprocess.run([sys.executable, "-m", "patcher", "doctor", "--python", venv, "--arch",
                          "5090", "--format", "json"], env=environ, check=True,
                         capture_output=True, text=True)
    found = bad(json.loads(run.stdout)["checks"])
    assert {"host-compiler", "python-headers"} <= found.keys()
    assert "triton" in found["host-compiler"]["summary"]
    # the same from Triton's own lips, in that venv
    script = ("from triton.runtime.build import compile_module_from_src as build\n"
              "build('#include <Python.h>', 'probe')\n")
    for path, said in (("/nonexistent", "host-compiler"), ("/usr/bin:/bin", "python-headers")):
        ran = subprocess.run([venv / "bin/python", "-c", script], capture_output=True, text=True,
                             env={"HOME": str(tmp_path / said), "PATH": path}, check=False)
        (expected,) = [line.removeprefix("expect: ") for line in found[said]["evidence"]
                       if line.startswith("expect: ")]
        assert expected.removeprefix("RuntimeError: ") in ran.stderr
