"""What a terminal shows and a pipe gets: width, colour, progress, completion; real ptys."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patcher.cli import main
from patcher.report.terminal import columns, fit, paint
from tests.conftest import REPOSITORY

MINI = REPOSITORY / "corpus" / "mini" / "0.6.3"
PROGRAM = Path(sys.executable).parent / "sm-patch"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The miniature under a long path, patched."""
    root = Path(shutil.copytree(MINI, tmp_path_factory.mktemp("a" * 60) / "site-packages"))
    in_pipe("apply", "flashinfer-sm120", "--root", str(root), "--arch", "sm_120a")
    return root


def environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    return {**kept, "TERM": "xterm", **more}


def in_pipe(*arguments: str) -> tuple[str, str]:
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False,
                          env=environment(), stdin=subprocess.DEVNULL)
    return done.stdout, done.stderr


def on_terminal(width: int, *arguments: str, **more: str) -> str:
    """What a terminal of that width gets, stdout and stderr as they come."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    process = subprocess.Popen([PROGRAM, *arguments], stdin=theirs, stdout=theirs, stderr=theirs,
                               env=environment(**more))
    os.close(theirs)
    data = b""
    while select.select([ours], [], [], 120)[0]:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        data += part
    process.wait()
    os.close(ours)
    return data.decode().replace("\r\n", "\n")


def verbs(root: Path) -> dict[str, list[str]]:
    where = ["--root", str(root)]
    return {
        "scan": ["scan", "flashinfer", *where, "--arch", "sm_120a"],
        "why": ["why", "flashinfer", *where, "--arch", "sm_120a"],
        "status": ["status", *where],
        "doctor": ["doctor", "flashinfer", *where],
        "verify": ["verify", "flashinfer-sm120", *where, "--unit", "nothing"],
        "audit": ["audit", "flashinfer", *where],
        "patchsets": ["patchsets", *where],
    }


@pytest.mark.parametrize("verb", ["scan", "why", "status", "doctor", "patchsets"])
@pytest.mark.parametrize("width", [80, 60])
def test_lines_fit_the_terminal(site: Path, verb: str, width: int) -> None:
    shown = ESCAPE.sub("", on_terminal(width, *verbs(site)[verb]))
    lines = [line.rpartition("\r")[2] for line in shown.split("\n")]  # progress goes over itself
    long = [line.rstrip("\\ ").strip() for line in lines if len(line) > width]
    assert [line for line in long if line != str(site)] == [], "one word of a command stays whole"
    assert len(lines) > 2


def test_a_wide_terminal_is_used(site: Path) -> None:
    shown = ESCAPE.sub("", on_terminal(200, *verbs(MINI)["scan"]))
    longest = max(len(line.rpartition("\r")[2]) for line in shown.split("\n"))
    assert 80 < longest <= 120, "wider than a pipe, and no wider than one reads"


def test_a_next_command_that_is_broken_is_still_a_command(site: Path) -> None:
    shown = ESCAPE.sub("", on_terminal(60, *verbs(site)["status"]))
    command = re.search(r"^next: (.*?)(?<!\\)$", shown, re.MULTILINE | re.DOTALL)
    assert command is not None
    assert " \\\n" in command[1]
    words = subprocess.run(["bash", "-c", f"printf '%s\\n' {command[1]}"], capture_output=True,
                           text=True, check=True).stdout.split("\n")[:-1]
    out, _ = in_pipe(*verbs(site)["status"])
    assert words == out.rstrip("\n").split("\n")[-1].removeprefix("next: ").split()


def test_colour_is_for_terminals_that_want_it(site: Path) -> None:
    arguments = verbs(site)["status"]
    assert "\x1b[1m" in on_terminal(80, *arguments)
    assert "\x1b[" not in on_terminal(80, *arguments, NO_COLOR="1")
    assert "\x1b[" not in on_terminal(80, *arguments, TERM="dumb")
    assert "\x1b[" not in "".join(in_pipe(*arguments))
    diff = ["diff", "flashinfer-sm120", "--root", str(MINI), "--arch", "sm_120a"]
    assert "\x1b[32m+        supported_major_versions=[9, 10, 12]\x1b[0m" in on_terminal(80, *diff)
    assert "\x1b[" not in "".join(in_pipe(*diff))


def test_progress_is_for_terminals(tmp_path: Path) -> None:
    """With a store of its own the scan has work to do."""
    scan = verbs(MINI)["scan"]
    shown = on_terminal(100, *scan, XDG_CACHE_HOME=str(tmp_path / "one"))
    assert "scanning flashinfer-python" in shown
    assert re.search(r"\d/\d+", ESCAPE.sub("", shown)), "how far"
    assert re.search(r"\d:\d\d:\d\d|-:--:--", ESCAPE.sub("", shown)), "and how long still"
    _, said = in_pipe(*scan)
    assert "scanning" not in said


@pytest.mark.parametrize("verb", ["scan", "why", "status", "doctor", "verify", "audit",
                                  "patchsets"])
def test_first_the_answer_last_the_next_command(site: Path, verb: str) -> None:
    out, _ = in_pipe(*verbs(site)[verb])
    lines = out.rstrip("\n").split("\n")
    assert re.match(r"[A-Za-z0-9]", lines[0])
    assert re.match(r"[Nn]ext: (sm-patch |git |pip |see )", lines[-1]), lines[-1]
    assert ":" not in lines[0][:5], "no label before the answer"
    long = [line for line in lines[1:-1] if len(line) > 80]
    assert all(max(map(len, line.split())) > 40 for line in long), "only long words are too long"


ANSWERS = {  # what each of the other verbs says in the end, and where
    "diff": ["flashinfer-sm120"], "apply": ["flashinfer-sm120", "--check"], "revert": [],
    "caches": ["list"], "caches invalidate": ["--if-changed"], "draft": ["flashinfer"],
}


@pytest.mark.parametrize("verb", ANSWERS)
def test_the_others_name_a_next_command_too(site: Path, verb: str, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(MINI, tmp_path / "site-packages"))
    words, more = verb.split(), ANSWERS[verb]
    out, said = in_pipe(words[0], *words[1:], *more, "--root", str(copy))
    assert "sm-patch" in (out if verb not in ("diff", "draft") else said).rstrip().split("\n")[-1]


def test_what_needs_no_root_names_a_next_command() -> None:
    for arguments in (["explain", "PY-MAJORS"], ["explain", "no such words"],
                      ["test", "flashinfer-sm120"]):
        out, _ = in_pipe(*arguments)
        assert out.rstrip().split("\n")[-1].startswith("next: sm-patch "), arguments


def test_errors_say_what_next(tmp_path: Path) -> None:
    for arguments in (["scan", "nothing-of-that-name", "--root", str(tmp_path)],
                      ["diff", "no-such-patchset"], ["scan", "x", "--arch", "sm_1"],
                      ["wheel", "flashinfer-sm120", "f-1-py3-none-any.whl"]):
        out, said = in_pipe(*arguments)
        assert out == ""
        assert re.search(r"^  next: \S", said, re.MULTILINE), said


WORDS = st.text(st.sampled_from("ab/_, :"), max_size=90)


@given(st.lists(WORDS, max_size=4).map("\n".join), st.integers(20, 100), st.booleans())
def test_fitting_keeps_every_character_but_blanks(text: str, width: int, strict: bool) -> None:
    fitted = fit(text, width, strict=strict)
    assert fitted.replace(" ", "").replace("\n", "") == text.replace(" ", "").replace("\n", "")
    if strict:
        assert all(len(line) <= width for line in fitted.split("\n"))


@pytest.mark.parametrize("line", [
    "absent fused_moe_120: python -c 'from flashinfer.jit import core; core.build(False)'" * 2,
    f"next: sm-patch apply flashinfer-sm120 --root {'x' * 90}",
    f"  sm-patch apply flashinfer-sm120 --root {'x' * 90}",
    f"repair: pip install {'nvidia-cuda-runtime ' * 6}",
])
def test_a_command_in_a_pipe_is_never_broken(line: str) -> None:
    assert fit(f"answer\n{line}", 80, strict=False) == f"answer\n{line}"


def test_a_diff_inside_of_a_text_is_left_alone() -> None:
    line = "+" + "x " * 60
    text = f"modified a\n    @@ -1 +1,2 @@\n     {'y ' * 60}\n    {line}\nword {'z ' * 60}"
    fitted = fit(text, 80, strict=True).split("\n")
    assert f"    {line}" in fitted
    assert len(fitted) == 6, "only the last line is broken, in two"


def test_what_is_no_terminal_has_eighty_columns(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as file:
        assert columns(file, {"COLUMNS": "200"}) == 80
    assert columns(file, {}) == 80, "closed by now"
    assert paint("answer\nplain") == "\x1b[1manswer\x1b[0m\nplain"


BASH = r"""
source <(_SM_PATCH_COMPLETE=bash_source sm-patch)
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
  _sm_patch_completion sm-patch; echo "${COMPREPLY[*]}"; }
