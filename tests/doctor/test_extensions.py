"""Prebuilt extensions: another torch, libraries not found, damaged files; built by gcc here."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.doctor import mini
from tests.doctor.helpers import bad, doctor, sm_patch

# The name that changed between torch 2.9 (int) and 2.10 (unsigned int), and its caller.
CHECK = ("namespace c10::cuda {{ void c10_cuda_check_implementation("
         "{0}, const char*, const char*, int, bool){1} }}")


def build(path: Path, source: str, *flags: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    unit = path.with_suffix(".cc")
    unit.write_text(source)
    subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", f"-Wl,-soname,{path.name}", unit,
                    "-o", path, *flags], check=True)
    unit.unlink()
    return path


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """torch 2.11 in miniature, and an extension built for the older signature."""
    site = tmp_path / "site-packages"
    built_with = tmp_path / "older"
    build(built_with / "libc10.so", CHECK.format("int", " {}"))
    build(site / "torch/lib/libc10.so", CHECK.format("unsigned", " {}"))
    mini.dist(site, "torch", "2.11.0", "torch/lib/libc10.so")
    build(site / "ext/ops.so", CHECK.format("int", ";") + "void f() { "
          "c10::cuda::c10_cuda_check_implementation(1, 0, 0, 1, true); }",
          f"-L{built_with}", "-lc10", "-Wl,-rpath,$ORIGIN/../torch/lib")
    mini.write(site / "ext/__init__.py", "raise SystemExit('imported')\n")
    mini.dist(site, "ext", "1.0", "ext/ops.so", "ext/__init__.py")
    return site


def test_another_torch_is_named_with_what_differs(site: Path) -> None:
    found = bad(doctor(site))
    assert found.keys() == {"abi-ext"}
    assert "ext was built for torch 2.8 or 2.9, installed is 2.11.0" in found["abi-ext"]["summary"]
    assert found["abi-ext"]["evidence"][0] == (
        "c10::cuda::c10_cuda_check_implementation(int, char const*, char const*, int, bool): "
        "parameter 1: int expected, unsigned int provided")
    assert found["abi-ext"]["repair"]["commands"][0] == "pip install 'torch==2.9.*'"


def test_abi_says_the_same_of_the_package_and_of_the_file(site: Path) -> None:
    text = sm_patch("abi", "ext", "--root", site)
    assert text.startswith("ext 1.0 does not fit the installed torch 2.11.0")
    assert "parameter 1: int expected, unsigned int provided" in text
    assert text.splitlines()[-1] == "Next: pip install 'torch==2.9.*'"
    assert max(map(len, text.splitlines())) <= 80
    alone = json.loads(sm_patch("abi", site / "ext/ops.so", "--root", site / "ext", "--format",
                                "json"))["checks"]
    assert alone[0]["abi"]["fits"] == ["2.8.0", "2.9.1"]
    assert sm_patch("abi", "ext", "--root", site, "--fail-on", "error", expect=1)


def test_a_release_is_learned(site: Path, tmp_path: Path) -> None:
    home = str(tmp_path / "data")
    older = build(tmp_path / "learn/libc10.so", CHECK.format("int", " {}")).parent
    assert "1 names" in sm_patch("abi", "learn", older, "--as", "2.99.0", XDG_DATA_HOME=home)
    text = sm_patch("abi", site / "ext/ops.so", "--root", site / "ext", XDG_DATA_HOME=home)
    assert "fits 2.8.0, 2.9.1, 2.99.0" in text
    sm_patch("abi", "learn", tmp_path, "--as", "3.0", expect=2, XDG_DATA_HOME=home)
    sm_patch("abi", "learn", older, "--as", "../x", expect=2, XDG_DATA_HOME=home)


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01", b"#!/bin/sh\n", None])
def test_damaged_libraries_are_named_and_the_rest_goes_on(site: Path, content: bytes | None
                                                          ) -> None:
    whole = (site / "ext/ops.so").read_bytes()
    broken = site / "ext/broken.so"
    broken.write_bytes(whole[:2000] if content is None else content)
    mini.dist(site, "ext", "1.0", "ext/ops.so", "ext/broken.so")
    checks = doctor(site)
    assert [c["status"] for c in checks if c["id"] == "abi-ext"] == ["error", "warning"]
    assert "broken.so cannot be read" in next(
        c["summary"] for c in checks if c["status"] == "warning")


def test_a_library_beside_the_loaders_ways(site: Path) -> None:
    """Present in site-packages, on no search path: the loader fails all the same."""
    build(site / "nvidia/cu13/lib/libnvrtc.so.13", "int nvrtc() { return 1; }")
    shutil.copy(site / "nvidia/cu13/lib/libnvrtc.so.13", site.parent / "libnvrtc.so")
    build(site / "ext/rtc.so", "int nvrtc(); int g() { return nvrtc(); }", f"-L{site.parent}",
          "-lnvrtc", f"-L{site}/torch/lib", "-Wl,--no-as-needed", "-lc10",
          "-Wl,-rpath,$ORIGIN/../torch/lib")
    mini.dist(site, "ext", "1.0", "ext/rtc.so")
    found = bad(doctor(site))["loader-ext"]
    assert found["summary"] == "libnvrtc.so.13 is installed, but the loader will not find it"
    line = found["repair"]["commands"][0]
    assert line == f"export LD_LIBRARY_PATH={site}/nvidia/cu13/lib:$LD_LIBRARY_PATH"
    assert "loader-ext" not in bad(doctor(site, LD_LIBRARY_PATH=f"{site}/nvidia/cu13/lib"))
    # a package that opens the library itself first, by its SONAME
    mini.write(site / "ext/__init__.py", "import ctypes\nctypes.CDLL(find('libnvrtc.so.13'))\n")
    assert "loader-ext" not in bad(doctor(site))
    mini.write(site / "ext/__init__.py")
    (site / "nvidia/cu13/lib/libnvrtc.so.13").rename(site / "nvidia/cu13/lib/libnvrtc.so.12")
    found = bad(doctor(site))["loader-ext"]
    assert "needs libnvrtc.so.13, and only libnvrtc.so.12 is here" in found["summary"]
    assert "ln " not in " ".join(found["repair"]["commands"])


def test_nothing_of_a_package_runs(site: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    code = f"import pathlib; pathlib.Path({str(marker)!r}).touch()\n"
    for file in ("ext/__init__.py", "sitecustomize.py", "evil.pth"):
        mini.write(site / file, code)
    doctor(site, "ext")
    sm_patch("abi", "ext", "--root", site)
    assert not marker.exists()


def test_fail_on_and_what_is_not_there(site: Path) -> None:
    doctor(site, "--fail-on", "error", expect=1)
    (site / "ext/ops.so").unlink()
    mini.dist(site, "ext", "1.0", "ext/__init__.py")
    doctor(site, "--fail-on", "error")
    checks = doctor(site, "absent", "--fail-on", "error", expect=1)
    assert checks[0]["id"] == "package"
    assert "absent" in checks[0]["summary"]
    sm_patch("abi", "absent", "--root", site, expect=2)
    sm_patch("doctor", "--root", site, "--arch", "9999x", expect=2)


def test_what_installers_left_half_done(site: Path) -> None:
    assert "installs" not in bad(doctor(site))
    mini.dist(site, "ext", "0.9")
    (site / "~orch").mkdir()
    mini.dist(site, "other", "1.0")
    mini.write(site / "other-1.0.dist-info/RECORD", "other/lib.so,,9\nother/x.py,,1\n")
    found = [c for c in doctor(site) if c["id"] == "installs"]
    assert [c["status"] for c in found] == ["error", "warning", "warning"]
    assert "other lacks libraries" in found[0]["summary"]
    assert "ext has the metadata of 0.9 and 1.0" in found[1]["summary"]
    assert "~orch" in found[2]["evidence"]
