"""Real uv and pip: shared inodes, links into the cache, reinstalls, upgrades, uninstalls."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from patcher.engine.request import (
    GroupChange,
    PatchChange,
    PatchsetChange,
    Request,
    Staged,
)
from patcher.engine.stage import groups_named
from patcher.errors import PackageNotFound, Refused
from patcher.package import Package, find_environment, find_package
from patcher.session import reading, writing
from patcher.state import StateHome, find_home
from patcher.status import State, status
from patcher.transaction import NoCaches
from tests.engine.helpers import record_hash, replacing

TEXT = "MAJORS = [9, 10]\nOTHER = 1\n"
HEADER = "#if X\nalpha\n#endif\n"
EDITS = {"tiny/gate.py": [replacing(TEXT, "[9, 10]", "[9, 10, 12]")],
         "tiny/k.cuh": [replacing(HEADER, "#if X", "#if Y")]}


def wheel(folder: Path, version: str, files: Mapping[str, str]) -> Path:
    """A real wheel with a right RECORD."""
    path = folder / f"tiny-{version}-py3-none-any.whl"
    info = f"tiny-{version}.dist-info"
    members = {**files,
               f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n",
               f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\n"
                                "Root-Is-Purelib: true\nTag: py3-none-any\n"}
    lines = [f"{name},sha256={record_hash(text.encode())},{len(text.encode())}"
             for name, text in members.items()]
    members[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,"]) + "\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


@pytest.fixture
def one(tmp_path: Path) -> Path:
    return wheel(tmp_path, "1.0", {"tiny/__init__.py": "", "tiny/gate.py": TEXT,
                                   "tiny/k.cuh": HEADER})


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return wheel(tmp_path, "2.0", {"tiny/__init__.py": "", "tiny/gate.py": TEXT + "NEW = 2\n",
                                   "tiny/k.cuh": HEADER.replace("X", "Y")})


Uv = Callable[..., None]


@pytest.fixture
def uv(tmp_path: Path) -> Uv:
    """Run the real uv offline, with a cache of its own."""
    found = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip("uv is not here; `pip install uv`")

    def run(*arguments: str | Path) -> None:
        subprocess.run([found, "--offline", "--no-config", "--cache-dir", tmp_path / "uv-cache",
                        "--quiet", *arguments], check=True, env=_environ())
    return run


def _environ() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "CONDA_PREFIX")}


def uv_install(uv: Uv, folder: Path, package: Path, *options: str) -> None:
    if not folder.exists():
        uv("venv", "--python", sys.executable, folder)
    uv("pip", "install", "--python", folder, *options, package)


class Venv:
    """An environment seen through the real package reader."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix

    @property
    def package(self) -> Package:
        return find_package("tiny", find_environment(python=str(self.prefix)))

    @property
    def home(self) -> StateHome:
        return find_home(prefix=self.prefix, root=None, state=None)

    def apply(self) -> Staged:
        package = self.package
        add = PatchsetChange("p", "d", (GroupChange("g", (
            PatchChange("one", package, {k: tuple(v) for k, v in EDITS.items()}),)),),
            frozenset({"g"}))
        return self.commit(Request((add,)))

    def revert(self) -> Staged:
        return self.commit(Request(drops=groups_named(self.home.journal(), "p")))

    def commit(self, request: Request) -> Staged:
        with writing(self.home, NoCaches()) as session:
            staged = session.stage(request, {"tiny": self.package})
            assert not staged.refusals
            session.commit(staged, NoCaches())
        return staged

    def state(self) -> State:
        def find(name: str) -> Package | None:
            try:
                return self.package
            except PackageNotFound:
                return None
        found = status(reading(self.home), find)
        return found[0].state if found else State.ABSENT

    def text(self, path: str = "tiny/gate.py") -> str:
        return self.package.locate(path).read_text()

    def file(self, path: str = "tiny/gate.py") -> Path:
        return self.package.locate(path)


