"""Toolkits in the layouts that exist: installers, split targets, wheels, wrappers, none at all."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from patcher.errors import InputError, UsageError
from patcher.package import Environment
from patcher.toolchain.find import DEFAULT_VERSION, find_toolkit
from patcher.toolchain.host import shipped_host_compiler


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "NVCC_CCBIN"):
        monkeypatch.delenv(variable, raising=False)


def toolkit(root: Path, number: int, *, target: str = "", nvcc: str = "") -> Path:
    """A toolkit's files as far as they are looked at; cuda.h says 1000 * major + 10 * minor."""
    include = root / "targets" / target / "include" if target else root / "include"
    include.mkdir(parents=True)
    (include / "cuda.h").write_text(f"#define CUDA_VERSION {number}\n")
    (include / "cuda_runtime.h").write_text("")
    (include / "cccl").mkdir()
    if nvcc:
        (root / "bin").mkdir()
        text = f"Cuda compilation tools, release {nvcc.rsplit('.', 1)[0]}, V{nvcc}"
        (root / "bin" / "nvcc").write_bytes(b"\x7fELF\0" + text.encode() + b"\0")
    return root


@pytest.mark.nvcc
def test_the_real_toolkit_is_described_as_nvcc_describes_itself(nvcc: Path) -> None:
    told = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout
    match = re.search(r"release (\S+), V(\S+)", told)
    assert match
    found = find_toolkit(str(nvcc))
    assert (found.version, found.tool) == (match[1], match[2])
    assert not found.assumed


@pytest.mark.nvcc
def test_include_folders_are_those_nvcc_adds(nvcc: Path, tmp_path: Path) -> None:
    unit = tmp_path / "k.cu"
    unit.write_text("__global__ void k() {}\n")
    talk = subprocess.run([nvcc, "--dryrun", "-E", unit], check=True, capture_output=True,
                          text=True).stderr
    joined = {Path(p).resolve() for p in re.findall(r'INCLUDES="-I([^"]+)"', talk)}
    system = {Path(p).resolve() for p in re.findall(r'SYSTEM_INCLUDES="-isystem" "([^"]+)"', talk)}
    found = find_toolkit(str(nvcc))
    assert {Path(p).resolve() for p in found.include} == joined
    assert {Path(p).resolve() for p in found.system} == {p for p in system if p.is_dir()}


def test_the_host_compiler_finds_its_own_headers(tmp_path: Path) -> None:
    host = find_toolkit("13.0").host
    if host.assumed:
        pytest.skip("no gcc here")
    unit = tmp_path / "u.cpp"
    unit.write_text("#include <vector>\n#include <limits.h>\n")
    listed = subprocess.run([str(host.path), "-M", unit], check=True, capture_output=True,
                            text=True).stdout
    for header in ("vector", "limits.h"):
        place = next(Path(f) for f in host.include if (Path(f) / header).is_file())
        assert str(place / header) in listed, f"{header} is found where the compiler finds it"
    assert dict(host.macros)["__cplusplus"] == "201703L", "C++17 is the standard asked for"


def test_shipped_predefines_are_this_compilers_own() -> None:
    """Where gcc 12 runs, what stands in for a missing compiler is what it says itself."""
    host = find_toolkit("13.0").host
    if not host.version.startswith("12.2") or host.assumed:
        pytest.skip("measured with gcc 12.2")
    shipped = dict(shipped_host_compiler("x86_64").macros)
    asked = dict(host.macros)
    assert {n: v for n, v in shipped.items() if asked.get(n) != v} == {}


