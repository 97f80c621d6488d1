"""Run compilers so that nothing is left behind: bounded in time, memory and output, ended as a
group."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patcher.verify.memory import free_memory

_LARGEST = 512 << 20  # bytes of any file that a tool writes; preprocessed units have 5 to 17 MB
_FULL = 1 << 20  # bytes left on a disk on which nothing more can be done
_running: dict[subprocess.Popen[bytes], str] = {}  # tools and whose they are
_ended: set[str] = set()  # whose tools are not to run any more
_lock = threading.Lock()
_mine = threading.local()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool left: its exit code (negative: the signal), its output, its messages.

    ``problem`` says in words why it could not do its work on this machine (not
    started, too slow, ended by a signal); empty when it gave an answer of its own.
    """

    code: int
    output: bytes
    messages: str
    problem: str = ""


def run_tool(command: Sequence[str], folder: Path, limit: float,
             launcher: Sequence[str] = ()) -> Outcome:
    """Run a tool in ``folder``, which also takes its temporary files; ``limit`` in seconds.

    ``launcher`` are words of a program that starts it, or knows what it would say.
    """
    name = Path(command[0]).name
    words = [*launcher, *command]
    if shutil.which(words[0]) is None:
        cause = os.strerror(errno.EACCES if os.path.exists(words[0]) else errno.ENOENT)
        return Outcome(127, b"", "", f"cannot run {words[0]}: {cause}")
    # tools that print commands quote no odd character of the folder's name: none is in "."
    environment = {**os.environ, "TMPDIR": ".", "LC_ALL": "C"}
    try:
        with tempfile.TemporaryFile(dir=folder) as stdout:
            # a session of its own, so that all it starts can be ended with it
            process = subprocess.Popen(
                bounded(words), cwd=folder, stdin=subprocess.DEVNULL, stdout=stdout,
                stderr=subprocess.PIPE, start_new_session=True, env=environment)
            with _registered(process):
                problem, messages = _wait(process, name, limit)
            if process.returncode and not problem:
                problem = _shortage(folder, name) or _signal(process.returncode, name)
            stdout.seek(0)
            output = b"" if problem else stdout.read()
    except OSError as error:
        return Outcome(127, b"", "", f"cannot run {command[0]}: {error.strerror}")
    return Outcome(process.returncode, output, messages.decode("utf-8", "replace"), problem)


def _wait(process: subprocess.Popen[bytes], name: str, limit: float) -> tuple[str, bytes]:
    """Why a tool gave no answer (empty when it did), and what it said."""
    try:
        return "", process.communicate(timeout=max(limit, 0.1))[1]
    except subprocess.TimeoutExpired:
        _end(process)
        return f"{name} took longer than {limit:.0f} s", b""
    except BaseException:
        _end(process)
        raise


def bounded(command: Sequence[str]) -> list[str]:
    """A command that may take so much and no more, with all that it starts: a unit can ask for
    any amount.

    A shell sets the limits and becomes the tool: set from outside once it runs, they
    come too late for a driver that has started its compiler by then, and a function
    between fork and exec can hang a process that has threads.
    """
    blocks, kibibytes = (_allowed(number, value) // unit for number, value, unit in (
        (resource.RLIMIT_FSIZE, _LARGEST, 512), (resource.RLIMIT_AS, free_memory(), 1024)))
    limits = f'ulimit -f {blocks} && ulimit -v {kibibytes} && exec "$@"'
    return ["/bin/sh", "-c", limits, "sh", *command]


def _allowed(number: int, value: int) -> int:
    most = resource.getrlimit(number)[1]
    return value if most == resource.RLIM_INFINITY else min(value, most)


def _shortage(folder: Path, name: str) -> str:
    if shutil.disk_usage(folder).free > _FULL:
        return ""
    return f"{name} failed as no space is left in {folder.parent}"


def _signal(code: int, name: str) -> str:
    if code >= 0:
        return ""
    ended = signal.Signals(-code).name
    causes = {"SIGKILL": " (out of memory?)", "SIGABRT": " (out of memory?)",
              "SIGXFSZ": f" (it wrote more than {_LARGEST >> 20} MB)"}
    return f"{name} was ended by {ended}{causes.get(ended, '')}"


@contextlib.contextmanager
def _registered(process: subprocess.Popen[bytes]) -> Iterator[None]:
    owner = getattr(_mine, "owner", "")
    with _lock:
        _running[process] = owner
        late = owner in _ended
    if late:
        kill_group(process)
    try:
        yield
    finally:
        with _lock:
            del _running[process]


@contextlib.contextmanager
def working_for(owner: str) -> Iterator[None]:
    """Name whose tools this thread runs, so that somebody else can end just these."""
    _mine.owner = owner
    try:
        yield
    finally:
        _mine.owner = ""


def end_all(owners: Collection[str] | None = None) -> None:
    """End every tool that is running now, whatever thread waits for it; only those of some
    owners when these are given."""
    with _lock:
        _ended.update(owners or ())
        running = [p for p, owner in _running.items() if owners is None or owner in owners]
    for process in running:
        kill_group(process)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started, at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    kill_group(process)
    process.communicate()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does, so that cleaning up happens then too.

    A signal that is ignored (by nohup, say) stays so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    heard = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
