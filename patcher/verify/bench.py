"""One verification's tools, and what they already made: equal work is done once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from patcher.arch import Target
from patcher.cuda.model import TranslationUnit
from patcher.errors import PatcherError, ToolFailed
from patcher.verify.commands import Steps, code_flags, device_steps
from patcher.verify.compile import (
    Compiled,
    Compilers,
    Job,
    Stage,
    failure,
    job_key,
)
from patcher.verify.execute import end_all
from patcher.verify.prepare import Preprocessed
from patcher.verify.store import Store, encode

_T = TypeVar("_T")


def _outcome(future: Future[Compiled], job: Job) -> Compiled:
    """A job that could not be done fails its unit, not the others."""
    try:
        return future.result()
    except PatcherError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a farm raises when it loses a job
        return failure(job, f"lost with its worker: {type(error).__name__}")


class Farm(Protocol):
    """Whoever compiles: threads of this process, or machines."""

    def submit(self, job: Job) -> Future[Compiled]:
        """Begin a job; the future may raise ToolFailed for a machine that cannot do it."""


@dataclass(frozen=True, slots=True)
class Tools:
    """nvcc, and the compilers behind it."""

    nvcc: Path
    compilers: Compilers


@dataclass
class Bench:
    """Compiles and remembers. ``progress`` hears of steps done and steps known so far."""

    tools: Tools
    store: Store
    farm: Farm
    jobs: int = 1
    progress: Callable[[int, int], None] = lambda done, total: None
    _done: dict[str, Compiled] = field(default_factory=dict)
    _fresh: set[str] = field(default_factory=set)
    _steps: dict[tuple[Target, tuple[str, ...], Stage], Steps] = field(default_factory=dict)
    _count: int = 0
    _total: int = 0

    def job(self, unit: TranslationUnit, target: Target, text: Preprocessed, stage: Stage) -> Job:
        """The job that makes a pass's text into code; done, and failed, where nvcc refuses."""
        identity = self.tools.compilers.identity
        try:
            steps, problem = self._steps_of(unit, target, stage), ""
        except ToolFailed as error:
            steps, problem = Steps(("refused", error.what)), error.what
        job = Job(job_key(text.text, steps, stage, identity), target.name, text.text, steps,
                  stage, identity)
        if problem:
            self._done[job.key] = failure(job, problem)
        return job

    def _steps_of(self, unit: TranslationUnit, target: Target, stage: Stage) -> Steps:
        flags = code_flags(unit.configuration)
        key = (target, flags, stage)
        if key not in self._steps:
            self._steps[key] = device_steps(self.tools.nvcc, target, flags,
                                            quick=stage is Stage.READ)
        return self._steps[key]

    def compile_all(self, jobs: Iterable[Job]) -> None:
        """Compile what neither this run nor the store knows."""
        todo: dict[str, Job] = {}
        for job in jobs:
            if job.key in self._done or job.key in todo:
                continue
            known = self.store.compiled(job.key)
            if known is not None:
                self._done[job.key] = known
            else:
                todo[job.key] = job
        # the longest first: the last one alone decides how long the others wait
        order = sorted(todo.values(), key=lambda job: -len(job.text))
        self._expect(len(order))
        futures = {self.farm.submit(job): job for job in order}
        try:
            for future in as_completed(futures):
                self._keep(_outcome(future, futures[future]))
                self._advance()
        except BaseException:
            for future in futures:
                future.cancel()
            end_all()
            raise

    def result(self, job: Job) -> Compiled:
        """What a job of an earlier ``compile_all`` made."""
        return self._done[job.key]

    def cached(self, job: Job) -> bool:
        """True when no compiler had to run for it."""
        return job.key not in self._fresh

    def each(self, work: Sequence[Callable[[], _T]]) -> list[_T]:
        """The results of short pieces of work that mostly wait for tools, in their order."""
        self._expect(len(work))
        with ThreadPoolExecutor(self.jobs) as pool:
            futures = [pool.submit(piece) for piece in work]
            try:
                for _ in as_completed(futures):
                    self._advance()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                end_all()
                raise
        return [future.result() for future in futures]

    def _keep(self, compiled: Compiled) -> None:
        self._done[compiled.key] = compiled
        self._fresh.add(compiled.key)
        if compiled.lasting:
            self.store.put(compiled.key, encode(compiled))

    def _expect(self, more: int) -> None:
        self._total += more
        self.progress(self._count, self._total)

    def _advance(self) -> None:
        self._count += 1
        self.progress(self._count, self._total)
