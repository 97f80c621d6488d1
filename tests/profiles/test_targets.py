"""From a device's name to the target that a package builds for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from patcher.arch import Capability, target
from patcher.commands import options
from patcher.errors import UsageError
from patcher.package import Environment, Package, find_package
from patcher.profiles import devices, profile_for
from patcher.profiles.base import Resolved
from patcher.toolchain.model import HostCompiler, Toolkit

Unpacked = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def _empty_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No GPU, no cache, no variables: each test adds what it is about."""
    monkeypatch.delenv("FLASHINFER_CUDA_ARCH_LIST", raising=False)
    monkeypatch.setenv("FLASHINFER_WORKSPACE_BASE", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(devices, "_DRIVER", tmp_path / "driver")


def cuda(version: str) -> Toolkit:
    return Toolkit(version, None, None, (), (), HostCompiler(None, "", (), (), True), "x86_64",
                   False, "test")


def resolve(unpacked: Unpacked, version: str, device: str, toolkit: str = "13.0") -> Resolved:
    folder = unpacked("flashinfer-python", version)
    package = find_package(str(folder), Environment(None, (folder,), None, "test"))
    return profile_for(package).resolve_target(device, package, cuda(toolkit))


@pytest.mark.wheels
@pytest.mark.parametrize(("version", "toolkit", "device", "expected"), [
    # flashinfer's compilation_context.py, by version, read beside each other
    ("0.6.3", "13.0", "12.0", "sm_120a"), ("0.6.3", "13.0", "gb10", "sm_121a"),
    ("0.6.3", "12.8", "5090", "sm_120a"), ("0.6.3", "13.0", "h100", "sm_90a"),
    ("0.6.7", "13.0", "12.0", "sm_120f"), ("0.6.7", "13.0", "12.1", "sm_120f"),
    ("0.7.4", "13.0", "12.0", "sm_120f"), ("0.7.4", "13.0", "12.1", "sm_121a"),
    ("0.7.4", "12.8", "12.0", "sm_120a"), ("0.7.4", "13.0", "b300", "sm_103a"),
    ("0.7.4", "13.0", "a100", "sm_80"),
])
def test_a_capability_is_what_this_version_builds_with_this_cuda(
        unpacked: Unpacked, version: str, toolkit: str, device: str, expected: str) -> None:
    found = resolve(unpacked, version, device, toolkit)
    assert found.target.name == expected
    assert version in found.reason
    assert toolkit in found.reason
    assert not found.assumed


@pytest.mark.wheels
def test_a_version_that_refuses_the_cuda_release_says_so(unpacked: Unpacked) -> None:
    """0.6.7 raises "SM 12.x requires CUDA >= 12.9"."""
    found = resolve(unpacked, "0.6.7", "12.0", "12.8")
    assert "builds nothing" in found.reason


@pytest.mark.wheels
def test_the_arch_list_of_the_environment_is_taken_as_this_version_takes_it(
        unpacked: Unpacked, monkeypatch: pytest.MonkeyPatch) -> None:
    """0.6.3 takes 12.0 verbatim, which is plain sm_120; 0.7.4 completes it (flashinfer 1966)."""
    monkeypatch.setenv("FLASHINFER_CUDA_ARCH_LIST", "9.0a 12.0")
    assert resolve(unpacked, "0.6.3", "12.0").target.name == "sm_120"
    assert resolve(unpacked, "0.7.4", "12.0").target.name == "sm_120f"
    assert "FLASHINFER_CUDA_ARCH_LIST" in resolve(unpacked, "0.6.3", "12.0").reason
    assert resolve(unpacked, "0.6.3", "12.1").target.name == "sm_121a", "not in the list"


@pytest.mark.wheels
def test_a_named_target_stands(unpacked: Unpacked) -> None:
    for name in ("sm_120", "sm_120f", "12.1a", "compute_90a"):
        assert resolve(unpacked, "0.6.3", name).target == target(name)
    with pytest.raises(UsageError, match="unknown device"):
        resolve(unpacked, "0.6.3", "rtx-9999")


@pytest.mark.wheels
def test_auto_asks_the_driver_then_the_cache_then_assumes(
        unpacked: Unpacked, tmp_path: Path) -> None:
    assumed = resolve(unpacked, "0.6.3", "auto")
    assert (assumed.target.name, assumed.assumed) == ("sm_120a", True)
    for name in ("0.6.3/121a", "0.7.4/100a"):
        (tmp_path / "home/.cache/flashinfer" / name / "cached_ops").mkdir(parents=True)
    cached = resolve(unpacked, "0.6.3", "auto")
    assert (cached.target.name, cached.assumed) == ("sm_121a", False)
    information = tmp_path / "driver" / "0000:01:00.0" / "information"
    information.parent.mkdir(parents=True)
    # the driver's own format
    information.write_text("Model: \t\t NVIDIA GeForce RTX 5090\nIRQ:   \t\t 155\n")
    assert resolve(unpacked, "0.6.3", "auto").target.name == "sm_120a"
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '12.1, NVIDIA GB10'\n")
    tool.chmod(0o755)
    os.environ["PATH"] = f"{tmp_path}:/bin"  # monkeypatch restores it
    found = resolve(unpacked, "0.6.3", "auto")
    assert (found.target.name, found.assumed) == ("sm_121a", False)
    assert "GB10" in found.reason


@pytest.mark.parametrize(("name", "capability"), [
    ("5090", (12, 0)), ("RTX 5090", (12, 0)), ("NVIDIA GeForce RTX 5090 Laptop GPU", (12, 0)),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", (12, 0)), ("GB10", (12, 1)),
    ("dgx_spark", (12, 1)), ("rtx5090", (12, 0)), ("rtx pro 6000", (12, 0)),
    ("H100", (9, 0)), ("B200", (10, 0)), ("12.1", (12, 1)),
])
def test_names_as_people_and_drivers_write_them(name: str, capability: tuple[int, int]) -> None:
    assert devices.parse_device(name) == Capability(*capability)


@pytest.mark.parametrize(("typed", "meant"), [
    (["5090,h100"], ("5090", "h100")), (["sm_120a sm_121a"], ("sm_120a", "sm_121a")),
    (["NVIDIA GeForce RTX 5090"], ("NVIDIA GeForce RTX 5090",)),
    (["RTX 5090, gb10", "sm_90a"], ("RTX 5090", "gb10", "sm_90a")),
])
def test_a_list_of_devices_may_hold_names_with_spaces(
    typed: list[str], meant: tuple[str, ...]
) -> None:
    context, option = click.Context(click.Command("x")), click.Option(["--arch"])
    assert options.devices(context, option, typed) == meant


def test_an_unknown_package_gets_the_arch_specific_target(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "__init__.py").write_text("")
    package: Package = find_package(str(tmp_path / "demo"), Environment(None, (), None, "test"))
    profile = profile_for(package)
    assert profile.name == "generic"
    assert profile.resolve_target("5090", package, cuda("13.0")).target.name == "sm_120a"
    assert profile.resolve_target("8.0", package, cuda("13.0")).target.name == "sm_80"
    assert profile.resolve_target("auto", package, cuda("13.0")).assumed
