"""From names, folders and archives to packages."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.errors import InputError, PackageNotFound, UnsafePath, UsageError
from patcher.package import Environment, RecordState, find_environment, find_package

from .conftest import site_of

FILES = {"demo/__init__.py": b"X = 1\n", "demo/data/k.cu": b"__global__ void k() {}\n"}


@pytest.fixture
def installed(uv: Callable[..., None], venv: Path, wheel: Callable[..., Path],
              tmp_path: Path) -> Environment:
    uv("pip", "install", "--python", venv, "--cache-dir", tmp_path / "cache",
       wheel("demo-pkg", "1.5", FILES))
    return find_environment(str(venv))


@pytest.mark.parametrize("name", ["demo", "demo-pkg", "Demo_Pkg", "demo.pkg"])
def test_import_and_distribution_names_find_the_same(installed: Environment, name: str) -> None:
    package = find_package(name, installed)
    assert (package.name, package.import_name, package.version) == ("demo-pkg", "demo", "1.5")
    assert package.root == installed.site_packages[0]
    assert package.tree.read("demo/__init__.py") == b"X = 1\n"
    assert not package.source_tree
    assert not package.editable


def test_record_holds_the_real_hashes(installed: Environment) -> None:
    package = find_package("demo", installed)
    entry = package.record["demo/data/k.cu"]
    assert entry.digest == hashlib.sha256(FILES["demo/data/k.cu"]).hexdigest()
    assert package.differs_from_record("demo/data/k.cu") is RecordState.SAME
    assert package.differs_from_record("demo/gone.py") is RecordState.ABSENT
    package.locate("demo/new.py").write_text("")
    assert package.differs_from_record("demo/new.py") is RecordState.UNRECORDED
    replacement = package.root / "other"
    replacement.write_text("edited")
    os.replace(replacement, package.locate("demo/data/k.cu"))
    assert package.differs_from_record("demo/data/k.cu") is RecordState.DIFFERS
    assert package.poisoned() == (), "edited without writing through a shared inode"


def test_an_edit_through_a_hard_link_of_the_installer_is_poison(
        installed: Environment, uv: Callable[..., None], wheel: Callable[..., Path],
        tmp_path: Path) -> None:
    second = tmp_path / "second"
    uv("venv", second)
    uv("pip", "install", "--python", second, "--cache-dir", tmp_path / "cache",
       "--link-mode", "hardlink", tmp_path / "demo_pkg-1.5-py3-none-any.whl")
    package = find_package("demo", find_environment(str(second)))
    file = package.locate("demo/__init__.py")
    if file.stat().st_nlink < 2:
        pytest.skip("uv could not link on this file system")
    with open(file, "a") as handle:
        handle.write("# in place\n")
    assert [p.path for p in package.poisoned()] == ["demo/__init__.py"]
    assert package.poisoned()[0].links == file.stat().st_nlink


def test_a_link_into_the_installers_cache_is_read_when_it_is_what_was_installed(
        venv: Path, uv: Callable[..., None], wheel: Callable[..., Path], tmp_path: Path) -> None:
    uv("pip", "install", "--python", venv, "--cache-dir", tmp_path / "cache",
       "--link-mode", "symlink", wheel("demo-pkg", "1.5", FILES))
    package = find_package("demo", find_environment(str(venv)))
    assert package.root.joinpath("demo/__init__.py").is_symlink()
    assert package.tree.read("demo/__init__.py") == b"X = 1\n"
    secret = tmp_path / "secret"
    secret.write_text("not of this package")
    package.root.joinpath("demo/link.py").symlink_to(secret)
    with pytest.raises(UnsafePath):
        package.tree.read("demo/link.py")


def test_folders_and_wheels(wheel: Callable[..., Path], tmp_path: Path) -> None:
    path = wheel("demo-pkg", "2.0", FILES)
    environment = find_environment(root=str(tmp_path))
    packed = find_package(str(path), environment)
    assert (packed.name, packed.version, packed.read_only) == ("demo-pkg", "2.0", True)
    with pytest.raises(InputError, match="no files on disk"):
        packed.locate("demo/__init__.py")
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
    unpacked = find_package(str(folder), environment)
    assert (unpacked.name, unpacked.root, unpacked.read_only) == ("demo-pkg", folder, False)
    inside = find_package(str(folder / "demo"), environment)
    assert (inside.name, inside.import_name, inside.root) == ("demo-pkg", "demo", folder)
    (folder / "other-1.dist-info").mkdir()
    with pytest.raises(UsageError, match="2 distributions"):
        find_package(str(folder), environment)


def test_root_holds_the_package(tmp_path: Path, wheel: Callable[..., Path]) -> None:
    folder = tmp_path / "image" / "site-packages"
    with zipfile.ZipFile(wheel("demo-pkg", "2.0", FILES)) as archive:
        archive.extractall(folder)
    package = find_package("demo", find_environment(root=str(folder)))
    assert (package.root, package.version) == (folder, "2.0")
    assert find_package("demo", find_environment(root=str(folder)),
                        assume_version="9").version == "9"


def test_a_missing_package_says_where_else_it_is(installed: Environment, tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", str(installed.prefix))
    import sys
    with pytest.raises(PackageNotFound) as caught:
        find_package("demo-pkg", find_environment(sys.executable))
    assert str(installed.prefix) in str(caught.value)
    (tmp_path / "demo_folder").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PackageNotFound, match=r"\./demo_folder"):
        find_package("demo_folder", installed)


@pytest.mark.parametrize("typed", ["demp", "Demo==1.5", "demo-pgk", "DEMO_PKG>=1"])
def test_a_mistyped_package_names_the_one_here(installed: Environment, typed: str) -> None:
    with pytest.raises(PackageNotFound, match=r"did you mean demo(-pkg)?\?"):
        find_package(typed, installed)


def test_the_top_of_an_environment_as_root_names_its_site_packages(
        installed: Environment) -> None:
    site = installed.site_packages[0]
    with pytest.raises(PackageNotFound, match=f"--root {site}"):
        find_package("demo", find_environment(root=str(installed.prefix)))
    with pytest.raises(PackageNotFound, match="stands for site-packages"):
        find_package("nonsense", find_environment(root=str(installed.prefix)))


def test_the_first_of_two_copies_wins_and_both_are_named(installed: Environment,
                                                         tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "demo").mkdir(parents=True)
    (other / "demo" / "__init__.py").write_text("")
    assert installed.prefix is not None
    (site_of(installed.prefix) / "more.pth").write_text(f"{other}\n")
    package = find_package("demo", find_environment(str(installed.prefix)))
    assert package.root == installed.site_packages[0]
    assert str(other) in package.warnings[0]
    assert str(package.root) in package.warnings[0]


def test_what_cannot_be_patched_is_refused(venv: Path) -> None:
    site = site_of(venv)
    (site / "blind").mkdir()
    (site / "blind" / "__init__.pyc").write_bytes(b"")
    with pytest.raises(InputError, match="only compiled"):
        find_package("blind", find_environment(str(venv)))
    with zipfile.ZipFile(site / "zipped-1.0-py3.11.egg", "w") as egg:
        egg.writestr("zipped/__init__.py", "")
    with pytest.raises(InputError, match="zip file"):
        find_package("zipped", find_environment(str(venv)))


def test_metadata_twice_is_a_warning(installed: Environment) -> None:
    (installed.site_packages[0] / "demo_pkg-0.9.dist-info").mkdir()
    assert "metadata twice" in find_package("demo-pkg", installed).warnings[0]
