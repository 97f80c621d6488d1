"""Editable projects, source trees, other users, and verbs over everything."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from patcher.commands.applying import chosen
from patcher.commands.options import Settings
from patcher.errors import UsageError
from tests.conftest import REPOSITORY
from tests.engine.helpers import snapshot
from tests.engine.test_installers import HEADER, TEXT, Uv, one, uv, uv_install
from tests.engine.test_verbs import Run, document, run, site

__all__ = ["one", "run", "site", "uv"]  # fixtures

PROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "tiny"
version = "1.0"
"""
BACKEND = '''\
import base64, hashlib, zipfile
def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "tiny-1.0-py3-none-any.whl"
    files = {"tiny.pth": __file__.rsplit("/", 1)[0] + "\\n",
             "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n",
             "tiny-1.0.dist-info/WHEEL":
                 "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"}
    files["tiny-1.0.dist-info/RECORD"] = "".join(f"{n},,\\n" for n in files)
    with zipfile.ZipFile(folder + "/" + name, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return name
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose package reaches its headers through a link to a folder."""
    root = tmp_path / "project"
    (root / "tiny").mkdir(parents=True)
    (root / "include").mkdir()
    (root / "pyproject.toml").write_text(PROJECT)
    (root / "backend.py").write_text(BACKEND)
    (root / "tiny/__init__.py").write_text("")
    (root / "tiny/gate.py").write_text(TEXT)
    (root / "include/k.cuh").write_text(HEADER)
    (root / "tiny/data").symlink_to("../include")
    return root


def data_document(folder: Path) -> Path:
    path = document(folder)
    path.write_text(path.read_text().replace("tiny/k.cuh", "tiny/data/k.cuh"))
    return path


def test_an_editable_project_is_patched_where_it_is(run: Run, tmp_path: Path, uv: Uv,
                                                    project: Path) -> None:
    uv("venv", "--python", sys.executable, tmp_path / "a")
    uv("pip", "install", "--python", tmp_path / "a", "--editable", project)
    before = snapshot(project)
    code, out, err = run("apply", data_document(tmp_path), "--group", "gate,header")
    assert code == 0, out + err
    assert (project / "tiny/data").is_symlink()
    assert (project / "include/k.cuh").read_text() == HEADER.replace("X", "Y")
    assert run("status", "--check")[0] == 0
    for file in (tmp_path / "a/share/sm-patch").glob("*.json"):
        assert str(tmp_path) not in file.read_text()
    assert run("revert")[0] == 0
    assert snapshot(project) == before


def test_an_editable_project_with_a_src_folder_is_no_other_copy(run: Run, tmp_path: Path, uv: Uv,
                                                                project: Path) -> None:
    """What Python finds in src/ is the very file that was patched."""
    (project / "src").mkdir()
    (project / "tiny/data").unlink()
    (project / "tiny").rename(project / "src/tiny")
    backend = (project / "backend.py").read_text().replace('[0] + "\\n"', '[0] + "/src\\n"')
    (project / "backend.py").write_text(backend)
    uv("venv", "--python", sys.executable, tmp_path / "a")
    uv("pip", "install", "--python", tmp_path / "a", "--editable", project)
    where = subprocess.run([tmp_path / "a/bin/python", "-c", "import tiny; print(tiny.__file__)"],
                           capture_output=True, text=True, check=True).stdout.strip()
    assert where == str(project / "src/tiny/__init__.py")
    code, out, _ = run("apply", document(tmp_path))
    assert code == 0
    assert "[9, 10, 12]" in (project / "src/tiny/gate.py").read_text()
    assert "effective: yes" in out
    assert run("status", "--check")[0] == 0


def test_a_source_tree_is_a_root_of_its_own(run: Run, tmp_path: Path, project: Path,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    from patcher.cli import main

    before = snapshot(project)
    assert main(["apply", str(document(tmp_path)), "--root", str(project)]) == 0
    assert "10, 12]" in (project / "tiny/gate.py").read_text()
    assert (tmp_path / ".sm-patch/project/journal.json").exists()
    assert main(["revert", "--root", str(project)]) == 0
    assert snapshot(project) == before
    capsys.readouterr()


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *words],
                          cwd=folder, check=True, capture_output=True, text=True).stdout


def test_a_review_branch_leaves_the_tree_alone(run: Run, tmp_path: Path, project: Path) -> None:
    from patcher.cli import main

    words = ["apply", str(data_document(tmp_path)), "--root", str(project), "--commit",
             "--group", "gate,header"]
    assert main(words) == 3  # no repository yet
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-qm", "start")
    head = git(project, "rev-parse", "HEAD")
    assert main(words) == 0
    assert git(project, "status", "--short") == ""
    assert git(project, "rev-parse", "HEAD") == head
    assert git(project, "rev-list", "--count", "HEAD..sm-patch/tiny-open").strip() == "2"
    assert git(project, "show", "sm-patch/tiny-open:include/k.cuh") == HEADER.replace("X", "Y")
    assert git(project, "show", "sm-patch/tiny-open~:include/k.cuh") == HEADER
    assert "12]" in git(project, "show", "sm-patch/tiny-open~:tiny/gate.py")
    assert main(words) == 3  # the branch is there
    git(project, "branch", "-D", "sm-patch/tiny-open")
    (project / "tiny/gate.py").write_text(TEXT + "uncommitted = 1\n")
    assert main(words) == 3
    assert "sm-patch" not in git(project, "branch")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach; pytest's own are private."""
    with tempfile.TemporaryDirectory(prefix="sm-patch-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_may_look_and_not_touch(open_folder: Path, tmp_path: Path, uv: Uv,
                                             one: Path) -> None:
    uv_install(uv, open_folder / "a", one, "--link-mode", "copy")
    name = document(open_folder)
    before = snapshot(open_folder)
    # everything is imported while still root: the interpreter itself may be private
    program = ("import os, sys\n"
               "from patcher.cli import main\n"
               "where, name = sys.argv[1:]\n"
               "assert main(['apply', name, '--root', where]) == 0\n"
               "assert main(['status', '--root', where]) == 0\n"
               "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
               "codes = [int(main([*words, '--root', where])) for words in (\n"
               "    ['status'], ['status', '--digest'], ['apply', name, '--check'],\n"
               "    ['apply', name, '--group', 'header'], ['revert'])]\n"
               "print(codes)\n")
    site = next((open_folder / "a/lib").glob("python*/site-packages"))
    done = subprocess.run([sys.executable, "-c", program, site, name], cwd=REPOSITORY,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[0, 0, 0, 3, 3]", done.stdout + done.stderr
    assert "10, 12]" in (site / "tiny/gate.py").read_text()
    assert (site / "tiny/k.cuh").read_text() == HEADER
    after = snapshot(open_folder)
    assert {path for path in after if after[path] != before.get(path)
            and ".sm-patch" not in path} == {str(site.relative_to(open_folder) / "tiny/gate.py")}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_another_user_may_not_read_is_one_clear_error(open_folder: Path, uv: Uv,
                                                           one: Path) -> None:
    """Unreadable input is 2; a write that such a file stands in the way of is refused with 3."""
    uv_install(uv, open_folder / "a", one, "--link-mode", "copy")
    name = document(open_folder)
    program = ("import os, sys\n"
               "from patcher.cli import main\n"
               "where, name = sys.argv[1:]\n"
               "verbs = (['status'], ['status', '--digest'], ['apply', name, '--check'],\n"
               "         ['revert'])\n"
               "for words in ['apply', name], *verbs:\n"  # imports: the interpreter may be private
               "    main([*words, '--root', where])\n"
               "for file in ('tiny/gate.py', 'tiny', '../.sm-patch'):\n"
               "    codes = []\n"
               "    for words in verbs:\n"
               "        main(['apply', name, '--root', where])\n"
               "        for path in (where, where + '/../.sm-patch'):\n"
               "            for folder, _, names in os.walk(path):\n"
               "                for each in [folder, *(os.path.join(folder, n) for n in names)]:\n"
               "                    os.lchown(each, 65534, 65534)\n"
               "        os.chmod(os.path.join(where, file), 0)\n"
               "        os.setegid(65534); os.seteuid(65534)\n"
               "        codes.append(int(main([*words, '--root', where])))\n"
               "        os.seteuid(0); os.setegid(0)\n"
               "        os.chmod(os.path.join(where, file), 0o755)\n"
               "    print(file, codes)\n")
    site = next((open_folder / "a/lib").glob("python*/site-packages"))
    done = subprocess.run([sys.executable, "-c", program, site, name], cwd=REPOSITORY,
                          capture_output=True, text=True, check=False)
    assert "internal error" not in done.stderr
    rows = [line for line in done.stdout.splitlines() if line.endswith("]")]
    assert rows == ["tiny/gate.py [2, 2, 2, 3]", "tiny [2, 2, 2, 2]",
                    "../.sm-patch [3, 3, 3, 3]"], done.stdout + done.stderr


def test_all_takes_what_fits(run: Run, site: Path) -> None:
    """The shipped patchsets are for packages that are not here: nothing to do, and no error."""
    code, out, err = run("apply", "--all")
    assert (code, out.splitlines()[0][:13]) == (0, "nothing to do")
    assert "flashinfer-sm120: its package is not here" in err


def test_one_way_to_name_patchsets() -> None:
    for names, every, lock in (((), False, None), (("x",), True, None), ((), True, "f")):
        with pytest.raises(UsageError):
            chosen(Settings(), names, every=every, from_lock=lock)


def test_a_missing_patchset_of_a_lock_is_absent(run: Run, site: Path, tmp_path: Path) -> None:
    name, lock = document(tmp_path), tmp_path / "x.lock"
    run("apply", name, "--write-lock", lock)
    run("revert")
    code, out, err = run("status", "--lock", lock)
    assert (code, out.splitlines()[0]) == (1, "tiny-open: absent")
    assert "not as locked" in err
