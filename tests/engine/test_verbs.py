"""apply, revert and status as typed, on environments that a real installer made."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from patcher.cli import main
from tests.conftest import REPOSITORY
from tests.engine.helpers import snapshot
from tests.engine.test_installers import HEADER, TEXT, Uv, one, uv, uv_install, wheel

__all__ = ["one", "uv"]  # fixtures

PATCHSET = """\
sm-patch: 1
name: {name}
summary: Open the tiny gate
package: tiny
groups:
  - id: gate
    summary: the gate
    default: true
    patches:
      - id: majors
        affects: all
        reason: a test
        text: {{file: tiny/gate.py, find: "{find}", replace: "{replace}", count: 1}}
  - id: header
    summary: the header
    patches:
      - id: guard
        affects: all
        reason: a test
        unreached: allow
        text: {{file: tiny/k.cuh, find: "#if X", replace: "#if Y", count: 1}}
"""

NEW_FILE = """\
  - id: new
    summary: a new file in a new folder
    patches:
      - id: new
        affects: all
        reason: a test
        create: {file: tiny/new/deep.py, content: "1"}
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path) -> Run:
    """The command line on one environment: exit code, stdout, stderr."""
    for name in ("SM_PATCH_STATE", "SM_PATCH_DIGEST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def call(*words: str | Path, where: str = "a") -> tuple[int, str, str]:
        options: list[str | Path] = ["--python", tmp_path / where]
        code = main([str(word) for word in [words[0], *options, *words[1:]]])
        out, err = capsys.readouterr()
        return code, out, err
    return call


@pytest.fixture
def site(tmp_path: Path, uv: Uv, one: Path) -> Path:
    """site-packages of an environment with the tiny package."""
    uv_install(uv, tmp_path / "a", one, "--link-mode", "copy")
    return next((tmp_path / "a/lib").glob("python*/site-packages"))


def document(folder: Path, name: str = "tiny-open", find: str = "[9, 10]",
             replace: str = "[9, 10, 12]") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(PATCHSET.format(name=name, find=find, replace=replace))
    return path


def as_json(text: str) -> Any:
    document = json.loads(text)
    assert document["version"] == 1
    return document


def expected_digest(site: Path, paths: Sequence[str]) -> str:
    """The package digest as semantics define it, written down independently."""
    text = b"tiny 1.0\n"
    for path in sorted(paths):
        text += path.encode() + b"\0" + hashlib.sha256(
            (site / path).read_bytes()).hexdigest().encode() + b"\n"
    return hashlib.sha256(text).hexdigest()


def test_a_change_goes_on_and_comes_off(run: Run, site: Path, tmp_path: Path) -> None:
    name = document(tmp_path)
    before = snapshot(tmp_path / "a")
    place = f"--python {tmp_path / 'a'}"  # each command to type is for the same environment
    assert run("status")[:2] == (
        0, f"nothing is applied here\nnext: sm-patch patchsets {place}\n")
    code, out, _ = run("apply", name, "--check")
    assert (code, out.splitlines()[0]) == (1, "would apply tiny-open/gate to tiny 1.0")
    assert snapshot(tmp_path / "a") == before  # neither --check nor status write anything
    code, out, _ = run("apply", name)
    assert (code, out.splitlines()[0]) == (0, "applied tiny-open/gate to tiny 1.0")
    assert out.splitlines()[-1] == f"next: sm-patch verify {place} {name}"
    assert "--group header" in out
    assert (site / "tiny/gate.py").read_text() == TEXT.replace("10]", "10, 12]")
    assert (site / "tiny/k.cuh").read_text() == HEADER
    code, out, _ = run("apply", name)
    assert (code, out.splitlines()[0][:13]) == (0, "nothing to do")
    assert run("apply", name, "--check")[0] == 0
    code, out, _ = run("status", "--check")
    assert (code, out.splitlines()[0]) == (0, "tiny-open: applied")
    assert run("revert", "--check")[0] == 1
    code, out, _ = run("revert")
    assert (code, out.splitlines()[0]) == (0, "reverted tiny-open: 1 file")
    after = snapshot(tmp_path / "a")
    assert {p: w for p, w in after.items() if not p.startswith("share")} == {
        p: w for p, w in before.items() if not p.startswith("share")}
    assert run("revert")[0] == 0


def test_json_says_what_changed_and_digests(run: Run, site: Path, tmp_path: Path) -> None:
    name = document(tmp_path)
    done = as_json(run("apply", name, "--format", "json")[1])
    assert done["changed"] is True
    (package,) = done["packages"]
    assert package["digest_before"] == expected_digest(site, [])
    assert package["digest_after"] == expected_digest(site, ["tiny/gate.py"])
    (group,) = done["patchsets"][0]["groups"]
    assert (group["id"], group["outcome"], group["effective"]) == ("gate", "applicable", "yes")
    assert group["patches"][0]["files"] == ["tiny/gate.py"]
    check = subprocess.run(["git", "apply", "--check", "-R", "-"], cwd=site, text=True,
                           input=done["diff"], capture_output=True, check=False)
    assert check.returncode == 0, check.stderr
    assert {"caches", "restart"} <= done.keys()
    status = as_json(run("status", "--format", "json")[1])
    assert status["patchsets"][0]["state"] == "applied"
    assert status["patchsets"][0]["groups"][0]["patches"][0]["id"] == "majors"
    assert run("status", "--digest")[1] == package["digest_after"] + "\n"
    undone = as_json(run("revert", "--format", "json")[1])
    assert undone["packages"][0]["digest_after"] == expected_digest(site, [])
    assert undone["patchsets"][0]["groups"][0]["patches"][0]["files"] == ["tiny/gate.py"]
    assert "-MAJORS = [9, 10, 12]\n+MAJORS = [9, 10]\n" in undone["diff"]


def test_a_group_that_cannot_go_through_stops_all(run: Run, site: Path, tmp_path: Path) -> None:
    name = document(tmp_path, find="no such text")
    before = snapshot(tmp_path / "a")
    code, out, _ = run("apply", name, "--group", "gate", "--group", "header")
    assert (code, out.splitlines()[0][:34]) == (3, "not applied, nothing was written: ")
    command = f"sm-patch apply --python {tmp_path / 'a'} {name} --group header"
    assert out.splitlines()[-1] == f"next: {command}"
    assert run(*shlex.split(command)[1:], "--check")[0] == 1  # it does go through, as typed
    assert {p: w for p, w in snapshot(tmp_path / "a").items() if "share" not in p} == {
        p: w for p, w in before.items() if "share" not in p}
    code, out, _ = run("apply", name, "--group", "gate,header", "--keep-going")
    assert (code, out.splitlines()[0]) == (
        3, "applied tiny-open/header to tiny 1.0; not tiny-open/gate")
    assert (site / "tiny/k.cuh").read_text() == HEADER.replace("X", "Y")


def test_an_edit_in_our_place_is_shown_and_refused(run: Run, site: Path, tmp_path: Path) -> None:
    run("apply", document(tmp_path))
    file = site / "tiny/gate.py"
    file.write_text(file.read_text().replace("12]", "13]"))
    code, out, _ = run("status", "--check")
    assert (code, out.splitlines()[0]) == (1, "tiny-open: drifted")
    code, _, err = run("revert")
    assert code == 3
    assert "-MAJORS = [9, 10, 12]\n+MAJORS = [9, 10, 13]\n" in err
    assert "13]" in file.read_text()


def test_an_edit_elsewhere_is_kept_unless_clean_is_required(run: Run, site: Path,
                                                            tmp_path: Path) -> None:
    name = document(tmp_path)
    run("apply", name)
    file = site / "tiny/gate.py"
    file.write_text(file.read_text() + "THEIRS = 3\n")
    assert run("revert", "--require-clean")[0] == 3
    code, _, err = run("revert")
    assert code == 0
    assert "not ours: kept" in err
    assert file.read_text() == TEXT + "THEIRS = 3\n"
    assert run("apply", name, "--require-clean")[0] == 3  # now RECORD differs


def test_an_empty_new_file_comes_and_goes(run: Run, site: Path, tmp_path: Path) -> None:
    name = document(tmp_path)
    name.write_text("""\
sm-patch: 1
name: tiny-new
summary: Add a marker
package: tiny
groups:
  - id: marker
    summary: an empty file
    patches:
      - id: marker
        affects: all
        reason: a test
        create: {file: tiny/new/py.typed, content: ""}
""")
    assert run("apply", name)[0] == 0
    assert (site / "tiny/new/py.typed").read_bytes() == b""
    assert as_json(run("revert", "--format", "json")[1])["changed"] is True
    assert not (site / "tiny/new").exists()


def test_groups_that_left_the_document_leave_the_files(run: Run, site: Path,
                                                       tmp_path: Path) -> None:
    name = document(tmp_path)
    run("apply", name, "--group", "gate,header")
    text = name.read_text()
    name.write_text(text[:text.index("  - id: header")].replace("12]", "12, 13]"))
    assert run("apply", name)[0] == 0
    assert (site / "tiny/k.cuh").read_text() == HEADER
    assert "[9, 10, 12, 13]" in (site / "tiny/gate.py").read_text()
    assert run("revert")[0] == 0
    assert (site / "tiny/gate.py").read_text() == TEXT


def test_two_patchsets_need_a_name_or_all(run: Run, site: Path, tmp_path: Path) -> None:
    run("apply", document(tmp_path), document(tmp_path, "tiny-other", "OTHER = 1", "OTHER = 2"))
    assert "[9, 10, 12]" in (site / "tiny/gate.py").read_text()
    assert run("revert")[0] == 2
    assert run("revert", "--group", "nothing", "tiny-open")[0] == 2
    assert run("revert", "tiny-open")[0] == 0
    assert (site / "tiny/gate.py").read_text() == TEXT.replace("OTHER = 1", "OTHER = 2")
    assert run("revert", "--all")[0] == 0
    assert (site / "tiny/gate.py").read_text() == TEXT


def test_a_reinstall_shows_as_lost(run: Run, site: Path, tmp_path: Path, uv: Uv,
                                   one: Path) -> None:
    name = document(tmp_path)
    run("apply", name)
    uv_install(uv, tmp_path / "a", one, "--reinstall", "--link-mode", "copy")
    code, out, _ = run("status")
    assert (code, out.splitlines()[0]) == (0, "tiny-open: lost")
    assert out.splitlines()[-1] == (
        f"next: sm-patch apply --python {tmp_path / 'a'} tiny-open --group gate")
    assert run("status", "--check")[0] == 1
    assert run("apply", name)[0] == 0
    assert run("status", "--check")[0] == 0


def test_a_group_that_the_new_release_has_is_retired(run: Run, site: Path, tmp_path: Path,
                                                     uv: Uv) -> None:
    """Its gate is open upstream: nothing to apply, and nothing of it stays in the journal."""
    path = tmp_path / "tiny-gate.yaml"
    path.write_text(PATCHSET[:PATCHSET.index("      - id: majors")].format(name="tiny-gate") + """\
      - id: majors
        affects: all
        reason: a test
        python-gate: {file: tiny/gate.py, gate: MAJORS, open: ["12.0", "12.1"]}
""")
    assert run("apply", path)[0] == 0
    fixed = wheel(tmp_path, "2.0", {"tiny/__init__.py": "",
                                    "tiny/gate.py": TEXT.replace("10]", "10, 11, 12]")})
    uv_install(uv, tmp_path / "a", fixed)
    installed = snapshot(site)
    assert "effective: yes" not in run("status")[1]
    code, out, err = run("apply", path)
    assert code == 0
    assert "effective" not in out
    assert "retired: tiny-gate/gate" in err
    assert run("status")[1].startswith("nothing is applied here")
    assert snapshot(site) == installed


def test_after_an_uninstall_one_status_leaves_nothing(run: Run, site: Path, tmp_path: Path,
                                                      uv: Uv) -> None:
    """An uninstaller removes what RECORD lists; what we had created is not on it.

    A script that checks while an installer works must not take a moment's absence
    for an uninstall: it only tells.
    """
    name = document(tmp_path)
    name.write_text(name.read_text() + NEW_FILE)
    environment = tmp_path / "a"
    for path in (site / "tiny").rglob("__pycache__"):
        shutil.rmtree(path)
    assert run("apply", name, "--group", "gate", "--group", "new")[0] == 0
    assert (site / "tiny/new/deep.py").is_file()
    uv("pip", "uninstall", "--python", environment, "tiny")
    code, out, _ = run("status", "--check")
    assert (code, out.splitlines()[0]) == (1, "tiny-open: lost")
    assert "tiny is not installed any more" in out
    assert (site / "tiny/new/deep.py").is_file()
    code, out, err = run("status")
    assert (code, out.splitlines()[0]) == (0, "nothing is applied here")
    assert "tiny-open/new: its package is uninstalled" in err
    assert not (site / "tiny").exists()
    assert not (environment / "share").exists()


def test_a_broken_install_elsewhere_is_no_matter_here(run: Run, site: Path, tmp_path: Path,
                                                      uv: Uv, monkeypatch: pytest.MonkeyPatch
                                                      ) -> None:
    """Where else the package may be is only a hint: here an editable project without a package."""
    assert run("apply", document(tmp_path))[0] == 0
    uv("pip", "uninstall", "--python", tmp_path / "a", "tiny")
    uv("venv", "--python", sys.executable, tmp_path / "b")
    (tmp_path / "project" / "tiny").mkdir(parents=True)
    info = next((tmp_path / "b/lib").glob("python*/site-packages")) / "other-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    (info / "RECORD").write_text("")
    (info / "direct_url.json").write_text(json.dumps(
        {"url": f"file://{tmp_path / 'project'}", "dir_info": {"editable": True}}))
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "b"))
    code, out, _ = run("status")
    assert (code, out.splitlines()[0]) == (0, "nothing is applied here")


