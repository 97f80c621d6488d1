"""Prebuilt libraries as rows: what each holds, and how much of it a target could run."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.arch import target
from patcher.package.environment import find_environment
from patcher.package.find import find_package
from patcher.profiles import profile_for
from patcher.report.json_scan import document
from patcher.report.text_scan import Style, render_text
from patcher.scan.libraries import gates_of, libraries, row_of
from patcher.scan.model import LibraryRow, Options
from tests.scan.conftest import scan_root

TARGETS = [target(name) for name in ("sm_120a", "sm_121a", "sm_90a", "sm_100a")]


def _library(nvcc: Path, folder: Path, name: str, *units: tuple[str, ...]) -> None:
    """One shared library whose units are compiled for these (arch, code) pairs each."""
    objects = []
    for number, codes in enumerate(units):
        source = folder / f"{name}{number}.cu"
        source.write_text(f"__global__ void kernel{number}(int* p) {{ *p = {number}; }}\n"
                          f"void f{number}(int* p) {{ kernel{number}<<<1, 1>>>(p); }}\n")
        flags = [f"-gencode=arch=compute_{code.split('_')[1]},code={code}" for code in codes]
        subprocess.run([nvcc, "-c", "-Xcompiler", "-fPIC", *flags, source, "-o",
                        source.with_suffix(".o")], check=True, capture_output=True)
        objects.append(source.with_suffix(".o"))
    place = folder / "demo" / f"{name}.so"
    place.parent.mkdir(exist_ok=True)
    subprocess.run([nvcc, "-shared", "-cudart", "none", *objects, "-o", place], check=True,
                   capture_output=True)


@pytest.mark.slow
@pytest.mark.nvcc
def test_each_part_counts_for_the_targets_that_can_run_it(nvcc: Path, tmp_path: Path) -> None:
    """By the CUDA guide: a code for one capability, f for its family, PTX for what is later."""
    _library(nvcc, tmp_path, "mixed", ("sm_90a", "sm_120a"), ("sm_100f", "sm_120f"),
             ("sm_80", "compute_80"))
    _library(nvcc, tmp_path, "other", ("sm_90a", "sm_100f"))
    (tmp_path / "demo" / "__init__.py").touch()
    (tmp_path / "demo" / "broken.so").write_bytes(b"\x7fELF but no more")
    package = find_package("demo", find_environment(None, str(tmp_path)))
    rows = {row.path: row for row in
            (row_of(found, TARGETS) for found in libraries(profile_for(package), package))}
    mixed, other = rows["demo/mixed.so"], rows["demo/other.so"]
    assert set(rows) == {"demo/mixed.so", "demo/other.so"}
    assert mixed.codes == ("sm_80", "sm_90a", "sm_100f", "sm_120a", "sm_120f", "compute_80")
    assert (mixed.parts, other.parts) == (3, 1)
    assert mixed.usable == {"sm_120a": 3, "sm_121a": 2, "sm_90a": 2, "sm_100a": 2}
    assert mixed.from_ptx == {"sm_120a": 1, "sm_121a": 1, "sm_90a": 1, "sm_100a": 1}
    assert other.usable == {"sm_120a": 0, "sm_121a": 0, "sm_90a": 1, "sm_100a": 1}
    report = scan_root(tmp_path, "demo", "sm_120a", Options(), "13.0")
    (gate,) = report.findings
    assert (gate.location.path, gate.layer.value, gate.cause.value) == (
        "demo/other.so", "binary", "binary")
    assert "demo/other.so [prebuilt]: nothing for sm_120a" in render_text(report)
    assert {row["path"] for row in document(report)["libraries"]} == set(rows)


def _row(path: str, usable: dict[str, int], kind: str = "prebuilt") -> LibraryRow:
    return LibraryRow(path, kind, "m", ("sm_90a",), 4, usable, dict.fromkeys(usable, 0))


def test_only_a_prebuilt_library_that_serves_a_reference_keeps_a_target_out() -> None:
    asked, reference = target("sm_120a"), target("sm_90a")
    rows = [_row("a.so", {"sm_120a": 0, "sm_90a": 4}), _row("b.so", {"sm_120a": 1, "sm_90a": 4}),
            _row("c.so", {"sm_120a": 0, "sm_90a": 0}),
            _row("d.so", {"sm_120a": 0, "sm_90a": 4}, "jit")]
    assert [g.location.path for g in gates_of(rows, [asked], [reference])] == ["a.so"]


@pytest.mark.wheels
def test_a_scan_of_a_wheel_without_libraries_says_nothing_of_them(
        unpacked: Callable[[str, str], Path]) -> None:
    root = unpacked("sglang", "0.5.8.post1")
    from patcher.gates import Layer

    report = scan_root(root, "sglang", "sm_120a", Options(layers=frozenset({Layer.BINARY})), "13.0")
    assert [row for row in report.libraries if row.kind == "prebuilt"] == []
    assert "Libraries with GPU code" not in render_text(report, Style(all=True))


@pytest.mark.slow
@pytest.mark.nvcc
@pytest.mark.wheels
def test_what_a_jit_cache_holds_is_a_row_and_no_gate(
        nvcc: Path, unpacked: Callable[[str, str], Path], tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    """A library in this user's FlashInfer cache, built for 9.0 only: nothing is closed by it, as
    the package would build another one for this GPU."""
    monkeypatch.setenv("FLASHINFER_WORKSPACE_BASE", str(tmp_path))
    _library(nvcc, tmp_path, "norm", ("sm_90a",))
    folder = tmp_path / ".cache" / "flashinfer" / "0.6.3" / "90a" / "cached_ops" / "norm"
    folder.mkdir(parents=True)
    (tmp_path / "demo" / "norm.so").rename(folder / "norm.so")
    root = unpacked("flashinfer-python", "0.6.3")
    package = find_package("flashinfer", find_environment(None, str(root)))
    (row,) = (row_of(found, TARGETS) for found in libraries(profile_for(package), package))
    assert (row.kind, row.module, row.codes) == ("jit", "norm", ("sm_90a",))
    assert (row.usable["sm_120a"], row.usable["sm_90a"]) == (0, 1)
    assert gates_of([row], [target("sm_120a")], [target("sm_90a")]) == []
