"""Toolkits laid out otherwise: CUDA 12's wheels, aarch64 wheels, and the folder targets/."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patcher.doctor.model import Status
from tests.conftest import REPOSITORY
from tests.doctor import mini
from tests.doctor.helpers import SOURCES, bad, doctor, sm_patch, snapshot

pytestmark = [pytest.mark.slow, pytest.mark.wheels]
Site = Callable[..., Path]


def test_wheels_of_cuda_12_bring_no_compiler(site: Site, tmp_path: Path) -> None:
    """nvidia-cuda-nvcc-cu12 holds ptxas and libdevice, and no nvcc."""
    place = site("12.9")
    assert not list(place.rglob("nvcc"))
    assert (place / "nvidia/cuda_nvcc/bin/ptxas").is_file()
    mini.flashinfer(place)
    mini.write(place / "torch/version.py", "cuda: Optional[str] = '12.9'\n")
    found = mini.findings(place, image=False, PATH="/nonexistent", HOME=str(tmp_path))["nvcc"]
    assert "nvidia-cuda-nvcc-cu12 is installed, but brings ptxas alone" in found.evidence[0]
    assert found.repair.commands == ("apt-get install cuda-toolkit-12-9",)
    (toolkit,) = mini.toolkits(place)
    assert (toolkit.version, toolkit.nvcc) == ("12.9", None)
    assert {Path(folder).parent.name for folder in toolkit.include} == {
        "cuda_runtime", "cuda_nvcc", "cuda_cccl"}


def test_a_tree_for_aarch64_is_examined_on_any_machine(site: Site) -> None:
    place = site("13.0-sbsa")
    kind = subprocess.run(["readelf", "-h", place / "nvidia/cu13/bin/nvcc"], check=True,
                          capture_output=True, text=True).stdout
    assert "AArch64" in kind
    (toolkit,) = mini.toolkits(place)
    assert (toolkit.platform, toolkit.tool) == ("aarch64", "13.0.88")
    before = snapshot(place / "nvidia")
    assert bad(doctor(place, "--arch", "12.1")).keys() == {"toolkit-lib64", "toolkit-cudart"}
    sm_patch("apply", "cuda-libraries", "--root", place)
    assert not bad(doctor(place, "--arch", "12.1", "--fail-on", "warning"))
    sm_patch("revert", "cuda-libraries", "--root", place)
    assert snapshot(place / "nvidia") == before
    shutil.rmtree(place / "nvidia/cu13/include/cccl")
    found = bad(doctor(place))["toolkit-headers"]
    assert found["repair"]["commands"] == ["pip install 'nvidia-cuda-cccl==13.0.*'"]


@pytest.fixture
def conda(tree: Callable[[str], Path], tmp_path: Path) -> Path:
    """A prefix as conda lays it out, of the wheels' files: nvcc itself finds targets/."""
    home, prefix = tree("13.0") / "nvidia/cu13", tmp_path / "prefix"
    for name in ("bin", "nvvm"):
        shutil.copytree(home / name, prefix / name, symlinks=True)
    for name in ("include", "lib"):
        shutil.copytree(home / name, prefix / "targets/x86_64-linux" / name, symlinks=True)
    return prefix


def test_a_prefix_with_targets(conda: Path, tmp_path: Path) -> None:
    unit = tmp_path / "unit.cu"
    unit.write_text(SOURCES["cub"] + "int main() {}\n")
    run = subprocess.run([conda / "bin/nvcc", "-arch=sm_120a", unit, "-o", tmp_path / "out"],
                         capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr  # it compiles and links without lib64
    site = tmp_path / "site-packages"
    site.mkdir()

    def examine() -> dict[str, dict[str, Any]]:
        text = sm_patch("doctor", "--root", site, "--cuda", conda, "--format", "json")
        return bad(json.loads(text)["checks"])

    found = examine()
    assert found.keys() == {"toolkit-lib64", "toolkit-cudart"}  # of builds that name lib64
    assert "nvcc itself" not in found["toolkit-lib64"]["summary"]
    for row in found.values():
        (command,) = row["repair"]["commands"]
        subprocess.run(shlex.split(command), check=True)
    assert not examine()
    command = ["g++", "-shared", "-x", "c++", "/dev/null", f"-L{conda}/lib64",
               "-Wl,--no-as-needed", "-lcudart", "-o", str(tmp_path / "x.so")]
    link = subprocess.run(command, capture_output=True, text=True, check=False)
    assert link.returncode == 0, link.stderr
    shutil.rmtree(conda / "targets/x86_64-linux/include/cccl")
    run = subprocess.run([conda / "bin/nvcc", "-arch=sm_120a", "-c", unit, "-o", tmp_path / "o"],
                         capture_output=True, text=True, check=False)
    assert "fatal error: cub/cub.cuh: No such file" in run.stderr
    assert "toolkit-headers" in examine()


@pytest.mark.parametrize("release", ["13.0", "13.2", "13.5"])
def test_what_builds_link_can_be_linked_without_a_driver(site: Site, tmp_path: Path,
                                                         release: str) -> None:
    """With the stand-in that docs/around-the-gates.md makes of cuda.h."""
    place = site(release)
    home = place / "nvidia/cu13"
    (home / "lib64").symlink_to("lib")
    unit = tmp_path / "unit.cc"
    unit.write_text("extern \"C\" int cuInit(unsigned); int f() { return cuInit(0); }\n")
    link = ["g++", "-shared", "-fPIC", str(unit), f"-L{home}/lib64/stubs", "-lcuda",
            "-o", str(tmp_path / "x.so")]
    assert "cannot find -lcuda" in subprocess.run(link, capture_output=True, text=True,
                                                  check=False).stderr
    page = (REPOSITORY / "docs/around-the-gates.md").read_text("utf-8")
    (script,) = re.findall(r"```bash\n(mkdir .*?)```", page, re.S)
    subprocess.run(["bash", "-euc", script], check=True, env={**os.environ, "CUDA_HOME": str(home)})
    assert "driver-library" in {r.id for r in mini.examined(place) if r.status is Status.OK}
    subprocess.run(link, check=True)
    needed = subprocess.run(["readelf", "-d", tmp_path / "x.so"], capture_output=True, text=True,
                            check=True).stdout
    assert "[libcuda.so.1]" in needed
