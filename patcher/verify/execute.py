"""Run compilers so that nothing is left behind: bounded in time, ended as a group, own scratch."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_running: set[subprocess.Popen[bytes]] = set()
_lock = threading.Lock()


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


def run_tool(command: Sequence[str], folder: Path, limit: float) -> Outcome:
    """Run a tool in ``folder``, which also takes its temporary files; ``limit`` in seconds."""
    name = Path(command[0]).name
    environment = {**os.environ, "TMPDIR": str(folder), "LC_ALL": "C"}
    try:
        # a session of its own, so that all it starts can be ended with it
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, env=environment)
    except OSError as error:
        return Outcome(127, b"", "", f"cannot run {command[0]}: {error.strerror}")
    with _registered(process):
        try:
            output, messages = process.communicate(timeout=max(limit, 0.1))
        except subprocess.TimeoutExpired:
            _end(process)
            return Outcome(-signal.SIGKILL, b"", "", f"{name} took longer than {limit:.0f} s")
        except BaseException:
            _end(process)
            raise
    text = messages.decode("utf-8", "replace")
    if process.returncode < 0:
        ended = signal.Signals(-process.returncode).name
        cause = " (out of memory?)" if ended == "SIGKILL" else ""
        return Outcome(process.returncode, output, text, f"{name} was ended by {ended}{cause}")
    return Outcome(process.returncode, output, text)


@contextlib.contextmanager
def _registered(process: subprocess.Popen[bytes]) -> Iterator[None]:
    with _lock:
        _running.add(process)
    try:
        yield
    finally:
        with _lock:
            _running.discard(process)


def end_all() -> None:
    """End every tool that is running now, whatever thread waits for it."""
    with _lock:
        running = list(_running)
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder for temporary files, removed whatever happens."""
    with tempfile.TemporaryDirectory(prefix="sm-patch-") as name:
        yield Path(name)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that cleaning up happens then too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
