"""Which running processes still use old code: real processes, real libraries."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from patcher.caches.actions import Action, CacheAction
from patcher.caches.aot import dropped_libraries, moves
from patcher.effective import still_old
from patcher.processes import file_id, users_of, users_of_environment

LOAD = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print(flush=True); sys.stdin.read()"
WAIT = "import sys; print(flush=True); sys.stdin.read()"


@contextmanager
def running(*command: str | Path, cwd: Path | None = None) -> Iterator[int]:
    """A process that has done its first step and waits."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=cwd)
    assert child.stdout is not None
    child.stdout.readline()
    try:
        yield child.pid
    finally:
        child.communicate(b"")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return build(tmp_path / "old.so")


def build(path: Path) -> Path:
    source = path.with_suffix(".c")
    source.write_text("int value(void) { return 1; }\n")
    subprocess.run(["cc", "-shared", source, "-o", path], check=True)
    return path


def test_a_mapped_library_is_found(library: Path) -> None:
    with running(sys.executable, "-c", LOAD, library) as pid:
        (found,) = users_of([library]).running
        assert (found.pid, found.file) == (pid, str(library))
    assert users_of([library]).running == ()


def test_a_deleted_library_is_found_by_its_name(library: Path) -> None:
    with running(sys.executable, "-c", LOAD, library) as pid:
        library.unlink()
        (found,) = users_of([library]).running
        assert (found.pid, found.file) == (pid, f"{library} (deleted)")


def test_a_replaced_library_is_found_by_its_identity(library: Path) -> None:
    """After a rebuild the path names the new file, and the old process is still the old code."""
    with running(sys.executable, "-c", LOAD, library) as old:
        identity = file_id(library)
        assert identity is not None
        moved = library.with_name("moved.so")
        library.rename(moved)  # neither deleted nor under its name any more
        build(library)
        with running(sys.executable, "-c", LOAD, library) as new:
            assert [p.pid for p in users_of([], [identity]).running] == [old]
            assert [p.pid for p in users_of([library]).running] == [new]


def test_who_uses_what_an_invalidation_took_away(tmp_path: Path) -> None:
    """A library of a cache is deleted, a prebuilt module moved; both go on in their processes."""
    cached = build(tmp_path / "cached.so")
    (tmp_path / "aot" / "norm").mkdir(parents=True)
    prebuilt = build(tmp_path / "aot" / "norm" / "norm.so")
    actions = [CacheAction("c", str(cached), Action.DELETE, "", str(tmp_path)),
               CacheAction("a", str(prebuilt.parent), Action.ASIDE, "", str(tmp_path)),
               CacheAction("c", str(tmp_path / "cached.o"), Action.DELETE, "", str(tmp_path))]
    with running(sys.executable, "-c", LOAD, cached) as first, \
            running(sys.executable, "-c", LOAD, prebuilt) as second:
        cached.unlink()
        (move,) = moves(actions)
        (tmp_path / move.path).rename(tmp_path / move.new_path)
        found = users_of(dropped_libraries(actions)).running
    assert {one.pid for one in found} == {first, second}


def test_another_name_of_the_same_file_counts(library: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.so"
    os.link(library, other)
    with running(sys.executable, "-c", LOAD, other) as pid:
        assert [p.pid for p in users_of([library]).running] == [pid]


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment whose interpreter is a link to one that others share, as venv makes it."""
    home = tmp_path / "env"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    return home


def test_a_python_process_is_found_by_how_it_was_started(environment: Path) -> None:
    with running(environment / "bin" / "python", "-c", WAIT) as pid:
        assert [p.pid for p in users_of_environment([environment]).running] == [pid]


def test_a_process_that_only_shares_the_interpreter_is_not(environment: Path) -> None:
    with running(os.path.realpath(sys.executable), "-c", WAIT):
        assert users_of_environment([environment]).running == ()


@pytest.mark.parametrize("tie", ["library", "open file", "folder"])
def test_other_ties_to_an_environment(environment: Path, tie: str) -> None:
    shared = os.path.realpath(sys.executable)
    file = environment / "module.py"
    file.write_text("")
    if tie == "library":
        context = running(shared, "-c", LOAD, build(environment / "ext.so"))
    elif tie == "open file":
        context = running(shared, "-c", f"f = open({str(file)!r}); {WAIT}")
    else:
        context = running(shared, "-c", WAIT, cwd=environment)
    with context as pid:
        assert [p.pid for p in users_of_environment([environment]).running] == [pid]


def test_a_shell_that_only_stands_there_runs_none_of_its_code(environment: Path) -> None:
    with running("sh", "-c", "echo; read line", cwd=environment):
        assert users_of_environment([environment]).running == ()


def test_only_a_process_older_than_the_change_runs_the_old_code(environment: Path) -> None:
    file = environment / "gate.py"
    with running(environment / "bin" / "python", "-c", WAIT) as old:
        time.sleep(0.05)
        file.write_text("changed\n")
        time.sleep(0.05)
        with running(environment / "bin" / "python", "-c", WAIT) as new:
            survey = users_of_environment([environment])
            assert {p.pid for p in survey.running} == {old, new}
            assert [p.pid for p in still_old(survey, [file])] == [old]


def test_processes_of_others_are_counted_not_guessed(tmp_path: Path) -> None:
    """A /proc with one process whose maps may not be read."""
    process = tmp_path / "4242"
    process.mkdir()
    (process / "maps").mkdir()  # reading it fails for every user, root included
    survey = users_of([], proc=tmp_path)
    assert survey.running == ()
