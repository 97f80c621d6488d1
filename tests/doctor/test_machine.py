"""Compilers, Python.h, Triton's ptxas, arch lists, FlashInfer's parts, caches: in miniature."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from patcher.doctor.checks.triton import choice
from patcher.doctor.gather import gather, resolve
from patcher.doctor.model import Status
from patcher.doctor.run import examine
from patcher.errors import UsageError
from tests.doctor import mini
from tests.doctor.helpers import doctor, sm_patch


def triton(site: Path, version: str, **tools: str) -> None:
    """Triton with ptxas files that hold the text of real ones (``ptxas`` or ``blackwell``)."""
    for name, text in tools.items():
        file = "ptxas" if name == "ptxas" else "ptxas-blackwell"
        mini.write(site / "triton/backends/nvidia/bin" / file, f"\0{text}\0")
    mini.write(site / "triton/__init__.py")
    mini.dist(site, "triton", version, "triton/__init__.py")


def test_no_compiler_and_no_python_h_are_both_named_in_one_run(tmp_path: Path) -> None:
    triton(tmp_path, "3.6.0", ptxas="V12.8.93 sm_90a", blackwell="V12.9.86 sm_120a")
    found = mini.findings(tmp_path, image=False, PATH="/nonexistent", include=tmp_path / "include")
    assert {"host-compiler", "python-headers"} <= found.keys()
    assert any("roll back to CPU" in line for line in found["host-compiler"].evidence)
    assert found["python-headers"].repair.commands[0] == "apt-get install python3.12-dev"
    tools = mini.write(tmp_path / "bin/clang")
    tools.chmod(0o755)
    mini.write(tmp_path / "headers/Python.h")
    found = mini.findings(tmp_path, image=False, PATH=str(tmp_path / "bin"),
                          include=tmp_path / "include", CPATH=f":{tmp_path / 'headers'}")
    assert not {"host-compiler", "python-headers"} & found.keys()
    found = mini.findings(tmp_path, image=False, PATH=str(tmp_path / "bin"), CC="icx")
    assert "CC=icx is not a program" in found["host-compiler"].summary


def test_gcc_takes_python_h_from_cpath(tmp_path: Path) -> None:
    """The check counts CPATH; this is why."""
    unit = mini.write(tmp_path / "unit.c", "#include <Python.h>\n")
    include = sysconfig.get_path("include")
    if not Path(include, "Python.h").is_file():
        pytest.skip("this interpreter has no Python.h")
    for variables, passes in (({}, False), ({"CPATH": include}, True),
                              ({"C_INCLUDE_PATH": include}, True)):
        done = subprocess.run(["gcc", "-E", unit, "-o", "/dev/null"], check=False,
                              capture_output=True, env={"PATH": "/usr/bin:/bin", **variables})
        assert (done.returncode == 0) is passes


def test_who_compiles_nothing_needs_no_compiler(tmp_path: Path) -> None:
    assert not mini.findings(tmp_path, image=False, PATH="/nonexistent")


def test_builders_need_nvcc_and_ninja(tmp_path: Path) -> None:
    mini.flashinfer(tmp_path)
    found = mini.findings(tmp_path, image=False, PATH="/nonexistent")
    assert {"nvcc", "ninja"} <= found.keys()
    assert "'nvidia-cuda-cccl==13.0.*'" in found["nvcc"].repair.commands[0]


# get_ptxas in triton/backends/nvidia/compiler.py of each wheel
@pytest.mark.parametrize(("version", "number", "file", "variable"), [
    ("3.2.0", 120, "ptxas", "TRITON_PTXAS_PATH"),
    ("3.3.1", 120, "ptxas-blackwell", "TRITON_PTXAS-BLACKWELL_PATH"),
    ("3.3.1", 90, "ptxas", "TRITON_PTXAS_PATH"),
    ("3.5.1", 121, "ptxas", "TRITON_PTXAS_PATH"),
    ("3.6.0", 121, "ptxas-blackwell", "TRITON_PTXAS_BLACKWELL_PATH"),
    ("3.6.0", 90, "ptxas", "TRITON_PTXAS_PATH"),
    ("3.9.0", 90, "ptxas-blackwell", "TRITON_PTXAS_BLACKWELL_PATH"),
    ("3.9.0", 89, "ptxas", "TRITON_PTXAS_PATH"),
    ("3.8.0+git1a2b3c", 100, "ptxas-blackwell", "TRITON_PTXAS_BLACKWELL_PATH"),
])
def test_which_ptxas(version: str, number: int, file: str, variable: str) -> None:
    chosen = choice(version, number)
    assert (chosen.file, chosen.variable) == (file, variable)


def test_a_ptxas_that_does_not_know_the_target(tmp_path: Path) -> None:
    """Triton 3.3.1's plain ptxas knows no sm_1xx at all; its other one lacks only sm_121a."""
    mini.cuda(tmp_path)
    mini.write(tmp_path / "nvidia/cu13/bin/ptxas", "\0V13.2.78 sm_120a sm_121a\0")
    triton(tmp_path, "3.3.1", ptxas="V12.4.99 sm_90a", blackwell="V12.8.61 sm_100a sm_120a")
    assert not mini.findings(tmp_path, "sm_120a")
    found = mini.findings(tmp_path, "sm_121a")["triton-ptxas"]
    assert "runs ptxas-blackwell 12.8.61 for sm_121a, which it does not know" in found.summary
    assert "Value 'sm_121a' is not defined for option 'gpu-name'" in found.evidence[1]
    assert found.repair.commands[0] == (
        f"env TRITON_PTXAS-BLACKWELL_PATH={tmp_path}/nvidia/cu13/bin/ptxas")
    named = {"TRITON_PTXAS-BLACKWELL_PATH": f"{tmp_path}/nvidia/cu13/bin/ptxas"}
    assert not mini.findings(tmp_path, "sm_121a", **named)
    (tmp_path / "triton/backends/nvidia/bin/ptxas-blackwell").unlink()
    assert "is not usable" in mini.findings(tmp_path)["triton-ptxas"].summary


