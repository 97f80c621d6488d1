"""Source trees, source archives, editable installs."""

from __future__ import annotations

import io
import tarfile
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.errors import InputError, UnsafePath
from patcher.package import find_environment, find_package
from patcher.package import trees as archives

# A build backend inside the project: the installer needs no network for it.
BACKEND = '''
import zipfile
def build_editable(directory, config=None, metadata=None):
    import pathlib
    name = "NAME-1.0-py3-none-any.whl"
    info = "NAME-1.0.dist-info"
    with zipfile.ZipFile(pathlib.Path(directory, name), "w") as wheel:
        wheel.writestr("NAME.pth", str(pathlib.Path.cwd() / "HOME") + "\\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: DIST\\nVersion: 1.0\\n")
        tag = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr(f"{info}/WHEEL", tag)
        wheel.writestr(f"{info}/RECORD", "")
    return name
'''


def project(folder: Path, name: str, home: str, files: dict[str, str]) -> Path:
    """A project with an in-tree backend."""
    stem = name.replace("-", "_")
    text = BACKEND.replace("NAME", stem).replace("DIST", name).replace("HOME", home)
    every = {
        "pyproject.toml": f'[project]\nname = "{name}"\nversion = "1.0"\n[build-system]\n'
                          'requires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": text, **files,
    }
    for path, content in every.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    return folder


def test_a_source_tree_is_read_without_being_built(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "demo-pkg", "src", {"src/demo/__init__.py": "X = 1\n"})
    (folder / "backend.py").write_text("raise SystemExit('built')")
    package = find_package(str(folder), find_environment(root=str(tmp_path)))
    assert (package.name, package.import_name, package.version) == ("demo-pkg", "demo", "1.0")
    assert package.source_tree
    assert package.tree.read("demo/__init__.py") == b"X = 1\n"
    assert package.locate("demo/__init__.py") == folder / "src" / "demo" / "__init__.py"


@pytest.mark.parametrize("info", ["demo_pkg.egg-info", "other.egg-info"])
def test_what_a_build_left_in_a_source_tree_changes_nothing(tmp_path: Path, info: str) -> None:
    """Source archives and ``setup.py develop`` have an .egg-info beside the project file."""
    folder = project(tmp_path / "p", "demo-pkg", "", {
        "demo_pkg/__init__.py": "",
        f"{info}/PKG-INFO": "Metadata-Version: 2.1\nName: demo-pkg\nVersion: 0.9\n"})
    for package in (find_package(str(folder), find_environment(root=str(tmp_path))),
                    find_package("demo-pkg", find_environment(root=str(folder)))):
        assert package.source_tree
        assert package.version == "1.0"