def test_a_file_of_ours_that_was_edited_survives_the_uninstall(run: Run, site: Path,
                                                               tmp_path: Path, uv: Uv) -> None:
    name = document(tmp_path)
    name.write_text(name.read_text() + NEW_FILE)
    assert run("apply", name, "--group", "new")[0] == 0
    (site / "tiny/new/deep.py").write_text("theirs\n")
    uv("pip", "uninstall", "--python", tmp_path / "a", "tiny")
    code, out, err = run("status")
    assert (code, out.splitlines()[0]) == (0, "tiny-open: lost")
    assert "tiny/new/deep.py" in err
    assert (site / "tiny/new/deep.py").read_text() == "theirs\n"


def test_a_lock_file_carries_a_change_to_another_machine(run: Run, site: Path, tmp_path: Path,
                                                         uv: Uv, one: Path) -> None:
    name, lock = document(tmp_path), tmp_path / "sm-patch.lock"
    run("apply", name, "--group", "gate,header", "--write-lock", lock)
    assert str(tmp_path) not in lock.read_text()
    assert run("status", "--lock", lock)[0] == 0
    uv_install(uv, tmp_path / "b", one)
    code, out, _ = run("status", "--lock", lock, where="b")
    assert code == 1
    assert out.splitlines()[-1].endswith(f" --from-lock {lock}")
    code, _, err = run("revert", "tinyopen")
    assert (code, err.splitlines()) == (2, ["sm-patch: no patchset tinyopen is applied",
                                            "  next: applied: tiny-open"])
    assert run("apply", "--from-lock", lock, where="b")[0] == 0
    assert run("status", "--lock", lock, where="b")[0] == 0
    digest = run("status", "--digest")[1]
    assert run("status", "--digest", where="b")[1] == digest
    run("revert", where="b")
    document(tmp_path, replace="[9, 10, 11, 12]")
    assert run("apply", "--from-lock", lock, where="b")[0] == 3
    document(tmp_path)
    file = next((tmp_path / "b/lib").glob("python*/site-packages/tiny/gate.py"))
    file.write_text(TEXT + "THEIRS = 3\n")
    assert run("apply", "--from-lock", lock, where="b")[0] == 3  # it would be another file
    assert file.read_text() == TEXT + "THEIRS = 3\n"


@pytest.mark.parametrize("words", [
    ("apply",), ("apply", "--all", "x.yaml"), ("apply", "nowhere.yaml"),
    ("status", "--lock", "nowhere.lock"), ("revert", "--all", "x")])
def test_misuse_exits_2(run: Run, site: Path, words: Sequence[str]) -> None:
    assert run(*words)[0] == 2


def test_a_killed_apply_is_recovered_by_status(run: Run, site: Path, tmp_path: Path) -> None:
    name = document(tmp_path)
    program = ("import sys; from tests.engine.crash import Killer; from patcher.cli import main; "
               "Killer(int(sys.argv[1]), True).arm(); main(sys.argv[2:])")
    outcomes = set()
    for at in range(24, 60, 8):
        subprocess.run([sys.executable, "-c", program, str(at), "apply", "--python",
                        tmp_path / "a", name], cwd=REPOSITORY, check=False, capture_output=True)
        code, out, err = run("status")
        assert code == 0
        patched = "12]" in (site / "tiny/gate.py").read_text()
        assert out.startswith("tiny-open: applied" if patched else "nothing is applied")
        outcomes.add((patched, "an interrupted change of tiny-open" in err))
        if patched:
            run("revert")
    assert (False, True) in outcomes