compopt() { :; }
ask sm-patch st
ask sm-patch diff flash
ask sm-patch scan --arch sm_121
ask sm-patch scan --arch sm_120a,sm_121a
ask sm-patch scan --for
ask sm-patch scan --arch sm_120a,rtx-509
ask sm-patch apply flashinfer-sm120 --group trt
ask sm-patch diff flashinfer-sm120 --group gdc,ds
complete -p sm-patch
"""


def test_bash_completes_verbs_patchsets_targets_and_options() -> None:
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH], capture_output=True, text=True, check=True,
        env=environment(PATH=f"{PROGRAM.parent}:{os.environ['PATH']}"))
    lines = done.stdout.rstrip("\n").split("\n")
    verbs_, patchsets, targets, more, options, devices, group, groups, registered = lines
    assert verbs_.split() == ["status"]
    assert "flashinfer-sm120" in patchsets.split()
    assert targets.split() == ["sm_121", "sm_121a", "sm_121f"]
    assert more.split() == ["sm_120a,sm_121a"]
    assert options.split() == ["--format"]
    assert devices.split() == ["sm_120a,rtx-5090"]
    assert group.split() == ["trtllm-comm"]
    assert groups.split() == ["gdc,dsv3-router"]
    assert "_sm_patch_completion" in registered


def test_after_apply_verify_leads_to_status_and_says_that_it_takes_long(site: Path) -> None:
    """No unit is compiled here: what is applied decides what comes next."""
    for root, verb in ((site, "status"), (MINI, "apply")):
        out, _ = in_pipe("verify", "flashinfer-sm120", "--root", str(root), "--unit", "nothing")
        assert out.splitlines()[-1].startswith(f"next: sm-patch {verb} ")
    *_, long, following = in_pipe("status", "--root", str(site))[0].splitlines()
    assert following.startswith("next: sm-patch verify ")
    assert "--group ID takes one group alone" in long


@pytest.mark.parametrize("origin", ["unit:nosuch.service", "pid:4194304"])  # PID_MAX_LIMIT
@pytest.mark.parametrize("words", [["status"], ["apply", "flashinfer-sm120", "--check"],
                                   ["scan", "flashinfer"], ["caches", "list"]])
def test_a_server_that_is_not_there_is_named(
        capsys: pytest.CaptureFixture[str], words: list[str], origin: str) -> None:
    """Also by verbs that would not come to look at its caches."""
    assert main([*words, "--root", str(MINI), "--env-from", origin]) == 2
    out, said = capsys.readouterr()
    assert (out, said.split(": no such")[0]) == ("", f"sm-patch: {origin}")


def test_what_apply_says_it_says_once_and_fits(
        capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Words are counted over both streams; a command to paste is a line of its own."""
    root = shutil.copytree(MINI, tmp_path / "root")
    where = ["--root", str(root), "--arch", "5090"]
    for check, word in ((["--check"], "applicable"), ([], "applied")):
        main(["apply", "flashinfer-sm120", *where, *check])
        out, err = capsys.readouterr()
        plain = " ".join(f"{out} {err}".split())
        for once in ("TP4 over PCIe", "needs: single-node", f"trtllm-comm: {word}"):
            assert plain.count(once) == 1, once
        long = [line for line in out.split("\n") if len(line) > 80]  # a log has whole messages
        assert [line for line in long if not re.match(r"(next: |\s*)sm-patch [a-z]", line)] == []
    assert "TP4 over PCIe" in err, "before anything was written"
    main(["apply", "flashinfer-sm120", *where, "--format", "json"])  # what a person still hears
    assert "TP4" not in capsys.readouterr().err, "nothing is to be applied any more"


@pytest.mark.parametrize(("line", "red"), [
    ("2 units without a hollow kernel", False), ("sm_120a; no hollow kernel", False),
    ("12 kernels, 0 hollow", False), ("12 kernels, 10 hollow", True),
    ("k.cuh: launch: hollow (a body is compiled away)", True)])
def test_only_bad_news_is_red(line: str, red: bool) -> None:
    assert ("\x1b[31m" in paint(line, answer=False)) is red
