"""Run one compilation: preprocess, cicc, optionally ptxas; bounded in time, cleaned up.

A job is a value that can be sent to another process or machine; so is its result.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import resource
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from patcher.verify.commands import Steps

_FIRST_ERROR = re.compile(r"[^\n]*(?:\berror\b|\bfatal\b)[^\n]*", re.I)


@dataclass(frozen=True, slots=True)
class Job:
    """Compile ``text`` (one device pass, preprocessed) to PTX and judge-ready data.

    ``ptxas`` is the assembler to try the result with, None to skip it; ``quick``
    asks it for its fastest mode. ``limit`` is in seconds for the whole job.
    """

    key: str
    target: str
    text: bytes
    steps: Steps
    ptxas: str | None
    quick: bool
    limit: float = 3600.0


@dataclass(frozen=True, slots=True)
class Compiled:
    """What became of a job; ``ptx`` is empty when the compiler failed.

    ``error`` is the first diagnostic, "" when all steps succeeded; ``messages``
    what ptxas said of resources (-v); ``seconds`` wall, ``cpu`` user+system.
    """

    key: str
    target: str
    ptx: str
    error: str
    messages: str
    seconds: float
    cpu: float


def job_key(text: bytes, steps: Steps, ptxas: str | None, compilers: str) -> str:
    """SHA-256 over everything that decides the result."""
    digest = hashlib.sha256()
    assembled = b"ptxas" if ptxas else b""
    for part in (text, "\0".join(steps.arguments).encode(), assembled, compilers.encode()):
        digest.update(str(len(part)).encode() + b"\0" + part)
    return digest.hexdigest()


def compile_job(job: Job) -> Compiled:
    """Run a job in a scratch folder that is removed whatever happens."""
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    ptx = messages = ""
    with tempfile.TemporaryDirectory(prefix="sm-patch-") as scratch:
        folder = Path(scratch)
        source, output = folder / "unit.ii", folder / "unit.ptx"
        source.write_bytes(job.text)
        command = job.steps.command(source, output, folder / "scratch")
        error, _ = _run(command, folder, job.limit)
        if not error:
            ptx = output.read_text("utf-8", "replace")
            if job.ptxas:
                left = job.limit - (time.monotonic() - started)
                error, messages = _run(_assemble(job, output), folder, left)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Compiled(job.key, job.target, ptx, error, messages, time.monotonic() - started, cpu)


def _assemble(job: Job, ptx: Path) -> list[str]:
    assert job.ptxas
    mode = ["-O0"] if job.quick else ["-v"]
    return [job.ptxas, *mode, f"-arch={job.target}", str(ptx), "-o", os.devnull]


def _run(command: list[str], folder: Path, limit: float) -> tuple[str, str]:
    """(first error or "", all output). The whole process group ends with us."""
    try:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        )
    except OSError as error:
        return f"cannot run {command[0]}: {error.strerror}", ""
    try:
        output, _ = process.communicate(timeout=max(limit, 0.1))
    except subprocess.TimeoutExpired:
        _end(process)
        return f"{Path(command[0]).name} took longer than {limit:.0f} s", ""
    except BaseException:
        _end(process)
        raise
    if process.returncode == 0:
        return "", output
    return _diagnose(Path(command[0]).name, process.returncode, output), output


def _diagnose(tool: str, code: int, output: str) -> str:
    if code < 0:
        return f"{tool} was ended by {signal.Signals(-code).name} (out of memory?)"
    found = _FIRST_ERROR.search(output)
    return found[0].strip() if found else f"{tool} failed with exit code {code}"


def _end(process: subprocess.Popen[str]) -> None:
    """End the tool and what it started; it runs in a session of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