@pytest.mark.parametrize(("variable", "value", "advice", "fixed"), [
    ("FLASHINFER_CUDA_ARCH_LIST", "12.0", "12.0a or 12.0f", "12.0a"),
    ("FLASHINFER_CUDA_ARCH_LIST", "9.0a 12.1", "12.1a or 12.1f", "9.0a 12.1a"),
    ("TORCH_CUDA_ARCH_LIST", "8.9;12.0+PTX", "12.0a or 12.0f", "8.9;12.0a+PTX"),
    ("CUTE_DSL_ARCH", "sm_120", "sm_120a or sm_120f", "sm_120a"),
    ("TORCH_CUDA_ARCH_LIST", "12.0a", "", ""), ("TORCH_CUDA_ARCH_LIST", "9.0;8.0", "", ""),
    ("FLASHINFER_CUDA_ARCH_LIST", "12.0f 12.1a", "", ""), ("CUTE_DSL_ARCH", "sm_120a", "", ""),
])
def test_arch_lists_that_build_plain_targets(tmp_path: Path, variable: str, value: str,
                                             advice: str, fixed: str) -> None:
    """Case C6, flashinfer#1966: FLASHINFER_CUDA_ARCH_LIST=12.0 builds sm_120, without FP4."""
    found = mini.findings(tmp_path, **{variable: value})
    assert ("arch-list" in found) is bool(advice)
    if advice:
        assert advice in found["arch-list"].repair.advice[0]
        assert found["arch-list"].repair.commands == (f"export {variable}='{fixed}'",)
        assert not mini.findings(tmp_path, **{variable: fixed})


def test_gpus_of_two_kinds_on_one_host(tmp_path: Path) -> None:
    gpus = ("12.0 (nvidia-smi: A)", "8.9 (nvidia-smi: B)", "12.0 (nvidia-smi: C)")
    found = mini.findings(tmp_path, gpus=gpus)["mixed-gpus"]
    assert found.repair.commands == ("export FLASHINFER_CUDA_ARCH_LIST='8.9 12.0a'",)
    assert not mini.findings(tmp_path, gpus=gpus, FLASHINFER_CUDA_ARCH_LIST="8.9 12.0a")
    assert not mini.findings(tmp_path, gpus=gpus[:1])


