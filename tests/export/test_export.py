"""``sm-patch export``: what real git makes of the patches."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from patcher.cli import main
from tests.plan.site import PATCHSET, Site

MORE = '''\
      - id: note
        summary: "une note: déjà vu"
        affects: all
        reason: "--- a rule\\n\\ndiff --git a/x b/x\\nFrom someone"
        create: {file: mini/run.sh, content: "#!/bin/sh\\n", executable: true}
      - id: link
        affects: all
        reason: a name
        symlink: {link: mini/lib64, target: jit.py}
      - id: windows
        affects: all
        reason: its lines end so
        unreached: allow
        text: {file: mini/dos.txt, find: "two", replace: "2"}
'''


def git(folder: Path, *arguments: str) -> str:
    """Real git with an identity of its own."""
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", "-c", "core.autocrlf=false",
         *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def repository(folder: Path) -> Path:
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "as released")
    return folder


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site.make(tmp_path / "site")
    (made.root / "mini/dos.txt").write_bytes(b"one\r\ntwo\r\n")
    return made


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "patches"
    folder.mkdir()
    return folder


def test_git_am_takes_every_kind_and_gives_what_apply_gives(
    site: Site, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"
    shutil.copytree(site.root, project)
    repository(project)
    patchset = site.patchset(PATCHSET + MORE)
    assert site.run("export", patchset, "-o", str(out)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"wrote 6 patches for mini to {out}"
    assert lines[-1] == f"next: git am --keep-cr {out}/*.patch"
    git(project, "am", "--keep-cr", "--quiet", *map(str, sorted(out.iterdir())))
    assert site.run("apply", patchset) == 0
    names = git(project, "ls-files").split()
    assert "mini/run.sh" in names
    for name in names:
        here, there = project / name, site.root / name
        assert here.is_symlink() == there.is_symlink()
        assert here.read_bytes() == there.read_bytes(), name
        assert here.stat().st_mode & 0o111 == there.stat().st_mode & 0o111, name
    log = git(project, "log", "--format=%s|%an", "-6").splitlines()
    assert log[2] == "Une note: déjà vu|sm-patch"
    body = git(project, "log", "--format=%b", "--grep", "note", "-1")
    assert "Group mini-sm120/main, patch note." in body


def test_equal_input_gives_equal_files_applied_or_not(site: Site, out: Path, tmp_path: Path
                                                      ) -> None:
    again = tmp_path / "again"
    again.mkdir()
    assert site.run("export", site.patchset(), "-o", str(out)) == 0
    site.apply()
    assert site.run("export", site.patchset(), "-o", str(again)) == 0
    assert {p.name: p.read_bytes() for p in out.iterdir()} == {
        p.name: p.read_bytes() for p in again.iterdir()}
    assert len(list(out.iterdir())) == 3


def test_a_source_tree_has_its_own_paths(site: Site, out: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    shutil.copytree(site.root / "mini", project / "src/mini")
    (project / "pyproject.toml").write_text('[project]\nname = "mini"\nversion = "1.0"\n')
    repository(project)
    assert main(["export", site.patchset(), "-o", str(out), "--from", str(project), "--arch",
                 "sm_120a", "--author", "Ada <ada@example.invalid>"]) == 0
    git(project, "am", "--quiet", *map(str, sorted(out.iterdir())))
    assert "[9, 10, 12]" in (project / "src/mini/jit.py").read_text()
    assert git(project, "log", "--format=%an", "-1").strip() == "Ada"


@pytest.mark.parametrize(("arguments", "rc", "message"), [
    (["-o", "{nowhere}"], 2, "not a folder"),
    (["-o", "{used}"], 3, "there are patches here already"),
])
def test_only_an_empty_folder_is_written_to(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], rc: int,
    message: str
) -> None:
    used = tmp_path / "used"
    used.mkdir()
    (used / "0001-old.patch").touch()
    words = [w.format(nowhere=tmp_path / "nowhere", used=used) for w in arguments]
    assert site.run("export", site.patchset(), *words) == rc
    assert message in capsys.readouterr().err


def test_a_conflict_writes_nothing(site: Site, out: Path) -> None:
    site.write("mini/jit.py", "def gen():\n    return build(other=[9, 10])\n")
    assert site.run("export", site.patchset(), "-o", str(out)) == 3
    assert not list(out.iterdir())


def test_json(site: Site, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert site.run("export", site.patchset(), "-o", str(out), "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["package"], found["keep_cr"], len(found["files"])) == ("mini", False, 3)


# flashinfer's repository keeps what the wheel has in flashinfer/data at its top.
PLACES = {"flashinfer/data/include": "include", "flashinfer/data/csrc": "csrc",
          "flashinfer/jit": "flashinfer/jit"}


@pytest.mark.wheels
def test_flashinfer_patches_have_the_paths_of_its_repository(
    unpacked: Callable[[str, str], Path], out: Path, tmp_path: Path
) -> None:
    wheel = unpacked("flashinfer-python", "0.6.3")
    project = tmp_path / "flashinfer"
    for place, target in PLACES.items():
        ignored = shutil.ignore_patterns("nv_internal", "*.pyc")
        shutil.copytree(wheel / place, project / target, ignore=ignored)
    repository(project)
    assert main(["export", "flashinfer-sm120", "--group", "trtllm-comm", "-o", str(out),
                 "--root", str(wheel), "--arch", "sm_120a"]) == 0
    git(project, "am", "--quiet", *map(str, sorted(out.iterdir())))
    changed = set(git(project, "diff", "--name-only", "HEAD~7").split())
    assert changed == {"flashinfer/jit/comm.py", "csrc/trtllm_allreduce.cu",
                       "include/flashinfer/comm/trtllm_allreduce.cuh"}
    assert "< 1200" not in (project / "include/flashinfer/comm/trtllm_allreduce.cuh").read_text()
