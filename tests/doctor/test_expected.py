"""Every error text that the doctor foretells is one that ``explain`` knows, for every finding."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from patcher.doctor.checks import links
from patcher.doctor.model import Result
from patcher.explain import explain
from tests.conftest import REPOSITORY
from tests.doctor import mini
from tests.doctor.test_extensions import CHECK, build
from tests.doctor.test_gpu_code import GUARDED, REFUSING, install
from tests.doctor.test_machine import triton

# What is wrong and ends in no error of its own, or in one that depends on the file.
SILENT = {"installs": "any file may be missing", "package": "the name itself is unknown"}
Found = list[Result]


def extension(site: Path, needs: str, source: str = "") -> None:
    """An extension that was linked with a torch of its own and one more library."""
    older = site.parent / "older"
    build(older / "libc10.so", CHECK.format("int", " {}"))
    build(older / needs, "int needed() { return 1; }")
    build(site / "ext/ops.so", (source or CHECK.format("int", ";")) + "int needed(); void f() { "
          "needed(); c10::cuda::c10_cuda_check_implementation(1, 0, 0, 1, true); }",
          f"-L{older}", "-lc10", f"-l:{needs}", "-Wl,-rpath,$ORIGIN/../torch/lib")
    mini.dist(site, "ext", "1.0", "ext/ops.so")


def torch(site: Path) -> None:
    build(site / "torch/lib/libc10.so", CHECK.format("unsigned", " {}"))
    mini.dist(site, "torch", "2.11.0", "torch/lib/libc10.so")


def toolkits(site: Path) -> Iterator[Found]:
    home = mini.cuda(site, crt="13.0", runtime="13.0", links=False)
    mini.write(site / "torch/version.py", "cuda: Optional[str] = '12.8'\n")
    yield list(mini.findings(site).values())
    mini.cuda(site, nvvm="13.5", cccl=None, links=False)
    (home / "include/cccl").rename(home / "elsewhere")
    yield list(mini.findings(site).values())
    (home / "elsewhere").rename(home / "include/cccl")
    mini.cuda(site, nvvm="13.0", links=False)
    mini.write(home / "bin/nvcc", "\0release 13.5, V13.5.37 --simt-only\0")
    mini.write(home / "include/cccl/cuda/std/newer")
    yield list(mini.findings(site).values())


def machine(site: Path) -> Iterator[Found]:
    mini.flashinfer(site)
    triton(site, "3.3.1", ptxas="V12.4.99 sm_90a", blackwell="V12.8.61 sm_100a sm_120a")
    mini.dist(site, "flashinfer-cubin", "0.1")
    home = mini.write(site.parent / "home")
    yield list(mini.findings(
        site, "sm_121a", image=False, PATH="/nonexistent", HOME=str(home),
        include=site / "include", gpus=("12.0 (a)", "8.9 (b)"), TORCH_CUDA_ARCH_LIST="12.0",
    ).values())


def driver(site: Path) -> Iterator[Found]:
    """A driver without libcuda.so, as ldconfig would list it: there is none on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("patcher.binary.loader.ld_cache",
                      lambda: {"libcuda.so.1": Path("/usr/lib/libcuda.so.1")})
        yield list(links.driver_library(mini.surroundings(site, image=False)))


def extensions(site: Path) -> Iterator[Found]:
    torch(site)
    extension(site, "libnvrtc.so.13")
    yield list(mini.findings(site, image=False).values())  # nowhere
    build(site / "nvidia/cu13/lib/libnvrtc.so.12", "int needed() { return 1; }")
    yield list(mini.findings(site).values())  # in another major version only
    build(site / "nvidia/cu13/lib/libnvrtc.so.13", "int needed() { return 1; }")
    yield list(mini.findings(site).values())  # on no search path
    older = site.parent / "older"
    build(older / "libc10_cuda.so", CHECK.format("int", " {}"))
    build(site / "ext/ops.so", CHECK.format("int", ";") + "void f() { "
          "c10::cuda::c10_cuda_check_implementation(1, 0, 0, 1, true); }",
          f"-L{older}", "-lc10_cuda")
    yield list(mini.findings(site).values())  # a torch without CUDA
    (site / "ext").chmod(0o755)


def code(nvcc: Path, site: Path) -> Iterator[Found]:
    unit = mini.write(site.parent / "k.cu", GUARDED + REFUSING)
    library = site.parent / "k.so"
    subprocess.run([nvcc, "-shared", "-Xcompiler", "-fPIC", "--compress-mode=none", unit, "-o",
                    library, *(f"-gencode=arch=compute_{t},code=sm_{t}" for t in ("90a", "120a"))],
                   check=True, capture_output=True)
    install(site, "ext", "ext/ops.so", library)
    yield list(mini.findings(site).values())  # refusing kernels
    yield list(mini.findings(site, "sm_121a").values())  # none at all
    mini.flashinfer(site)
    home = site.parent / "home"
    module = home / ".cache/flashinfer/0.7.4/90a/cached_ops/m"
    module.mkdir(parents=True)
    mini.write(module / "build.ninja")
    (module / "m.so").hardlink_to(library)
    yield list(mini.findings(site, "sm_121a", image=False, HOME=str(home)).values())


def foretold(result: Result) -> list[str]:
    return [line.partition(": ")[2] for line in result.evidence if line.startswith("expect")]


def kind(identity: str) -> str:
    """``abi-ext`` of the package ext is ``abi-`` in the check."""
    return next((prefix for prefix in ("abi-", "loader-", "gpu-code-", "stub-kernels-")
                 if identity.startswith(prefix)), identity)


def judge(found: Iterator[Found]) -> set[str]:
    """The kinds of findings, each with a known text."""
    seen = set()
    for results in found:
        for result in results:
            seen.add(kind(result.id))
            for text in foretold(result):
                assert explain([text]), f"{result.id}: explain does not know {text!r}"
            said = foretold(result) or "not judged" in result.summary
            assert said or kind(result.id) in SILENT, f"{result.id} says no error to expect"
    return seen


def declared() -> set[str]:
    """The kinds of every Result in the checks that can be an error or a warning."""
    found = set()
    for path in sorted((REPOSITORY / "patcher/doctor").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
                    and node.func.id == "Result" and len(node.args) > 2):
                continue
            name, status = node.args[0], ast.unparse(node.args[1])
            if isinstance(name, ast.JoinedStr):
                name = name.values[0]
            grave = "ERROR" in status or "WARNING" in status or status == "status"
            if isinstance(name, ast.Constant) and grave:
                found.add(str(name.value))
    return found


def test_what_is_foretold_can_be_explained(tmp_path: Path) -> None:
    """A new check needs a scene above, with the error text that its finding ends in."""
    seen = set().union(*(judge(scene(tmp_path / scene.__name__ / "site"))
                         for scene in (toolkits, machine, driver, extensions)))
    elsewhere = {"gpu-code-", "stub-kernels-", "jit-cache",  # by nvcc, below
                 "permissions"}  # as another user, in test_bad_input.py
    assert declared() - seen - SILENT.keys() == elsewhere | ({"triton-libcuda"} - seen)


@pytest.mark.nvcc
@pytest.mark.slow
def test_what_is_foretold_of_gpu_code(nvcc: Path, tmp_path: Path) -> None:
    assert judge(code(nvcc, tmp_path / "site")) >= {"gpu-code-", "stub-kernels-", "jit-cache"}
