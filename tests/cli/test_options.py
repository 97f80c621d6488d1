"""The common options mean the same wherever they stand."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from patcher.commands.options import Settings, common
from patcher.errors import InputError


def _settings(names: tuple[str, ...], *arguments: str) -> Settings:
    seen: list[Settings] = []

    @click.command()
    @common(*names)
    def command(settings: Settings) -> None:
        seen.append(settings)

    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return seen[0]


def test_lists_take_repeats_commas_and_spaces() -> None:
    names = ("arch", "reference", "group")
    settings = _settings(names, "--arch", "12.0", "--arch", "sm_121a,sm_120f", "--group", "a,b")
    assert settings.arch == ("12.0", "sm_121a", "sm_120f")
    assert settings.reference == ("sm_90a", "sm_100a")
    assert settings.group == ("a", "b")


def test_defaults_are_the_contracts() -> None:
    names = (
        "arch",
        "reference",
        "cuda",
        "root",
        "python",
        "group",
        "format",
        "output",
        "jobs",
        "state",
        "env_from",
    )
    settings = _settings(names)
    cores = len(os.sched_getaffinity(0))
    assert settings == Settings(jobs=cores)
    assert settings.arch == ("auto",)
    assert settings.format == "text"


def test_the_state_home_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SM_PATCH_STATE", "elsewhere")
    assert _settings(("state",)).state == "elsewhere"


def test_a_format_that_a_verb_lacks_is_a_usage_error() -> None:
    @click.command()
    @common("format", formats=("text", "json"))
    def command(settings: Settings) -> None: ...

    assert CliRunner().invoke(command, ["--format", "sarif"]).exit_code == 2


def test_data_goes_to_the_named_file_or_to_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Settings().emit("data")
    Settings(output=str(tmp_path / "out")).emit("data")
    assert capsys.readouterr() == ("data\n", "")
    assert (tmp_path / "out").read_text() == "data\n"


def test_an_unwritable_output_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory"):
        Settings(output=str(tmp_path / "no" / "out")).emit("data")
