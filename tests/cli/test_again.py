"""The command to type next means the same environment, target and groups as the one typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from patcher.cli import main
from patcher.commands import VERBS
from patcher.commands.again import REPEATED, again
from patcher.commands.options import common
from patcher.commands.printable import printable
from tests.doctor import mini

PLACE = {"root": ("/mnt/my image",), "arch": ("12.1", "sm_120f"), "group": ("a",)}


@pytest.mark.parametrize(("text", "expected"), [
    ("next: sm-patch status", "next: sm-patch status --root '/mnt/my image'"),
    ("nothing here", "nothing here"),
    ("next: sm-patch explain -", "next: sm-patch explain -"),  # takes none of them
    ("next: sm-patch apply x",
     "next: sm-patch apply --arch 12.1 --arch sm_120f --root '/mnt/my image' --group a x"),
    # what the line says itself is not said twice
    ("also there: sm-patch apply x --group b",
     "also there: sm-patch apply --arch 12.1 --arch sm_120f --root '/mnt/my image' x --group b"),
    ("run `sm-patch caches invalidate --if-changed` then",
     "run `sm-patch caches invalidate --root '/mnt/my image' --if-changed` then"),
    ("sm-patch caches list", "sm-patch caches list --root '/mnt/my image'"),
    ('eval "$(sm-patch env)"', "eval \"$(sm-patch env --root '/mnt/my image')\""),
    # names of folders and of things that are no verbs
    ("in /opt/sm-patch status.txt", "in /opt/sm-patch status.txt"),
    ("pip install 'sm-patch[nvcc]'", "pip install 'sm-patch[nvcc]'"),
    ("sm-patch stalwart", "sm-patch stalwart"), ("sm-patch scan-all", "sm-patch scan-all"),
])
def test_commands_in_a_text_are_completed(text: str, expected: str) -> None:
    assert again(text, PLACE) == expected


@pytest.mark.parametrize(("text", "expected"), [
    ("pip install 'torch==2.9.*'", "pip --python /v install 'torch==2.9.*'"),
    ("repair: pip uninstall -y a && pip install 'a==1'",
     "repair: pip --python /v uninstall -y a && pip --python /v install 'a==1'"),
    ("pip install 'sm-patch[unpack]'", "pip install 'sm-patch[unpack]'"),  # of our own environment
    ("pip download x", "pip download x"),
])
def test_pip_is_told_the_environment(text: str, expected: str) -> None:
    assert again(text, {"python": ("/v",)}) == expected


@pytest.mark.parametrize(("text", "shown"), [
    ("a\x1b[31mb", "a\\x1b[31mb"), ("a\x9b2Jb", "a\\x9b2Jb"), ("a\rb", "a\\rb"), ("\x07", "\\x07"),
    ("a\u202etxt.exe", "a\\u202etxt.exe"), ("\udc9b", "\\udc9b"),
    ("tab\tand\nline, größer, 日本", "tab\tand\nline, größer, 日本"),
])
def test_a_terminal_obeys_no_name(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_without_options_nothing_changes() -> None:
    assert again("next: sm-patch status", {}) == "next: sm-patch status"


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_repeated_can_be_typed(verb: str) -> None:
    """Every verb that takes a repeated option takes it under the flag that is printed."""
    line = again(f"sm-patch {verb}", dict.fromkeys(REPEATED, ("value",)))
    command = VERBS[verb].load()
    known = {flag for option in command.params for flag in option.opts}
    assert {word for word in shlex.split(line) if word.startswith("--")} <= known
    taken = {option.name for option in command.params} & set(REPEATED)
    assert len(shlex.split(line)) == 2 + 2 * len(taken)


def test_only_what_was_typed_is_repeated(monkeypatch: pytest.MonkeyPatch,
                                         capsys: pytest.CaptureFixture[str]) -> None:
    """Not a default, and not what a variable of the environment says to the next one too."""
    @click.command("x")
    @common("arch", "root", "state")
    def command(settings: object) -> None:
        click.echo(settings.again("sm-patch apply y"))  # type: ignore[attr-defined]

    monkeypatch.setenv("SM_PATCH_STATE", "/elsewhere")
    command.main(["--root", "/r"], standalone_mode=False)
    command.main(["--state", "/s", "--arch", "5090"], standalone_mode=False)
    assert capsys.readouterr().out.splitlines() == [
        "sm-patch apply --root /r y", "sm-patch apply --arch 5090 --state /s y"]


def test_the_verbs_print_commands_for_the_same_place(tmp_path: Path,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    site = tmp_path / "site-packages"
    home = mini.cuda(site, links=False)
    place = ["--root", str(site)]
    assert main(["doctor", *place, "--cuda", str(home)]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    command = f"sm-patch apply --cuda {home} --root {site} cuda-libraries"
    assert line == f"Next: {command}"
    assert main(["status", *place]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"next: sm-patch patchsets --root {site}"
    assert main(shlex.split(command)[1:]) == 0  # as printed, it repairs
    assert f"--root {site} cuda-libraries" in capsys.readouterr().out.splitlines()[-1]
    assert main(["warm", *place, "cuda-headers"]) == 2  # errors say their next step on stderr
    assert re.search(r"next: sm-patch apply .*--root \S+ cuda-headers", capsys.readouterr().err)
