"""Toolkits from real wheels: each way they fail, its cause as named, and the repair, by nvcc.

The rows are those of a table measured with nvcc 13.0, 13.2 and 13.5; what each command prints
is asserted here too, so the expectation cannot drift from the compiler.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.doctor.helpers import bad, doctor, nvcc, sm_patch, snapshot

pytestmark = [pytest.mark.slow, pytest.mark.wheels]
Site = Callable[..., Path]
Unpacked = Callable[[str, str], Path]
HEADERS, LIBRARIES = "cuda-headers/cccl", "cuda-libraries"
LINKS = {"toolkit-lib64", "toolkit-cudart"}


def apply(site: Path, patchset: str) -> None:
    name, _, group = patchset.partition("/")
    sm_patch("apply", name, *(["--group", group] if group else []), "--root", site)


def revert(site: Path, patchset: str) -> None:
    sm_patch("revert", patchset.partition("/")[0], "--root", site)


@pytest.mark.parametrize("release", ["13.0", "13.2", "13.5"])
def test_without_cccl_headers_are_missing_until_they_are_merged(
    site: Site, unpacked: Unpacked, tmp_path: Path, release: str
) -> None:
    place = site(f"{release}-bare", unpacked("flashinfer-python", "0.7.4"))
    before = snapshot(place / "nvidia")
    assert nvcc(place, "plain", tmp_path, "-c").returncode == 0
    for kind, header in (("target", "nv/target"), ("atomic", "cuda/std/atomic"),
                         ("fp16", "nv/target"), ("groups", "nv/target"), ("cub", "cub/cub.cuh")):
        assert f"fatal error: {header}: No such file" in nvcc(place, kind, tmp_path, "-c").stderr
    found = bad(doctor(place))["toolkit-headers"]
    assert "nv/target is missing, which" in found["summary"]
    assert found["repair"]["patchset"] == HEADERS
    assert found["repair"]["commands"] == [f"pip install 'nvidia-cuda-cccl=={release}.*'"]
    apply(place, HEADERS)
    for kind in ("target", "atomic", "fp16", "groups", "cub"):
        done = nvcc(place, kind, tmp_path, "-M")
        assert done.returncode == 0, done.stderr
    assert nvcc(place, "fp16", tmp_path, "-c").returncode == 0
    assert bad(doctor(place)).keys() == LINKS
    revert(place, HEADERS)
    assert snapshot(place / "nvidia") == before


@pytest.mark.parametrize("how", ["copy", "link"])
def test_one_header_alone_is_not_enough(
    site: Site, unpacked: Unpacked, tmp_path: Path, how: str
) -> None:
    place = site("13.2-bare", unpacked("flashinfer-python", "0.7.4"))
    source = place / "flashinfer/data/cccl/libcudacxx/include/nv/target"
    header = place / "nvidia/cu13/include/nv/target"
    header.parent.mkdir()
    if how == "copy":
        shutil.copy(source, header)
    else:
        header.symlink_to(source)
    before = snapshot(place / "nvidia")
    assert "nv/detail/__target_macros: No such file" in nvcc(place, "fp16", tmp_path, "-c").stderr
    found = bad(doctor(place))["toolkit-headers"]
    assert "nv/detail/__target_macros is missing" in found["summary"]
    assert "a partial copy of CCCL" in found["summary"]
    apply(place, HEADERS)
    assert nvcc(place, "fp16", tmp_path, "-c").returncode == 0
    revert(place, HEADERS)
    assert snapshot(place / "nvidia") == before


def test_two_cccls_are_not_mixed(site: Site, unpacked: Unpacked, tmp_path: Path) -> None:
    place = site("13.0", unpacked("flashinfer-python", "0.7.4"))
    before = snapshot(place / "nvidia")
    refused = subprocess.run(
        [sys.executable, "-m", "patcher", "apply", "cuda-headers", "--group", "cccl", "--root",
         place], check=False, capture_output=True, text=True)
    assert refused.returncode == 3
    assert "two releases do not mix" in " ".join((refused.stdout + refused.stderr).split())
    assert snapshot(place / "nvidia") == before
    assert "toolkit-mixed-cccl" not in bad(doctor(place))
    # what `cp -rn` does: what is there stays, what is not there comes from the other release
    bundled, target = place / "flashinfer/data/cccl/libcudacxx/include", (
        place / "nvidia/cu13/include/cccl")
    for path in sorted(p for p in bundled.rglob("*") if p.is_file()):
        goal = target / path.relative_to(bundled)
        if not goal.exists():
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, goal)
    found = bad(doctor(place))["toolkit-mixed-cccl"]
    assert found["repair"]["commands"][1].endswith("--no-deps nvidia-cuda-cccl")


def pip(site: Path, line: str, work: Path) -> None:
    """Run a pip line that the doctor printed, on the wheels that are here."""
    command: list[str | Path] = [sys.executable, "-m", "venv", "--without-pip", work / "venv"]
    subprocess.run(command, check=True)
    home = next((work / "venv").glob("lib/python3*/site-packages"))
    shutil.rmtree(home)
    site.rename(home)
    words = [word.strip("'") for word in line.split()]
    assert words[:2] == ["pip", "install"]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", work / "venv", "install", "--quiet", "--no-deps",
         "--no-index", "--find-links", REPOSITORY / "corpus/trees/wheels", *words[2:]], check=True)
    home.rename(site)


RELEASES = ("13.0", "13.2", "13.5")
SKEWED = [f"{nvcc}-{part}{other}" for nvcc in RELEASES for part in ("crt", "nvvm", "runtime")
          for other in RELEASES if other != nvcc]


@pytest.mark.parametrize("name", SKEWED)
def test_parts_of_two_releases(site: Site, tmp_path: Path, name: str) -> None:
    """What the doctor says of a mixture is what the compiler makes of it."""
    place = site(name)
    found = bad(doctor(place))
    (check,) = found.keys() - LINKS
    row = found[check]
    part = name.partition("-")[2].rstrip("0123456789.")
    assert check == f"toolkit-skew-{'runtime' if part == 'runtime' else 'compiler'}"
    said = f"{'the runtime headers are' if part == 'runtime' else f'{part} is'} {name[-4:]}"
    assert said in row["summary"]
    plain, atomic = (nvcc(place, kind, tmp_path, "-c") for kind in ("plain", "atomic"))
    fails = atomic if part == "runtime" else plain
    assert (plain.returncode == 0) == (row["status"] == "warning" or part == "runtime")
    assert (fails.returncode == 0) == (row["status"] == "warning"), fails.stderr
    messages = [line.removeprefix("expect: ") for line in row["evidence"] if "expect: " in line]
    assert len(messages) == (fails.returncode != 0)
    for message in messages:  # the compiler's own words, less the file's name
        assert message.rpartition("fatal : ")[2] in fails.stderr
    pip(place, row["repair"]["commands"][0], tmp_path)
    assert nvcc(place, "atomic", tmp_path, "-c").returncode == 0
    assert bad(doctor(place)).keys() == LINKS


def test_the_way_around_a_runtime_of_another_release(site: Site, tmp_path: Path) -> None:
    """CCCL 3.2.0 of this tree knows the macro that is advised."""
    place = site("13.2-runtime13.0")
    macro = "-DCCCL_DISABLE_CTK_COMPATIBILITY_CHECK"
    assert macro in bad(doctor(place))["toolkit-skew-runtime"]["repair"]["advice"][0]
    assert nvcc(place, "atomic", tmp_path, "-c", macro).returncode == 0


def test_an_older_cccl_knows_no_way_around(site: Site, tree: Callable[[str], Path],
                                           tmp_path: Path) -> None:
    """The macro is not in CCCL 3.0.1 (wheel 13.0.85), so it must not be advised."""
    place = site("13.2-runtime13.0")
    shutil.rmtree(place / "nvidia/cu13/include/cccl")
    shutil.copytree(tree("13.0") / "nvidia/cu13/include/cccl", place / "nvidia/cu13/include/cccl")
    macro = "-DCCCL_DISABLE_CTK_COMPATIBILITY_CHECK"
    assert nvcc(place, "atomic", tmp_path, "-c", macro).returncode != 0
    found = bad(doctor(place))["toolkit-skew-runtime"]
    assert found["repair"]["commands"] == ["pip install 'nvidia-cuda-runtime==13.2.*'"]


@pytest.mark.parametrize("release", ["13.0", "13.2", "13.5"])
def test_links_need_names_that_no_wheel_brings(site: Site, tmp_path: Path, release: str) -> None:
    place = site(release)
    home = place / "nvidia" / "cu13"
    before = snapshot(place / "nvidia")

    def like_flashinfer() -> subprocess.CompletedProcess[str]:
        unit = tmp_path / "empty.cc"
        unit.touch()
        return subprocess.run(
            ["g++", "-shared", unit, f"-L{home}/lib64", "-Wl,--no-as-needed", "-lcudart",
             "-o", tmp_path / "empty.so"], check=False, capture_output=True, text=True)

    if release == "13.0":  # its nvcc.profile names lib64
        assert "cannot find -lcudadevrt" in nvcc(place, "plain", tmp_path).stderr
    assert "cannot find -lcudart" in nvcc(place, "plain", tmp_path, "-cudart=shared").stderr
    assert "cannot find -lcudart" in like_flashinfer().stderr
    found = bad(doctor(place))
    assert found.keys() == LINKS
    assert {row["repair"]["patchset"] for row in found.values()} == {LIBRARIES}
    assert ("nvcc itself" in found["toolkit-lib64"]["summary"]) == (release == "13.0")
    apply(place, LIBRARIES)
    for flags in ([], ["-cudart=shared"]):
        assert nvcc(place, "plain", tmp_path, *flags).returncode == 0
    assert like_flashinfer().returncode == 0
    needed = subprocess.run(["readelf", "-d", tmp_path / "empty.so"], capture_output=True,
                            text=True, check=True).stdout
    assert "libcudart.so.13" in needed
    assert not bad(doctor(place, "--fail-on", "warning"))
    revert(place, LIBRARIES)
    assert snapshot(place / "nvidia") == before


@pytest.mark.parametrize("release", ["13.0", "13.2", "13.5"])
def test_a_healthy_toolkit_has_no_warning(site: Site, release: str) -> None:
    place = site(release)
    (place / "nvidia/cu13/lib64").symlink_to("lib")
    (place / "nvidia/cu13/lib/libcudart.so").symlink_to("libcudart.so.13")
    assert not bad(doctor(place, "--fail-on", "warning"))
