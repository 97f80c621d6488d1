"""A kept scan is given only while everything it was made from is the same, by content."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.arch import target
from patcher.cuda.store import Store
from patcher.package.find import find_package
from patcher.package.model import Environment
from patcher.profiles import profile_for
from patcher.scan import kept, run
from patcher.scan.model import Options, Report
from patcher.toolchain.find import find_toolkit

UNIT = b'#include "guard.h"\n__global__ void kernel(int* p) {\n#if OPEN\n  *p = 1;\n#endif\n}\n'
OLD = b"#define OPEN (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200)\n"
NEW = b"#define OPEN (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1300)\n"

Scan = Callable[[], Report]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "site" / "pkg"
    (root / "include").mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (root / "kernel.cu").write_bytes(UNIT)
    (root / "include" / "guard.h").write_bytes(OLD)
    return root


@pytest.fixture
def scan(package: Path, tmp_path: Path) -> Scan:
    toolkit = find_toolkit("13.0")

    def once(device: str = "sm_120a") -> Report:
        environment = Environment(None, (package.parent,), None, "test", root=package.parent)
        found = find_package(str(package), environment)
        return kept.scan(found, profile_for(found), [target(device)], [target("sm_90a")], toolkit,
                         Options(), store=Store(tmp_path / "store"))

    return once


def as_found(report: Report) -> tuple[object, ...]:
    return report, dict(report.details)


def forbidden(*_: object, **__: object) -> Report:
    raise AssertionError("scanned again")


def test_an_unchanged_package_is_not_scanned_again(
    scan: Scan, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = scan()
    assert [gate.excludes_target for gate in first.gates] == [True]
    monkeypatch.setattr(run, "scan", forbidden)
    os.utime(package / "kernel.cu", (1, 1))  # a time says nothing
    second = scan()
    assert as_found(second) == as_found(first)
    assert second.gates == first.gates
    with pytest.raises(AssertionError, match="scanned again"):
        scan("sm_121a")  # type: ignore[call-arg]


def edited(package: Path) -> None:
    """Same size, same time: only the content tells."""
    path = package / "include" / "guard.h"
    times = (path.stat().st_atime, path.stat().st_mtime)
    path.write_bytes(NEW)
    os.utime(path, times)


def shadowed(package: Path) -> None:
    (package / "guard.h").write_bytes(NEW)  # beside the unit, so it is found first


def removed(package: Path) -> None:
    (package / "kernel.cu").unlink()


@pytest.mark.parametrize("change", [edited, shadowed, removed])
def test_a_change_is_seen(scan: Scan, package: Path, change: Callable[[Path], None]) -> None:
    scan()
    change(package)
    assert [gate for gate in scan().gates if gate.excludes_target] == []


def test_a_new_unit_is_seen(scan: Scan, package: Path) -> None:
    before = scan()
    (package / "more.cu").write_bytes(UNIT)
    assert scan().unit_count == before.unit_count + 1


def test_our_own_code_is_part_of_what_it_was_made_from(
    scan: Scan, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan()
    monkeypatch.setattr(run, "scan", forbidden)
    scan()
    monkeypatch.setattr(kept, "code_digest", lambda: "another release")
    with pytest.raises(AssertionError, match="scanned again"):
        scan()
