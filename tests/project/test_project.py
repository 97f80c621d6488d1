"""The project file, and what ``--all`` and ``status`` make of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from patcher.cli import main
from patcher.errors import Refused, SchemaError
from patcher.project import Project, find_project
from tests.plan.site import OPEN, PATCHSET, Site

TWO = PATCHSET.replace("- id: main\n", "- id: main\n    default: true\n") + """\
  - id: extra
    default: false
    patches:
      - id: more
        affects: all
        reason: everybody
        text: {file: mini/unit.cu, find: "void launch", replace: "int launch"}
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A project folder with an environment and a patchset of its own; we work in ``src``."""
    made = Site.make(tmp_path / "env")
    made.patchset(TWO)
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    return made


def project(site: Site, text: str, name: str = "sm-patch.toml") -> Path:
    path = site.root.parent / name
    path.write_text(text)
    return path


def run(*arguments: str) -> int:
    return main([*arguments])


def status(capsys: pytest.CaptureFixture[str], expect: int = 0, *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["status", "--format", "json", *arguments]) == expect
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {f"{one['name']}/{group['id']}": group["state"]
            for one in found["patchsets"] for group in one["groups"]}


WHOLE = 'patchsets = ["mini-sm120.yaml"]\nroot = "env"\n'


def test_apply_all_applies_what_the_file_names_where_it_says(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    project(site, WHOLE)
    assert status(capsys) == {"mini-sm120/main": "absent"}
    assert status(capsys, 1, "--check") == {"mini-sm120/main": "absent"}
    assert run("status") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "next: sm-patch apply --all"
    assert run("apply", "--all", "--arch", "sm_120a") == 0
    assert "[9, 10, 12]" in site.read("mini/jit.py")
    assert "void launch" in site.read("mini/unit.cu")
    assert status(capsys, 0, "--check") == {"mini-sm120/main": "applied"}


def test_groups_of_the_file_and_its_table_in_pyproject(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    project(site, f'[project]\nname = "x"\n[tool.sm-patch]\n{WHOLE}'
                  'groups = ["mini-sm120/main", "extra"]\n', "pyproject.toml")
    assert run("apply", "--all", "--arch", "sm_120a") == 0
    assert status(capsys) == {"mini-sm120/main": "applied", "mini-sm120/extra": "applied"}


def test_what_an_upgrade_took_away_is_applied_again_also_when_it_was_not_a_default(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    project(site, WHOLE)
    assert run("apply", str(site.root.parent / "mini-sm120.yaml"), "--group", "main", "--group",
               "extra", "--root", str(site.root), "--arch", "sm_120a") == 0
    Site.make(site.root, version="1.1")  # an installer writes every file anew
    assert status(capsys) == {"mini-sm120/main": "lost", "mini-sm120/extra": "lost"}
    assert run("status") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "next: sm-patch apply --all"
    assert run("apply", "--all", "--arch", "sm_120a") == 0
    assert status(capsys) == {"mini-sm120/main": "applied", "mini-sm120/extra": "applied"}
    assert "int launch" in site.read("mini/unit.cu")


def test_a_group_that_the_release_does_not_need_is_no_failure(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    project(site, WHOLE)
    Site.make(site.root, version="2.0", jit="def gen():\n    return build("
              "supported_major_versions=[9, 10, 12])\n",
              kernel=f"__global__ void body() {{\n{OPEN}  work();\n#endif\n}}\n")
    assert status(capsys, 0, "--check") == {"mini-sm120/main": "superseded"}
    assert run("apply", "--all", "--arch", "sm_120a") == 0


def test_what_the_file_names_and_does_not_fit_is_refused_not_left_out(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    project(site, WHOLE)
    Site.make(site.root, jit="def gen():\n    return build(other=[9, 10])\n")
    assert run("apply", "--all", "--arch", "sm_120a") == 3
    assert "mini-sm120/main" in capsys.readouterr().out


def test_check_all_checks_the_file_s_patchsets(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    project(site, WHOLE)
    (site.root.parent / "wheels").mkdir()
    assert run("check", "--all", "--versions", "1.0", "--wheels",
               str(site.root.parent / "wheels"), "--format", "json") == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["patchset"] == "mini-sm120"


def test_what_is_named_wins_over_the_file(site: Site, tmp_path: Path) -> None:
    project(site, 'patchsets = ["mini-sm120.yaml"]\nroot = "nowhere"\n')
    assert run("apply", "--all", "--root", str(site.root), "--arch", "sm_120a") == 0
    assert "[9, 10, 12]" in site.read("mini/jit.py")


def test_the_nearest_file_counts_and_one_of_our_own_name_first(site: Site, tmp_path: Path) -> None:
    project(site, WHOLE)
    project(site, '[tool.sm-patch]\npatchsets = ["other"]\n', "pyproject.toml")
    assert find_project(tmp_path / "src") == Project(
        tmp_path / "sm-patch.toml", (str(tmp_path / "mini-sm120.yaml"),), (), None,
        str(tmp_path / "env"))
    (tmp_path / "src/pyproject.toml").write_text('[tool.other]\nx = "sm-patch"\n')
    found = find_project(tmp_path / "src")
    assert found is not None
    assert found.path == tmp_path / "sm-patch.toml"
    (tmp_path / "src/sm-patch.toml").write_text('patchsets = ["flashinfer-sm120"]\n')
    found = find_project(tmp_path / "src")
    assert found is not None
    assert found.patchsets == ("flashinfer-sm120",)


@pytest.mark.parametrize(("text", "problem"), [
    ('patchset = ["x"]\n', "patchset: unknown key; did you mean patchsets?"),
    ("patchsets = []\n", "patchsets: expected at least one"),
    ('patchsets = "x"\n', "patchsets: expected a list, got str"),
    ('patchsets = ["x"]\nroot = "a"\npython = "b"\n', "root: name either python or root"),
])
def test_a_broken_file_is_said_with_its_key(site: Site, text: str, problem: str) -> None:
    project(site, text)
    with pytest.raises(SchemaError, match=problem.replace("?", r"\?")):
        find_project(Path.cwd())


def test_text_that_is_no_toml_is_exit_2(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    project(site, "patchsets = [\n")
    assert run("apply", "--all") == 2
    assert "not TOML" in capsys.readouterr().err


def test_a_file_that_others_may_write_is_refused(site: Site) -> None:
    os.chmod(project(site, WHOLE), 0o666)
    with pytest.raises(Refused, match="others may write it"):
        find_project(Path.cwd())
