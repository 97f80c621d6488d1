"""Packages without a profile, and units out of an existing cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.package import Environment, find_package
from patcher.profiles import profile_for
from patcher.profiles.flashinfer import FlashInfer

from .test_targets import cuda

Unpacked = Callable[[str, str], Path]


def test_every_cuda_file_of_an_unknown_package_is_a_guessed_unit(tmp_path: Path) -> None:
    for path in ("demo/__init__.py", "demo/csrc/a.cu", "demo/csrc/deep/b.cu", "demo/csrc/a.cuh",
                 "demo/include/demo/c.h", "demo/empty/include/readme.txt", "demo/x.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    package = find_package(str(tmp_path / "demo"), Environment(None, (), None, "test"))
    profile = profile_for(package)
    units = profile.translation_units(package, cuda("13.0"))
    assert [u.path for u in units] == ["demo/csrc/a.cu", "demo/csrc/deep/b.cu"]
    for unit in units:
        assert unit.configuration.guessed
        assert unit.configuration.include == ("demo/csrc", "demo/include", "demo")
    assert list(profile.modules(package, cuda("13.0"))) == []
    assert profile.tree(package, cuda("13.0")) is package.tree


@pytest.mark.wheels
def test_a_cache_gives_exact_units(unpacked: Unpacked, tmp_path: Path,
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    root = unpacked("flashinfer-python", "0.6.3")
    monkeypatch.setenv("FLASHINFER_WORKSPACE_BASE", str(tmp_path))
    made = tmp_path / "generated" / "norm" / "kernel.cu"
    made.parent.mkdir(parents=True)
    made.write_text("")
    folder = tmp_path / ".cache" / "flashinfer" / "0.6.3" / "120a" / "cached_ops" / "norm"
    folder.mkdir(parents=True)
    (folder / "build.ninja").write_text(
        "rule cuda_compile\n"
        f"  command = nvcc -DOWN=3 -isystem {root}/flashinfer/data/include -c $in -o $out\n"
        f"build a.o: cuda_compile {root}/flashinfer/data/csrc/norm.cu\n"
        f"build b.o: cuda_compile {made}\n"
        "build c.o: cuda_compile /gone.cu\n")
    package = find_package(str(root), Environment(None, (root,), None, "test"))
    units = FlashInfer().cached_units(package, cuda("13.0"))
    assert [u.path for u in units] == [str(made), "flashinfer/data/csrc/norm.cu"]
    for unit in units:
        assert unit.modules == ("norm",)
        assert unit.configuration.system == ("flashinfer/data/include",)
        assert dict(unit.configuration.defines) == {"OWN": "3"}
        assert not unit.configuration.guessed


@pytest.mark.wheels
def test_aot_folders_are_the_packages_own_and_those_of_jit_cache_packages(
        unpacked: Unpacked, tmp_path: Path) -> None:
    (tmp_path / "flashinfer_jit_cache").mkdir()
    (tmp_path / "flashinfer_jit_cache-0.6.3.dist-info").mkdir()
    root = unpacked("flashinfer-python", "0.6.3")
    package = find_package(str(root), Environment(None, (tmp_path,), None, "test"))
    assert profile_for(package).aot_folders(package) == [
        str(root / "flashinfer" / "data" / "aot"),
        str(tmp_path / "flashinfer_jit_cache" / "jit_cache")]
