"""Which environment is meant, asked without running anything of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.errors import InputError
from patcher.package import find_environment
from patcher.package.environment import path_lines

from .conftest import site_of


def test_a_folder_and_its_interpreter_are_the_same_environment(venv: Path) -> None:
    by_folder = find_environment(str(venv))
    by_python = find_environment(str(venv / "bin" / "python"))
    assert by_folder.prefix == by_python.prefix == venv
    assert by_folder.site_packages[0] == by_python.site_packages[0] == site_of(venv)
    assert by_folder.version == sys.version_info[:2]
    assert by_folder.include is not None
    assert by_folder.include.name == f"python3.{sys.version_info[1]}"


def test_code_in_pth_files_is_never_executed(venv: Path, tmp_path: Path) -> None:
    marker, extra = tmp_path / "executed", tmp_path / "extra"
    extra.mkdir()
    line = f"import pathlib; pathlib.Path({str(marker)!r}).touch()"
    (site_of(venv) / "evil.pth").write_text(f"{line}\n{extra}\n# comment\nmissing-folder\n")

    found = find_environment(str(venv))

    assert not marker.exists()
    assert found.site_packages == (site_of_without_site(venv), extra)
    subprocess.run([venv / "bin" / "python", "-c", "pass"], check=True)
    assert marker.exists(), "the file does run code when Python starts normally"


def site_of_without_site(venv: Path) -> Path:
    """site_of would execute the .pth file under test: -S does not."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return venv / "lib" / version / "site-packages"


def test_system_site_packages_follow_the_own_ones(uv: Callable[..., None], tmp_path: Path,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    folder = tmp_path / "open"
    uv("venv", "--system-site-packages", "--python", sys.executable, folder)
    asked = subprocess.run(
        [folder / "bin" / "python", "-c",
         "import sys, os; print(*[p for p in sys.path if p.endswith('-packages')], sep='\\n')"],
        check=True, capture_output=True, text=True)
    expected = [Path(p) for p in asked.stdout.split()]
    found = list(find_environment(str(folder)).site_packages)
    assert [p for p in found if p in expected] == [p for p in expected if p in found]
    assert found[0] == expected[0]
    assert len(found) > 1


def test_the_order_of_choice_is_stated(venv: Path, tmp_path: Path,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project" / "deep"
    project.mkdir(parents=True)
    shutil.copytree(venv, tmp_path / "project" / ".venv", symlinks=True)
    monkeypatch.chdir(project)
    assert "nearest .venv" in find_environment().reason
    monkeypatch.setenv("CONDA_PREFIX", str(venv))
    assert find_environment().reason == f"CONDA_PREFIX={venv}"
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "gone"))
    found = find_environment()
    assert found.reason == f"CONDA_PREFIX={venv}"
    assert any("VIRTUAL_ENV" in note for note in found.notes)
    monkeypatch.setenv("VIRTUAL_ENV", str(venv))
    assert find_environment().reason == f"VIRTUAL_ENV={venv}"


def test_python_on_path_is_the_last_but_one(tmp_path: Path, venv: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path / "venv" / "lib")
    monkeypatch.setenv("PATH", f"{venv / 'bin'}:/usr/bin:/bin")
    assert find_environment().prefix == venv
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "runs sm-patch" in find_environment().reason


def test_root_replaces_site_packages(tmp_path: Path) -> None:
    found = find_environment(root=str(tmp_path))
    assert (found.site_packages, found.root, found.python) == ((tmp_path,), tmp_path, None)
    with pytest.raises(InputError, match="not a folder"):
        find_environment(root=str(tmp_path / "missing"))


def test_an_image_without_a_working_interpreter_is_still_read(venv: Path) -> None:
    site = site_of(venv)
    for link in (venv / "bin").glob("python*"):
        link.unlink()
    found = find_environment(str(venv))
    assert found.site_packages == (site,)
    assert found.python is None
    assert "no working interpreter" in found.notes[0]


def test_what_is_no_python_is_said_to_be_none(tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho hello\n")
    fake.chmod(0o755)
    with pytest.raises(InputError, match="not a Python interpreter"):
        find_environment(str(fake))
    with pytest.raises(InputError, match="no such interpreter"):
        find_environment(str(tmp_path / "missing"))


def test_pythonpath_comes_first(venv: Path, tmp_path: Path,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = find_environment(str(venv))
    assert found.site_packages[0] == tmp_path
    assert "PYTHONPATH" in found.notes[-1]


def test_pth_lines_that_are_no_folders_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.pth").write_text("import os\nimport\tos\n\n#x\n./here\nnowhere\n")
    (tmp_path / "here").mkdir()
    assert list(path_lines(tmp_path)) == [tmp_path / "here"]


@pytest.mark.parametrize(("script", "cause"), [
    ("exit 3", "exit code 3"), ("echo {}", "something else"), ("echo hello", "something else"),
    ("echo '[1]'", "something else"), ("printf '\\377\\376'", "something else")])
def test_a_program_that_is_no_interpreter_is_one_short_line(tmp_path: Path, script: str,
                                                            cause: str) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    with pytest.raises(InputError, match=cause) as caught:
        find_environment(str(python))
    assert len(caught.value.what) < 80
    assert "--python" in str(caught.value.next_step)