def test_variables_come_before_path_and_path_before_usual_places(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = toolkit(tmp_path / "home", 12090, nvcc="12.9.41")
    on_path = toolkit(tmp_path / "path", 12080, nvcc="12.8.93")
    (on_path / "bin" / "nvcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{on_path / 'bin'}:/usr/bin:/bin")
    assert (find_toolkit().version, find_toolkit().path) == ("12.8", on_path)
    monkeypatch.setenv("CUDA_PATH", str(home))
    assert find_toolkit().version == "12.9"
    monkeypatch.setenv("CUDA_HOME", str(on_path))
    assert find_toolkit().reason == f"CUDA_HOME={on_path}"
    assert find_toolkit(str(home)).version == "12.9"


def test_wrappers_and_links_lead_to_the_toolkit(tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    root = toolkit(tmp_path / "cuda-12.9", 12090, nvcc="12.9.41")
    folder = tmp_path / "bin"
    folder.mkdir()
    wrapper = folder / "nvcc"
    wrapper.write_text(f'#!/bin/sh\nexec {root}/bin/nvcc "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    assert find_toolkit().path == root
    wrapper.unlink()
    (root / "bin" / "nvcc").chmod(0o755)
    wrapper.symlink_to(root / "bin" / "nvcc")
    assert find_toolkit().path == root


@pytest.mark.parametrize(("platform", "folder"), [("x86_64", "x86_64-linux"),
                                                  ("aarch64", "sbsa-linux")])
def test_split_targets_per_platform(tmp_path: Path, platform: str, folder: str) -> None:
    toolkit(tmp_path, 13000, target="x86_64-linux")
    toolkit(tmp_path / "arm", 13000, target="sbsa-linux")
    (tmp_path / "arm" / "targets" / "sbsa-linux").rename(tmp_path / "targets" / "sbsa-linux")
    found = find_toolkit(str(tmp_path), platform=platform)
    assert found.include == (str(tmp_path / "targets" / folder / "include"),)
    macros = dict(found.host.macros)
    assert ("__aarch64__" in macros, "__x86_64__" in macros) == (platform == "aarch64",
                                                                platform == "x86_64")


def test_wheels_of_the_packages_environment(tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder names are those of nvidia's wheels: cu13, or one per library before."""
    monkeypatch.setenv("PATH", "/nonexistent")
    site = tmp_path / "site-packages"
    environment = Environment(tmp_path, (site,), None, "test")
    split = toolkit(site / "nvidia" / "cuda_runtime", 12080)
    toolkit(site / "nvidia" / "curand", 12080)
    found = find_toolkit("12.8", environment)
    assert found.path == split
    assert str(site / "nvidia" / "curand" / "include") in found.include
    whole = toolkit(site / "nvidia" / "cu13", 13020, nvcc="13.2.78")
    assert find_toolkit("13.2", environment).path == whole
    assert find_toolkit("13.2", environment).include == (str(whole / "include"),), (
        "headers of another release are not mixed in")


def test_a_version_that_is_not_installed_is_still_answered() -> None:
    found = find_toolkit("12.3")
    assert (found.version, found.path, found.assumed) == ("12.3", None, False)
    assert "not installed" in found.reason


def test_no_toolkit_is_a_stated_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patcher.toolchain.find._candidates", lambda environment: iter(()))
    monkeypatch.setenv("PATH", "/nonexistent")
    found = find_toolkit()
    assert (found.version, found.path, found.assumed) == (DEFAULT_VERSION, None, True)
    assert found.host.assumed
    assert dict(found.host.macros)["__GNUC__"] == "12"


def test_skew_is_noted(tmp_path: Path) -> None:
    found = find_toolkit(str(toolkit(tmp_path, 13000, nvcc="13.2.78")))
    assert found.version == "13.0"
    assert "13.2.78" in found.notes[0]


def test_version_json_stands_in_for_headers(tmp_path: Path) -> None:
    root = toolkit(tmp_path, 13000, nvcc="13.0.88")
    (root / "include" / "cuda.h").unlink()
    (root / "bin" / "nvcc").write_bytes(b"\x7fELF")
    (root / "version.json").write_text('{"cuda" : {"name" : "CUDA SDK", "version" : "12.9.1"}}')
    assert find_toolkit(str(root)).version == "12.9"


def test_wrong_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no CUDA toolkit"):
        find_toolkit(str(tmp_path))
    with pytest.raises(UsageError, match="unknown platform"):
        find_toolkit(platform="sparc")
