"""The frame around the verbs: lazy imports, exit codes, one-line errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import click
import pytest

from patcher import __version__, cli, commands
from patcher.commands import VERBS, Verb
from patcher.errors import Conflict, Exit, InputError, SchemaError
from tests.conftest import REPOSITORY

HEAVY = ("libcst", "yaml", "git", "rich", "packaging", "pcpp", "platformdirs", "asyncio")


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "patcher", *arguments], capture_output=True, text=True, check=False
    )


def test_version_is_the_packages() -> None:
    done = _run("--version")
    assert (done.returncode, done.stdout) == (0, f"sm-patch {__version__}\n")


def test_help_names_every_verb() -> None:
    done = _run("--help")
    assert done.returncode == 0
    assert all(f"\n  {verb} " in done.stdout for verb in VERBS)


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_import_no_verb_and_nothing_heavy(option: str) -> None:
    code = (
        f"import sys; from patcher.cli import main; main([{option!r}]);"
        f"print(sorted(m for m in sys.modules if m in {HEAVY!r}"
        " or (m.startswith('patcher.commands.'))), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("verb", VERBS)
def test_every_row_of_the_table_is_a_verb_with_help(verb: str) -> None:
    module, _, attribute = VERBS[verb].target.partition(":")
    command = getattr(import_module(module), attribute)
    assert isinstance(command, click.Command)
    assert command.name == verb
    assert command.help


def test_every_module_of_verbs_stands_in_the_table() -> None:
    names = (module.name for module in iter_modules(commands.__path__, "patcher.commands."))
    with_command = {
        name
        for name in names
        if isinstance(getattr(import_module(name), "command", None), click.Command)
    }
    assert with_command == {verb.target.partition(":")[0] for verb in VERBS.values()}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["frobnicate"], "no such verb: frobnicate"), (["scan"], "Missing argument")],
)
def test_usage_errors_are_2(arguments: list[str], message: str) -> None:
    done = _run(*arguments)
    assert done.returncode == Exit.USAGE
    assert message in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(("typed", "meant"), [
    ("scna", "scan"), ("sttus", "status"), ("aply", "apply"), ("rever", "revert")])
def test_a_mistyped_verb_names_the_one_meant(typed: str, meant: str) -> None:
    done = _run(typed, "flashinfer")
    assert done.returncode == Exit.USAGE
    assert f"next: sm-patch {meant}" in done.stderr


@pytest.fixture
def failing_verb(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """A verb ``fail`` that raises what the test puts into the list."""
    errors: list[BaseException] = []

    @click.command("fail")
    def command() -> None:
        raise errors[0]

    monkeypatch.setattr(sys.modules[__name__], "command", command, raising=False)
    monkeypatch.setitem(VERBS, "fail", Verb(f"{__name__}:command", "Fail."))
    return errors


@pytest.mark.parametrize(("error", "code"), [(InputError, Exit.USAGE), (Conflict, Exit.REFUSED)])
def test_an_expected_error_is_one_line_and_a_next_step(
    failing_verb: list[BaseException],
    capsys: pytest.CaptureFixture[str],
    error: type[InputError] | type[Conflict],
    code: Exit,
) -> None:
    failing_verb.append(error("matches twice", where="a.cu", next_step="name the function"))
    assert cli.main(["fail"]) == code
    assert capsys.readouterr() == ("", "sm-patch: a.cu: matches twice\n  next: name the function\n")


@pytest.mark.parametrize(("count", "lines"), [(1, 1), (2, 3), (40, 41), (5000, 42)])
def test_problems_of_a_document_stand_one_on_a_line(
    failing_verb: list[BaseException], capsys: pytest.CaptureFixture[str], count: int, lines: int
) -> None:
    """A head and a line each, up to forty; then the number of the rest."""
    failing_verb.append(SchemaError([f"groups[{n}]: bad" for n in range(count)], where="p.yaml"))
    assert cli.main(["fail"]) == Exit.USAGE
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) == lines
    assert printed[0].startswith(f"sm-patch: p.yaml: {count} error")
    assert "groups[0]: bad" in printed[min(1, lines - 1)]


def test_an_interrupt_is_130(failing_verb: list[BaseException]) -> None:
    failing_verb.append(KeyboardInterrupt())
    assert cli.main(["fail"]) == Exit.INTERRUPTED


def test_a_bug_is_70_and_leaves_a_log(
    failing_verb: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    failing_verb.append(RuntimeError("boom"))
    assert cli.main(["fail"]) == Exit.INTERNAL
    first, second = capsys.readouterr().err.splitlines()
    assert first == "sm-patch: internal error: RuntimeError: boom"
    log = Path(second.split()[-1])
    text = log.read_text("utf-8")
    log.unlink()
    assert "RuntimeError: boom" in text
    assert __version__ in text


STREAMS = [  # how a shell starts it, and the exit code a script may rely on
    ("{program} {verb} | true; exit ${{PIPESTATUS[0]}}", 141),  # as a shell says SIGPIPE
    ("{program} {verb} >&-", 0),  # nobody wants it
    ("{program} {verb} 2>&-", 0),
    ("{program} {verb} <&- >&- 2>&-", 0),
    ("{program} frobnicate 2>&-", 2),
    ("{program} scan nothing-of-that-name --root {empty} >&- 2>&-", 2),
]


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize(("line", "code"), STREAMS)
def test_streams_that_are_closed(tmp_path: Path, line: str, code: int, buffered: str) -> None:
    """Neither a bug (70) nor a check that failed (1), whoever reads or does not."""
    for verb in ("patchsets", "--help"):
        script = line.format(program=f"{sys.executable} -m patcher", verb=verb, empty=tmp_path)
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONUNBUFFERED": buffered})
        assert (done.returncode, done.stderr) == (code, ""), script


@pytest.mark.parametrize("encoding", ["utf-8:strict", "ascii:strict", "latin-1:strict"])
@pytest.mark.parametrize("output", ["", "-o out.diff"])
def test_a_diff_keeps_the_bytes_of_the_file(tmp_path: Path, encoding: str, output: str) -> None:
    """Whatever the locale: a byte that is no UTF-8 goes out as it stands in the file."""
    (tmp_path / "site/mini").mkdir(parents=True)
    (tmp_path / "site/mini/__init__.py").write_bytes(b"# \xff caf\xc3\xa9\nA = 1\n")
    (tmp_path / "p.yaml").write_text("""\