def test_versions_come_from_text(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo"\ndynamic = ["version"]\n')
    (tmp_path / "demo" / "__init__.py").write_text("")
    environment = find_environment(root=str(tmp_path))
    assert find_package(str(tmp_path), environment).version is None
    assert find_package(str(tmp_path), environment, assume_version="0.6.6").version == "0.6.6"
    (tmp_path / "demo" / "version.py").write_text('__version__ = "2.1"\n')
    assert find_package(str(tmp_path), environment).version == "2.1"
    (tmp_path / "version.txt").write_text("3.0\n")
    assert find_package(str(tmp_path), environment).version == "3.0"


def test_a_flashinfer_checkout_has_its_wheels_paths(tmp_path: Path) -> None:
    """The map is that of flashinfer's pyproject.toml: data/include is include, and so on."""
    for path in ("flashinfer/__init__.py", "include/flashinfer/a.cuh", "csrc/a.cu",
                 "3rdparty/cutlass/include/cutlass/cutlass.h"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "flashinfer-python"\n')
    (tmp_path / "version.txt").write_text("0.6.6\n")
    package = find_package(str(tmp_path), find_environment(root=str(tmp_path)))
    tree = package.tree
    assert tree.read("flashinfer/data/include/flashinfer/a.cuh") == b"include/flashinfer/a.cuh"
    assert tree.names("flashinfer/data/csrc") == {"a.cu"}
    assert {"include", "csrc", "cutlass"} <= tree.folders("flashinfer/data")
    assert "data" in tree.folders("flashinfer")
    assert package.locate("flashinfer/data/csrc/a.cu") == tmp_path / "csrc" / "a.cu"
    assert package.version == "0.6.6"


@pytest.mark.parametrize("home", [".", "src"])
def test_an_editable_install_leads_to_its_project(
        uv: Callable[..., None], venv: Path, tmp_path: Path, home: str) -> None:
    inner = "" if home == "." else f"{home}/"
    folder = project(tmp_path / "p", "demo-pkg", home, {
        f"{inner}demo/__init__.py": "X = 1\n", "include/demo.cuh": "// header\n"})
    (folder / inner / "demo" / "include").symlink_to(folder / "include")
    uv("pip", "install", "--python", venv, "--cache-dir", tmp_path / "cache",
       "--no-build-isolation", "-e", folder)
    for name in ("demo", "demo-pkg"):
        package = find_package(name, find_environment(str(venv)))
        assert package.editable
        assert package.source_tree
        assert (package.root, package.version) == (folder, "1.0")
        assert package.tree.read("demo/__init__.py") == b"X = 1\n"
        assert package.tree.names("demo/include") == {"demo.cuh"}
        assert package.tree.read("demo/include/demo.cuh") == b"// header\n"


def test_an_editable_install_without_its_project_is_refused(
        uv: Callable[..., None], venv: Path, tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "demo-pkg", ".", {"demo/__init__.py": ""})
    uv("pip", "install", "--python", venv, "--cache-dir", tmp_path / "cache",
       "--no-build-isolation", "-e", folder)
    folder.rename(tmp_path / "moved")
    with pytest.raises(InputError, match="project folder is gone"):
        find_package("demo-pkg", find_environment(str(venv)))


def archive(path: Path, members: dict[str, bytes], link: tuple[str, str] | None = None) -> Path:
    with tarfile.open(path, "w:gz") as stream:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            stream.addfile(info, io.BytesIO(data))
        if link:
            info = tarfile.TarInfo(link[0])
            info.type, info.linkname = tarfile.SYMTYPE, link[1]
            stream.addfile(info)
    return path


def test_a_source_archive_is_read_in_memory(tmp_path: Path) -> None:
    path = archive(tmp_path / "demo-1.0.tar.gz", {
        "demo-1.0/PKG-INFO": b"Metadata-Version: 2.1\nName: Demo_Pkg\nVersion: 1.0\n\nVersion: 9\n",
        "demo-1.0/python/demo/__init__.py": b"X = 1\n",
    }, link=("demo-1.0/python/demo/passwd", "/etc/passwd"))
    package = find_package(str(path), find_environment(root=str(tmp_path)))
    assert (package.name, package.version, package.read_only) == ("demo-pkg", "1.0", True)
    assert package.tree.read("demo/__init__.py") == b"X = 1\n"
    assert package.tree.names("demo") == {"__init__.py"}, "links are left out"


@pytest.mark.parametrize("name", ["../evil.py", "/evil.py", "a/../../evil.py"])
def test_an_archive_cannot_leave_itself(tmp_path: Path, name: str) -> None:
    path = archive(tmp_path / "x-1.tar.gz", {name: b""})
    with pytest.raises(UnsafePath):
        find_package(str(path), find_environment(root=str(tmp_path)))


def test_an_archive_has_a_size_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path / "x-1.tar.gz", {"x-1/zeros": bytes(5000)})
    monkeypatch.setattr(archives, "MAX_ARCHIVE_BYTES", 4000)
    with pytest.raises(InputError, match="too large"):
        find_package(str(path), find_environment(root=str(tmp_path)))
    path.write_bytes(b"no archive")
    with pytest.raises(InputError, match="not a readable"):
        find_package(str(path), find_environment(root=str(tmp_path)))


def test_a_folder_that_is_no_package_is_refused(tmp_path: Path) -> None:
    from patcher.errors import PackageNotFound
    with pytest.raises(PackageNotFound, match="neither"):
        find_package(str(tmp_path), find_environment(root=str(tmp_path)))
    (tmp_path / "pyproject.toml").write_text(textwrap.dedent("[project]\nname = 'x'\n"))
    with pytest.raises(InputError, match="no Python package"):
        find_package(str(tmp_path), find_environment(root=str(tmp_path)))
