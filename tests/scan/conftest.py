"""Scans of real wheels, each made once per session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.arch import target
from patcher.package.environment import find_environment
from patcher.package.find import find_package
from patcher.profiles import profile_for
from patcher.scan.model import Options, Report
from patcher.scan.run import scan
from patcher.toolchain.find import find_toolkit

REFERENCES = ("sm_90a", "sm_100a")


def scan_root(root: Path, name: str, device: str, options: Options, cuda: str | None = None,
              ) -> Report:
    """Scan one package of a folder that stands for site-packages."""
    environment = find_environment(None, str(root))
    package = find_package(name, environment)
    toolkit = find_toolkit(cuda, environment)
    references = [target(each) for each in REFERENCES]
    return scan(package, profile_for(package), [target(device)], references, toolkit, options)


Scanned = Callable[..., Report]


@pytest.fixture(scope="session")
def scanned(unpacked: Callable[[str, str], Path]) -> Scanned:
    """``scanned("0.6.3", "sm_120a", "trtllm_comm")``: a scan of some of FlashInfer's modules."""
    known: dict[tuple[object, ...], Report] = {}

    def run(version: str, device: str, *modules: str, cuda: str | None = None) -> Report:
        key = (version, device, modules, cuda)
        if key not in known:
            root = unpacked("flashinfer-python", version)
            options = Options(modules=modules, follow_all=bool(modules))
            known[key] = scan_root(root, "flashinfer", device, options, cuda)
        return known[key]

    return run