def test_environments_that_share_inodes_are_not_touched(tmp_path: Path, uv: Uv,
                                                        one: Path) -> None:
    for name in "ab":
        uv_install(uv, tmp_path / name, one, "--link-mode", "hardlink")
    a, b = Venv(tmp_path / "a"), Venv(tmp_path / "b")
    if a.file().stat().st_ino != b.file().stat().st_ino:
        pytest.skip("this file system has no hard links")
    before = {p: p.read_bytes() for p in (tmp_path / "uv-cache").rglob("*") if p.is_file()}
    a.apply()
    assert a.text() == TEXT.replace("[9, 10]", "[9, 10, 12]")
    a_patched = a.file().stat().st_ino
    a.revert()
    assert a.text() == b.text() == TEXT
    assert a_patched != b.file().stat().st_ino
    assert {p: p.read_bytes() for p in before} == before
    uv_install(uv, tmp_path / "c", one, "--link-mode", "hardlink")
    assert Venv(tmp_path / "c").text() == TEXT


def test_an_environment_poisoned_by_others_is_told(tmp_path: Path, uv: Uv, one: Path) -> None:
    for name in "ab":
        uv_install(uv, tmp_path / name, one, "--link-mode", "hardlink")
    a, b = Venv(tmp_path / "a"), Venv(tmp_path / "b")
    if a.file().stat().st_nlink < 3:
        pytest.skip("this file system has no hard links")
    with b.file().open("a") as file:  # what an editor that writes in place does
        file.write("poison = 1\n")
    staged = a.apply()
    assert "hard link" in staged.warnings[0]
    with b.file().open("w") as file:
        file.write(TEXT.replace("[9, 10]", "[9]"))
    a.file().unlink()
    os.link(b.file(), a.file())  # what a reinstall from the poisoned cache does
    assert a.state() is State.POISONED


def test_links_into_the_cache_are_replaced_and_restored(tmp_path: Path, uv: Uv,
                                                        one: Path) -> None:
    uv_install(uv, tmp_path / "a", one, "--link-mode", "symlink")
    a = Venv(tmp_path / "a")
    target = os.readlink(a.file())
    a.apply()
    assert not a.file().is_symlink()
    assert Path(target).read_text() == TEXT
    a.revert()
    assert os.readlink(a.file()) == target


@pytest.mark.parametrize("mode", ["hardlink", "copy", "symlink"])
def test_uv_reinstalls_upgrades_and_uninstalls(tmp_path: Path, uv: Uv, one: Path, two: Path,
                                               mode: str) -> None:
    link = ("--link-mode", mode)
    uv_install(uv, tmp_path / "a", one, *link)
    a = Venv(tmp_path / "a")
    a.apply()
    uv_install(uv, tmp_path / "a", one, *link)  # the same version: uv sees nothing to do
    assert a.state() is State.APPLIED
    uv_install(uv, tmp_path / "a", one, "--reinstall", *link)
    assert (a.state(), a.text()) == (State.LOST, TEXT)
    a.apply()
    assert a.state() is State.APPLIED
    uv_install(uv, tmp_path / "a", two, *link)
    # one file is another version's, the other holds our change as installed
    assert a.state() is State.LOST
    a.revert()
    assert a.text() == TEXT + "NEW = 2\n"
    assert a.text("tiny/k.cuh") == HEADER.replace("X", "Y")
    uv_install(uv, tmp_path / "a", one, *link)
    a.apply()
    uv("pip", "uninstall", "--python", tmp_path / "a", "tiny")
    assert a.state() is State.LOST


@pytest.mark.slow
def test_pip_reinstalls_and_keeps_what_it_does_not_see(tmp_path: Path, one: Path) -> None:
    venv.create(tmp_path / "a", with_pip=True)
    pip: list[str | Path] = [tmp_path / "a/bin/python", "-m", "pip", "install", "--quiet",
                             "--disable-pip-version-check", "--no-index"]
    subprocess.run([*pip, one], check=True, env=_environ())
    a = Venv(tmp_path / "a")
    a.apply()
    subprocess.run([*pip, one], check=True, env=_environ())
    assert a.state() is State.APPLIED
    subprocess.run([*pip, "--force-reinstall", one], check=True, env=_environ())
    assert (a.state(), a.text()) == (State.LOST, TEXT)
    a.revert()
    assert a.state() is State.ABSENT


