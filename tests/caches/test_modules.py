"""Which JIT modules an edit concerns: on the real package, by file, function and header."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.affected import Installed
from patcher.caches.aot import ASIDE
from patcher.caches.modules import functions_at
from patcher.edits import Edit, Span
from patcher.package.environment import find_environment
from patcher.package.find import find_package
from patcher.profiles import profile_for
from patcher.state import find_home
from patcher.toolchain.find import find_toolkit

SOURCE = b"""MAJORS = [9]

def outer():
    def inner():
        return 1
    return inner

class C:
    def method(self):
        return 2
"""
COMM = "flashinfer/jit/comm.py"
HEADER = "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh"


@pytest.mark.parametrize(("text", "names"), [
    (b"[9]", {""}), (b"return 1", {"outer", "inner"}), (b"return inner", {"outer"}),
    (b"return 2", {"method"}), (b"class", {""})])
def test_the_functions_of_a_place(text: bytes, names: set[str]) -> None:
    at = SOURCE.index(text)
    found = functions_at(SOURCE, [Span(at, at + len(text))])
    assert found is not None
    assert set(found) == names


def test_what_does_not_parse_tells_nothing() -> None:
    assert functions_at(b"def (", [Span(0, 1)]) is None


@pytest.fixture
def site(unpacked: Callable[[str, str], Path]) -> Path:
    return unpacked("flashinfer-python", "0.6.3")


def installed(site: Path, edits: dict[str, tuple[Edit, ...]] | None = None) -> Installed:
    environment = find_environment(None, str(site))
    package = find_package("flashinfer", environment)
    return Installed(package, profile_for(package), lambda: find_toolkit("13.0", environment),
                     edits or {})


@pytest.mark.wheels
def test_a_gate_edit_concerns_the_module_of_its_function(site: Path) -> None:
    """comm.py of 0.6.3 builds six modules; the list [9, 10] stands in trtllm_comm's function."""
    home = find_home(prefix=None, root=site, state=None)
    whole = installed(site).subject(home, home.journal()).describe(frozenset({COMM}))
    assert {"trtllm_comm", "vllm_comm", "nvshmem"} <= whole.modules
    at = (site / COMM).read_bytes().index(b"[9, 10]")
    edit = Edit(Span(at, at + 7), b"[9, 10, 12]")
    about = installed(site, {COMM: (edit,)}).subject(home, home.journal())
    assert about.describe(frozenset({COMM})).modules == {"trtllm_comm"}


@pytest.mark.wheels
@pytest.mark.slow
def test_a_header_is_looked_for_only_behind_prebuilt_modules(copy_of: Callable[..., Path]) -> None:
    """trtllm_allreduce.cuh is included by trtllm_allreduce.cu of trtllm_comm alone (C1)."""
    copy = copy_of("flashinfer-python", "0.6.3")
    home = find_home(prefix=None, root=copy, state=None)
    paths = frozenset({HEADER})
    assert installed(copy).subject(home, home.journal()).describe(paths).compiled == frozenset()
    aot = copy / "flashinfer/data/aot/trtllm_comm/trtllm_comm.so"
    aot.parent.mkdir(parents=True)
    aot.write_bytes(b"prebuilt")
    assert installed(copy).subject(home, home.journal()).describe(paths).compiled == {
        "trtllm_comm"}
    aot.parent.rename(aot.parent.with_name("trtllm_comm" + ASIDE))
    assert installed(copy).subject(home, home.journal()).describe(paths).compiled == frozenset()
