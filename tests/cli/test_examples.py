"""Help shows examples on every verb, within 80 columns, and each example parses."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from patcher.cli import app
from patcher.commands import VERBS, examples


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_examples_that_parse(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the files that the examples name are
    assert examples(verb), "add some to data/examples.json"
    for line in examples(verb):
        words = shlex.split(line.replace('eval "$(', "").replace(')"', "").replace("< server.log",
                                                                                  ""))
        assert words[:2] == ["sm-patch", verb]
        for name in words:
            if name.endswith((".whl", ".lock", ".yaml")) and "/" not in name:
                Path(name).touch()
        command = VERBS[verb].load()
        if isinstance(command, click.Group) and len(words) > 2:
            command = command.commands[words.pop(2)]
        context = command.make_context(verb, words[2:], resilient_parsing=False)
        assert context.params is not None


@pytest.mark.parametrize("verb", VERBS)
def test_help_ends_in_the_examples_and_fits(verb: str) -> None:
    shown = CliRunner().invoke(app, [verb, "--help"], terminal_width=80)
    assert shown.exit_code == 0, shown.output
    lines = shown.output.rstrip("\n").split("\n")
    assert lines[-len(examples(verb)) - 1:] == [
        "  Examples:", *(f"    {line}" for line in examples(verb))]
    assert [line for line in lines if len(line) > 80] == []