sm-patch: 1
name: p
summary: s
package: mini
groups:
  - id: g
    summary: s
    default: true
    patches:
      - id: a
        affects: all
        reason: a test
        text: {file: mini/__init__.py, find: "A = 1", replace: "A = 2"}
""")
    done = subprocess.run(
        [sys.executable, "-m", "patcher", "diff", "p.yaml", "--root", "site", *output.split()],
        cwd=tmp_path, capture_output=True, check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": str(REPOSITORY)})
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "out.diff").read_bytes() if output else done.stdout
    assert b"\n # \xff caf\xc3\xa9\n-A = 1\n+A = 2\n" in text


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize("words", ["patchsets", "patchsets --format json",
                                   "patchsets -o /dev/full"])
def test_an_output_that_is_full_is_one_clear_error(words: str, buffered: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    done = subprocess.run(["bash", "-c", f"{sys.executable} -m patcher {words} >/dev/full"],
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONUNBUFFERED": buffered})
    assert done.returncode == Exit.USAGE
    first, second = done.stderr.splitlines()
    assert first.endswith("cannot write the output: No space left on device")
    assert second == "  next: choose another place for it"


def test_an_error_is_a_document_where_json_is_asked_for(tmp_path: Path) -> None:
    done = _run("scan", "nothing-of-that-name", "--root", str(tmp_path), "--format", "json")
    document = json.loads(done.stdout)
    assert document["version"] == 1
    assert document["error"]["exit"] == done.returncode == Exit.USAGE
    assert "nothing-of-that-name" in document["error"]["what"]
    assert document["error"]["what"] in done.stderr
