"""What all tests share: real wheels, the real compiler, and how their absence is treated.

A test that needs a wheel or nvcc is skipped where there is none, but fails under CI,
so that a green run there means it ran.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
WHEELS = REPOSITORY / "corpus" / "wheels"
UNPACKED = REPOSITORY / "corpus" / "unpacked"

# A run in the background may have inherited that interrupts are ignored, and so would all that
# the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def _absent(what: str, how: str) -> None:
    """Skip here, fail under CI: nothing may be green there without having run."""
    message = f"{what} is not here; {how}"
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


def _unpack(distribution: str, version: str) -> Path:
    folder = UNPACKED / f"{distribution}-{version}"
    if folder.is_dir():
        return folder
    wheels = sorted(WHEELS.glob(f"{distribution}-{version}-*.whl"))
    if not wheels:
        _absent(f"the wheel of {distribution} {version}", "run `make corpus`")
    sys.path.insert(0, str(REPOSITORY / "corpus"))
    try:
        from fetch import unpack  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    unpack(wheels[0], folder)
    return folder


@pytest.fixture(scope="session")
def unpacked() -> Callable[[str, str], Path]:
    """``unpacked("flashinfer-python", "0.6.3")``: its unpacked wheel; never write there."""

    def find(distribution: str, version: str) -> Path:
        return _unpack(distribution.replace("-", "_"), version)

    return find


@pytest.fixture(scope="session")
def sliced() -> Callable[..., Path]:
    """``sliced("sglang", "0.5.23")``: an archive with the files of a release that patchsets look
    at, checked against its pinned RECORD; ``form="sources"`` for a source archive."""

    def find(name: str, version: str, form: str = "wheels") -> Path:
        sys.path.insert(0, str(REPOSITORY / "corpus"))
        try:
            import slices  # type: ignore[import-not-found]
        finally:
            sys.path.pop(0)
        (kind,) = (k for k in slices.load() if (k.name, k.form) == (name, form))
        try:
            place: Path = slices.slice_of(kind, version)[0]
        except (slices.SliceError, OSError) as error:
            _absent(f"{name} {version}", f"run `make slices` ({error})")
        return place

    return find


@pytest.fixture
def copy_of(unpacked: Callable[[str, str], Path], tmp_path: Path) -> Callable[..., Path]:
    """``copy_of("flashinfer-python", "0.6.3")``: a private copy that a test may patch."""

    def copy(distribution: str, version: str, name: str = "site-packages") -> Path:
        target = tmp_path / name
        shutil.copytree(unpacked(distribution, version), target, symlinks=True)
        return target

    return copy


@pytest.fixture(scope="session")
def nvcc() -> Path:
    """The real nvcc: CUDA_HOME's, the one on PATH, the usual folder's, or the pip packages'."""
    pip_tree = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin"
    for candidate in (
        os.path.join(os.environ.get("CUDA_HOME", "/nonexistent"), "bin", "nvcc"),
        shutil.which("nvcc"),
        "/usr/local/cuda/bin/nvcc",
        str(pip_tree / "nvcc"),
    ):
        if candidate and os.access(candidate, os.X_OK):
            return Path(candidate)
    _absent("nvcc", "install a CUDA toolkit, or `pip install sm-patch[nvcc]`")
    raise AssertionError("unreachable")


@pytest.fixture(scope="session")
def toolkit(nvcc: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of the real CUDA toolkit; nvcc names it, as what is on PATH may be a wrapper."""
    unit = tmp_path_factory.mktemp("toolkit") / "empty.cu"
    unit.touch()
    dry_run = subprocess.run(
        [nvcc, "--dryrun", "-c", unit, "-o", os.devnull], capture_output=True, text=True, check=True
    )
    (top,) = re.findall(r"^#\$ TOP=(.+)$", dry_run.stderr, re.MULTILINE)
    return Path(top).resolve()


@pytest.fixture(scope="session")
def ninja() -> Path:
    """The real ninja."""
    found = shutil.which("ninja") or shutil.which("ninja", path=str(Path(sys.executable).parent))
    if not found:
        _absent("ninja", "`pip install ninja`")
    return Path(str(found))


@pytest.fixture(scope="session")
def source_tree() -> Callable[[str, str], Path]:
    """``source_tree("vllm", "0.33.0")``: an unpacked source archive; never write there."""

    def find(distribution: str, version: str) -> Path:
        folder = REPOSITORY / "corpus" / "sources" / f"{distribution}-{version}"
        if not folder.is_dir():
            _absent(f"the source archive of {distribution} {version}",
                    f"run `python corpus/sources.py {distribution}=={version}`")
        return folder

    return find