def test_the_compiled_copy_of_the_same_second_is_gone(tmp_path: Path, uv: Uv, one: Path) -> None:
    """A same-size edit within the second in which the .pyc was written (C20)."""
    uv_install(uv, tmp_path / "a", one, "--link-mode", "copy")
    a = Venv(tmp_path / "a")
    code = "import tiny.gate; print(tiny.gate.OTHER)"
    ask: list[str | Path] = [tmp_path / "a/bin/python", "-c", code]
    environ = {k: v for k, v in _environ().items()
               if k not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")}
    edit = {"tiny/gate.py": (replacing(TEXT, "OTHER = 1", "OTHER = 2"),)}
    # the copy in the cache is kept at its time; give the source the time of our write
    add = PatchsetChange("p", "d", (GroupChange("g", (
        PatchChange("one", a.package, edit),)),), frozenset({"g"}))
    subprocess.run(ask, check=True, env=environ, capture_output=True)
    compiled = next((a.file().parent / "__pycache__").glob("gate.*.pyc"))
    stale = compiled.read_bytes()
    a.commit(Request((add,)))
    assert not compiled.exists()
    # with the old copy back, and the second the same, Python would run the old code
    stamp = int.from_bytes(stale[8:12], "little")
    os.utime(a.file(), (stamp, stamp))
    assert subprocess.run(ask, check=True, env=environ, capture_output=True,
                          text=True).stdout == "2\n"
    compiled.write_bytes(stale)
    assert subprocess.run(ask, check=True, env=environ, capture_output=True,
                          text=True).stdout == "1\n"


NOBODY = 54321  # a user that has nothing else here


def as_user(work: Callable[[], None]) -> None:
    """Run in a child without root's rights; raises AssertionError when it fails."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            work()
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def owners(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Owner, group and mode of everything below a folder."""
    return {str(path.relative_to(folder)): (info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode))
            for path in sorted(folder.rglob("*")) if (info := path.lstat())}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be another user")
def test_root_patches_a_users_environment_and_the_user_goes_on(uv: Uv, one: Path) -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to others
        top = Path(name)
        top.chmod(0o755)
        uv_install(uv, top / "a", one, "--link-mode", "copy")
        for path in [top / "a", *(top / "a").rglob("*")]:
            os.lchown(path, NOBODY, NOBODY)
        a = Venv(top / "a")
        gate = a.file()
        gate.chmod(0o640)
        before = owners(a.package.root)
        a.apply()
        assert owners(a.package.root) == before
        assert {who for who, _, _ in owners(a.home.path).values()} == {NOBODY}

        def go_on() -> None:
            user = Venv(top / "a")
            assert user.state() is State.APPLIED
            user.revert()
            user.apply()
            user.revert()

        as_user(go_on)
        assert owners(a.package.root) == before
        assert gate.read_text() == TEXT
        for path in [top / "a", *(top / "a").rglob("*")]:
            os.lchown(path, 0, 0)
        gate.chmod(0o644)

        def refused() -> None:
            with pytest.raises(Refused):
                Venv(top / "a").apply()

        as_user(refused)
        assert gate.read_text() == TEXT


def test_a_sync_to_the_same_versions_keeps_the_patch(tmp_path: Path, uv: Uv, one: Path,
                                                     two: Path) -> None:
    uv_install(uv, tmp_path / "a", one)
    a = Venv(tmp_path / "a")
    a.apply()
    wanted = tmp_path / "requirements.txt"
    wanted.write_text(f"tiny @ file://{one}\n")
    uv("pip", "sync", "--python", tmp_path / "a", wanted)
    kept = a.state()  # uv may put the file back or not; what is said of it has to be true
    patched = "12]" in a.file().read_text()
    assert kept is (State.APPLIED if patched else State.LOST)
    wanted.write_text(f"tiny @ file://{two}\n")
    uv("pip", "sync", "--python", tmp_path / "a", wanted)
    assert a.state() is not State.APPLIED
    a.revert()
    assert "NEW = 2" in a.file().read_text()
