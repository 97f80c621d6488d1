"""Run one compilation and read what it made: cicc, then ptxas.

A job is a value that can be sent to another process or machine; so is its result.
It names no folder: whoever runs it brings the compilers, and they must be the same.
"""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from patcher.errors import ToolFailed
from patcher.scratch import scratch
from patcher.verify.commands import Steps
from patcher.verify.execute import Outcome, run_tool
from patcher.verify.kernels import Code, read_kernels
from patcher.verify.ptx import ROOT, line_of, parse_ptx
from patcher.verify.resources import Resources, read_resources

# kept out of line, an emptied function can be seen; unoptimised code is smaller so, too
_INLINED = re.compile(rb"__attribute__\s*\(\(\s*(?:__)?always_inline(?:__)?\s*\)\)")
_FIRST_ERROR = re.compile(r"[^\n]*(?:\berror\b|\bfatal\b)[^\n]*", re.I)
_PTXAS = re.compile(r"ptxas(?:\s+\S+, line (\d+);)?\s*(?:error|fatal)\s*:\s*([^\n]*)")
_LIMIT = 3600.0


class Stage(str, Enum):
    """READ: unoptimised code, only parsed by ptxas. BUILD: the code that would run."""

    READ = "read"
    BUILD = "build"


@dataclass(frozen=True, slots=True)
class Compilers:
    """cicc and ptxas of one toolkit; ``identity`` is a hash over their bytes."""

    cicc: str
    ptxas: str
    identity: str


@dataclass(frozen=True, slots=True)
class Job:
    """Compile ``text`` (one device pass, preprocessed) for a target.

    ``compilers`` is the identity of those that may do it, ``limit`` seconds for all of it.
    """

    key: str
    target: str
    text: bytes
    steps: Steps
    stage: Stage
    compilers: str
    limit: float = _LIMIT

    @property
    def memory(self) -> int:
        """Bytes that cicc takes at its peak: 1.1 GB for 5.4 MB of text, 5.7 GB for 16.7 MB."""
        return (300 << 20) + 360 * len(self.text)


@dataclass(frozen=True, slots=True)
class Compiled:
    """What became of a job.

    ``error`` is the first diagnostic with its source line, empty when all steps
    succeeded. ``lasting`` is False for a failure of this machine rather than of
    the code (time, memory, no such program). ``seconds`` wall clock.
    """

    key: str
    code: Code
    error: str
    lasting: bool
    resources: Resources
    seconds: float


def job_key(text: bytes, steps: Steps, stage: Stage, compilers: str) -> str:
    """SHA-256 over everything that decides the result."""
    digest = hashlib.sha256()
    for part in (text, "\0".join(steps.arguments).encode(), stage.value.encode(),
                 compilers.encode()):
        digest.update(str(len(part)).encode() + b"\0" + part)
    return digest.hexdigest()


def compile_job(job: Job, compilers: Compilers, launcher: tuple[str, ...] = ()) -> Compiled:
    """Run a job in a scratch folder that is removed whatever happens.

    ``launcher`` are words to put before the compilers' commands.
    """
    started = time.monotonic()
    try:
        return _compile(job, compilers, launcher, started)
    except (OSError, ToolFailed, MemoryError, RecursionError) as error:
        return failure(job, f"{type(error).__name__}: {error}", time.monotonic() - started)


def failure(job: Job, reason: str, seconds: float = 0.0) -> Compiled:
    """What becomes of a job that could not be done at all; another time it may."""
    return Compiled(job.key, Code(), reason, False, Resources(), seconds)


def _compile(job: Job, compilers: Compilers, launcher: tuple[str, ...], started: float
             ) -> Compiled:
    with scratch() as folder:
        work = _Work(job, compilers, launcher, folder, started + job.limit)
        outcome = work.cicc()
        error = work.explain("cicc", outcome)
        ptx = "" if error else (folder / "unit.ptx").read_text("utf-8", "replace")
        resources = Resources()
        if not error:
            outcome = work.ptxas()
            error = work.explain("ptxas", outcome, ptx)
            resources = read_resources(outcome.messages)
    code = read_kernels(parse_ptx(ptx))
    return Compiled(job.key, code, error, not outcome.problem, resources,
                    time.monotonic() - started)


@dataclass(frozen=True, slots=True)
class _Work:
    job: Job
    compilers: Compilers
    launcher: tuple[str, ...]
    folder: Path
    end: float

    def cicc(self) -> Outcome:
        text = self.job.text
        if self.job.stage is Stage.READ:
            outcome = self._cicc(_INLINED.sub(b"", text))
            if outcome.code == 0 or outcome.problem:
                return outcome
        return self._cicc(text)  # also where something has to be inlined to compile at all

    def _cicc(self, text: bytes) -> Outcome:
        (self.folder / "unit.ii").write_bytes(text)
        # plain names: where a folder lies is nothing that a launcher should tell apart
        return self._run(self.job.steps.command(
            self.compilers.cicc, Path("unit.ii"), Path("unit.ptx"), Path("scratch")))

    def ptxas(self) -> Outcome:
        """For a virtual architecture ptxas only parses: it tells what it rejects, at once, and
        writes nothing that a launcher could keep."""
        if self.job.stage is Stage.READ:
            virtual = self.job.target.replace("sm_", "compute_", 1)
            return self._direct([self.compilers.ptxas, f"-arch={virtual}", "unit.ptx",
                                 "-o", "unit.cubin"])
        return self._run([self.compilers.ptxas, "-v", f"-arch={self.job.target}", "unit.ptx",
                          "-o", "unit.cubin"])

    def _run(self, command: list[str]) -> Outcome:
        """A launcher is believed when all went well; why not, only the compiler itself knows."""
        if self.launcher:
            outcome = run_tool(command, self.folder, self.end - time.monotonic(), self.launcher)
            if outcome.code <= 0 or outcome.problem:
                return outcome
        return self._direct(command)

    def _direct(self, command: list[str]) -> Outcome:
        return run_tool(command, self.folder, self.end - time.monotonic())

    def explain(self, tool: str, outcome: Outcome, ptx: str = "") -> str:
        """The first diagnostic, with the source line behind a line of PTX."""
        if outcome.problem or outcome.code == 0:
            return outcome.problem
        output = outcome.messages + outcome.output.decode("utf-8", "replace")
        if found := _PTXAS.search(output):
            place = line_of(ptx, int(found[1])) if found[1] else ""
            return f"{place}: ptxas: {found[2]}" if place else f"ptxas: {found[2]}"
        plain = output.replace(f"{self.folder}/", "").replace(ROOT, "")
        first = _FIRST_ERROR.search(plain)
        return first[0].strip() if first else f"{tool} failed with exit code {outcome.code}"
