"""The one file: built by uv for this interpreter, run in an environment that has nothing."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "fleet" / "zipapp"


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"zipapp_{name}", FOLDER / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


build, launcher = _load("build"), _load("launcher")


def _bare(*words: str | Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """Run with nothing but a PATH; -I: no module but those of the zip and the standard library."""
    return subprocess.run(
        [sys.executable, "-I", "-S", *words], check=False, capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(cache), "XDG_CACHE_HOME": str(cache)})


@pytest.fixture(scope="module")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The zipapp for this interpreter and machine."""
    folder = tmp_path_factory.mktemp("zipapp")
    subprocess.run([sys.executable, "-m", "uv", "build", "--quiet", "--wheel", "--out-dir", folder,
                    REPOSITORY], check=True)
    (wheel,) = folder.glob("*.whl")
    output = folder / "sm-patch.pyz"
    subprocess.run([sys.executable, FOLDER / "build.py", wheel, "-o", output,
                    "--python", f"{sys.version_info[0]}.{sys.version_info[1]}",
                    "--machine", platform.machine()], check=True, capture_output=True)
    return output


@pytest.mark.slow
@pytest.mark.network
def test_it_runs_where_nothing_is_installed_and_unpacks_once(pyz: Path, tmp_path: Path) -> None:
    for _ in range(2):
        done = _bare(pyz, "patchsets", "--root", REPOSITORY / "corpus" / "mini" / "0.6.3",
                     cache=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "flashinfer-sm120" in done.stdout
    (home,) = tmp_path.glob("sm-patch/zipapp")
    assert len(list(home.iterdir())) == 1
    assert home.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
@pytest.mark.network
def test_without_a_cache_folder_it_leaves_nothing_behind(pyz: Path, tmp_path: Path) -> None:
    file = tmp_path / "no folder"
    file.touch()
    done = subprocess.run(
        [sys.executable, "-I", "-S", pyz, "--version"], check=False, capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(file), "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["no folder"]


@pytest.mark.slow
@pytest.mark.network
def test_another_interpreter_is_told_what_the_file_is_for(pyz: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.pyz"
    with zipfile.ZipFile(pyz) as source, zipfile.ZipFile(other, "w") as to:
        for info in source.infolist():
            data = source.read(info)
            to.writestr(info, b"cp399-none" if info.filename == "targets" else data)
    done = _bare(other, "--version", cache=tmp_path)
    assert done.returncode == 1
    assert "this file is for cp399-none" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_folder_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    assert launcher.own(str(tmp_path / "new" / "folder"))
    (tmp_path / "open").mkdir()
    os.chmod(tmp_path / "open", 0o777)
    assert not launcher.own(str(tmp_path / "open"))
    (tmp_path / "link").symlink_to(tmp_path / "new")
    assert not launcher.own(str(tmp_path / "link"))
    (tmp_path / "file").touch()
    assert not launcher.own(str(tmp_path / "file"))


def test_what_targets_share_is_kept_once_and_the_file_is_reproducible(tmp_path: Path) -> None:
    targets = {"cp310-x86_64": {"a.py": b"1", "b.so": b"x", "c.py": b"old"},
               "cp313-x86_64": {"a.py": b"1", "b.so": b"y"}}
    assert list(build.layout(targets)) == [
        ("any/a.py", b"1"), ("cp310-x86_64/b.so", b"x"), ("cp310-x86_64/c.py", b"old"),
        ("cp313-x86_64/b.so", b"y")]
    for name in ("1", "2"):
        build.write(targets, tmp_path / name)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
