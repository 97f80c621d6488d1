"""The functions of ``import patcher``, on the miniature package."""

from __future__ import annotations

import inspect
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import patcher
from patcher import cli
from patcher.errors import Conflict, PackageNotFound, UsageError
from tests.conftest import REPOSITORY

MINI = REPOSITORY / "corpus" / "mini" / "0.6.3"
EXAMPLE = REPOSITORY / "docs" / "examples" / "audit_and_open.py"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return Path(shutil.copytree(MINI, tmp_path / "site"))


def test_importing_it_loads_nothing_else() -> None:
    code = "import sys, patcher; print([m for m in sys.modules if m.startswith('patcher.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", ["scan", "plan", "apply", "verify"])
def test_functions_are_typed_and_explained(name: str) -> None:
    function = getattr(patcher, name)
    signature = inspect.signature(function)
    assert all(p.annotation is not p.empty for p in signature.parameters.values())
    assert signature.return_annotation is not signature.empty
    assert "Raises" in (function.__doc__ or "")


@pytest.mark.parametrize("name", ["scan", "plan", "apply", "verify"])
def test_a_function_stays_one_when_the_part_of_its_name_is_imported(name: str) -> None:
    """``patcher.scan`` is a function, and ``patcher/scan`` a folder of modules."""
    code = (f"import importlib, patcher; importlib.import_module('patcher.{name}');"
            f"assert callable(patcher.{name}), patcher.{name};"
            f"from patcher import {name}; assert callable({name})")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_py_typed_is_there_and_other_names_are_not() -> None:
    assert (Path(patcher.__file__).parent / "py.typed").exists()
    with pytest.raises(AttributeError):
        patcher.nonsense  # noqa: B018


def test_scan_finds_what_the_verb_finds(capsys: pytest.CaptureFixture[str]) -> None:
    found = patcher.scan("flashinfer", root=str(MINI), arch="sm_120a")
    assert capsys.readouterr() == ("", "")
    assert cli.main(["scan", "flashinfer", "--root", str(MINI), "--arch", "sm_120a",
                     "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [gate.id for gate in found.report.gates] == [g["id"] for g in document["gates"]]
    gate = found.findings[0]
    source = found.read(gate.location.path)
    assert source == (MINI / gate.location.path).read_bytes()
    assert found.read("no/such/file") is None


def test_talk_hears_what_the_command_line_says() -> None:
    heard: list[str] = []
    patcher.scan("flashinfer", root=str(MINI), arch=["sm_120a"], layers="host", talk=heard.append)
    assert any(line.startswith("environment: ") for line in heard)


def test_plan_writes_nothing_and_apply_writes_what_it_showed(site: Path) -> None:
    git = ["git", "apply", "--check", "-"]
    planned = patcher.plan("flashinfer-sm120", root=str(site), arch="sm_120a")
    assert planned.changed
    subprocess.run(git, cwd=site, input=planned.diff.encode(), check=True)
    checked = patcher.apply("flashinfer-sm120", root=str(site), arch="sm_120a", check=True)
    assert checked.changed
    subprocess.run(git, cwd=site, input=planned.diff.encode(), check=True)  # still untouched
    done = patcher.apply("flashinfer-sm120", root=str(site), arch="sm_120a")
    assert (done.changed, done.diff) == (True, planned.diff)
    assert [(p.before, p.after) for p in done.packages] == [
        (p.before, p.after) for p in planned.packages]
    again = patcher.apply("flashinfer-sm120", root=str(site), arch="sm_120a")
    assert not again.changed


def test_errors_are_those_of_the_command_line(site: Path) -> None:
    with pytest.raises(PackageNotFound):
        patcher.scan("nothing-of-that-name", root=str(site))
    with pytest.raises(UsageError):
        patcher.plan("flashinfer-sm120", groups="nonsense", root=str(site))
    header = site / "flashinfer/data/include/flashinfer/comm/trtllm_allreduce.cuh"
    header.write_bytes(header.read_bytes().replace(b"< 1200", b"< 1100", 1))  # one guard too few
    refused = patcher.apply("flashinfer-sm120", root=str(site), arch="sm_120a")
    assert (refused.changed, refused.exit) == (False, Conflict.exit_code)


def test_the_example_of_the_docs(site: Path) -> None:
    command = [sys.executable, str(EXAMPLE), "flashinfer", "flashinfer-sm120", "--root", str(site)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert shown.returncode == 1, shown.stderr
    assert "opened by flashinfer-sm120/trtllm-comm" in shown.stdout
    assert "+++ b/flashinfer/jit/comm.py" in shown.stdout
    assert subprocess.run([*command, "--write"], check=False).returncode == 0
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0
    assert again.stdout.endswith("nothing to change\n")
