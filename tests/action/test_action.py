"""The GitHub Action's own steps and the pre-commit hooks, run for real."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import REPOSITORY

MINI = REPOSITORY / "corpus" / "mini" / "0.6.3"
ACTION: dict[str, Any] = yaml.safe_load((REPOSITORY / "action.yml").read_text("utf-8"))
HOOKS: list[dict[str, Any]] = yaml.safe_load(
    (REPOSITORY / ".pre-commit-hooks.yaml").read_text("utf-8"))
_EXPRESSION = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")


def run_action(folder: Path, inputs: dict[str, str]) -> tuple[int, str]:
    """Every step as the runner does: expressions filled in, bash -e, files for its outputs."""
    given = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()} | inputs
    known = {f"inputs.{name}": value for name, value in given.items()}
    known["github.action_path"] = str(REPOSITORY)
    files = {name: folder / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    said = ""
    for step in ACTION["runs"]["steps"]:
        environment = {name: _EXPRESSION.sub(lambda m: known[m[1]], value)
                       for name, value in step["env"].items()}
        script = folder / "step.sh"
        script.write_text(step["run"], "utf-8")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)], cwd=folder,
            env={**os.environ, **environment, **{k: str(v) for k, v in files.items()},
                 "RUNNER_TEMP": str(folder)}, capture_output=True, text=True, check=False)
        said += done.stdout + done.stderr
        if done.returncode:
            return done.returncode, said
    return 0, said


def test_no_input_becomes_a_part_of_a_script() -> None:
    """GitHub's advice on script injection: expressions go through variables."""
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]
    used = {name for step in ACTION["runs"]["steps"] for value in step["env"].values()
            for name in _EXPRESSION.findall(value)}
    assert {f"inputs.{name}" for name in ACTION["inputs"]} <= used


@pytest.mark.slow
@pytest.mark.network
def test_the_action_writes_its_files_and_fails_on_what_is_critical(tmp_path: Path) -> None:
    """Two gates of the miniature are critical: a kernel's body and its PDL lines (13 guards)."""
    inputs = {"packages": "flashinfer", "root": str(MINI), "python": sys.executable,
              "html": "report.html"}
    code, said = run_action(tmp_path, inputs)
    assert code == 1, said
    assert "2 modules closed on sm_120a" in said
    run = json.loads((tmp_path / "sm-patch.sarif").read_text("utf-8"))["runs"][0]
    outputs = dict(line.split("=", 1) for line in
                   (tmp_path / "GITHUB_OUTPUT").read_text("utf-8").splitlines())
    assert outputs == {"sarif": "sm-patch.sarif", "findings": str(len(run["results"]))}
    assert (tmp_path / "GITHUB_STEP_SUMMARY").read_text("utf-8").startswith("## sm-patch: ")
    assert (tmp_path / "report.html").stat().st_size > 10_000

    hostile = {**inputs, "packages": "$(touch broken) `touch broken`; touch broken"}
    code, said = run_action(tmp_path, hostile)
    assert code == 2, said
    assert not (tmp_path / "broken").exists()
    assert run_action(tmp_path, {**inputs, "fail-on": ""})[0] == 0


def _repository(folder: Path) -> Path:
    """The files of this checkout as a repository of their own, uncommitted ones too."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard"], cwd=REPOSITORY, capture_output=True,
                            text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        source = REPOSITORY / name
        if source.is_file() and not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    return folder


@pytest.mark.slow
@pytest.mark.network
def test_pre_commit_runs_the_hooks(tmp_path: Path) -> None:
    ours = _repository(tmp_path / "sm-patch")
    project = tmp_path / "project"
    (project / "patchsets").mkdir(parents=True)
    for name in ("flashinfer-sm120.yaml", "flashinfer-sm120.test.yaml"):
        shutil.copy2(REPOSITORY / "patchsets" / name, project / "patchsets" / name)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ours, capture_output=True, text=True,
                          check=True).stdout.strip()
    (project / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [{
        "repo": str(ours), "rev": head, "hooks": [
            {"id": "sm-patch-test"},
            {"id": "sm-patch-scan",
             "args": ["--root", str(MINI), "--arch", "sm_120a", "flashinfer"]}]}]}), "utf-8")
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    subprocess.run(["git", "add", "-A"], cwd=project, check=True)

    def pre_commit() -> str:
        done = subprocess.run(
            ["uv", "tool", "run", "--quiet", "pre-commit", "run", "--all-files", "--color=never"],
            cwd=project, capture_output=True, text=True, check=False, env={
                **os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home"),
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"})
        return done.stdout + done.stderr

    said = pre_commit()
    assert re.search(r"snippets of patchsets\.+Passed", said), said
    assert re.search(r"gates that keep SM120/SM121 out\.+Failed", said), said
    assert "2 modules closed on sm_120a" in said

    snippets = project / "patchsets" / "flashinfer-sm120.test.yaml"
    text = snippets.read_text("utf-8")
    snippets.write_text(text.replace("[9, 10, 12]", "[9, 10, 13]"), "utf-8")
    assert re.search(r"snippets of patchsets\.+Failed", pre_commit())


def test_hooks_call_verbs_that_there_are() -> None:
    from patcher.commands import VERBS

    for hook in HOOKS:
        program, verb = hook["entry"].split()[:2]
        assert program == "sm-patch"
        assert verb in VERBS