@pytest.mark.parametrize(("cubin", "jit", "wrong"), [
    ("0.7.4", "0.7.4+cu130", []), ("0.7.4", None, []), ("0.7.3", None, ["flashinfer-cubin"]),
    ("0.7.3", "0.6.6+cu129", ["flashinfer-cubin", "flashinfer-jit-cache"]),
])
def test_flashinfers_three_parts_have_one_version(tmp_path: Path, cubin: str, jit: str | None,
                                                  wrong: list[str]) -> None:
    mini.flashinfer(tmp_path)
    mini.dist(tmp_path, "flashinfer-cubin", cubin)
    if jit:
        mini.dist(tmp_path, "flashinfer-jit-cache", jit)
    found = mini.findings(tmp_path)
    assert ("flashinfer-versions" in found) is bool(wrong)
    for name in wrong:
        result = found["flashinfer-versions"]
        assert f"{name}==0.7.4" in result.repair.commands[0].split()
        assert result.status is Status.ERROR
        off = mini.findings(tmp_path, FLASHINFER_DISABLE_VERSION_CHECK="1")
        assert off["flashinfer-versions"].status is Status.WARNING


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    """A file in the way stands for any refusal: to root, permissions say nothing."""
    site = tmp_path / "site"
    mini.flashinfer(site)
    home = mini.write(tmp_path / "home")
    found = mini.findings(site, image=False, HOME=str(home), PATH="/usr/bin")
    assert any(str(home) in r.summary for r in [found["cache-writable"]])
    home.unlink()
    home.mkdir()
    assert "cache-writable" not in mini.findings(site, image=False, HOME=str(home))


def test_devices_and_targets() -> None:
    assert [t.name for t in resolve(["12.1", "5090", "sm_120f", "8.9"])[0]] == [
        "sm_121a", "sm_120a", "sm_120f", "sm_89"]
    with pytest.raises(UsageError):
        resolve(["sm_999"])


def test_the_text_begins_with_the_answer_and_ends_with_the_next_command(tmp_path: Path) -> None:
    mini.cuda(tmp_path, crt="13.0")
    home = tmp_path / "nvidia/cu13"
    lines = sm_patch("doctor", "--root", tmp_path, "--cuda", home, "--arch", "12.0").splitlines()
    assert lines[0].startswith("1 error for sm_120a: ")
    assert lines[-1] == "Next: pip install " + " ".join(
        f"'{n}==13.2.*'" for n in ("nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm"))
    prose = [line for line in lines if not line.startswith(("  repair:", "  or:", "Next:"))]
    assert max(len(line) for line in prose if " " in line.strip()) <= 80
    assert {check["status"] for check in doctor(tmp_path)} <= {s.value for s in Status}


def test_a_venv_is_examined_in_time(tmp_path: Path) -> None:
    """Three seconds, of processor time, as the machine may be busy."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (site,) = (tmp_path / "venv").glob("lib/python3*/site-packages")
    triton(site, "3.5.1", ptxas="V12.8.93 sm_120a")
    mini.cuda(site)
    start = time.process_time()
    results = examine(mini.surroundings(site))
    assert time.process_time() - start < 3
    assert any(r.id == "triton-ptxas" and r.status is Status.OK for r in results)


def test_the_variables_of_a_server(tmp_path: Path) -> None:
    """Those that decide how code is built and loaded, and no others."""
    mini.cuda(tmp_path)
    file = mini.write(tmp_path / "server.env", "TORCH_CUDA_ARCH_LIST=12.0\nHF_TOKEN=secret\n"
                      "FLASHINFER_CUDA_ARCH_LIST=12.0f\n")
    checks = doctor(tmp_path, "--env-from", f"file:{file}", FLASHINFER_CUDA_ARCH_LIST="9.0")
    found = {c["summary"]: c["status"] for c in checks if c["id"] == "arch-list"}
    assert found.pop("FLASHINFER_CUDA_ARCH_LIST=12.0f") == "ok"
    assert list(found.values()) == ["error"]
    assert "secret" not in str(checks)
    assert "HF_TOKEN" not in gather(env_from=f"file:{file}", root=str(tmp_path))[0].variables
