"""Where jobs run: threads here, bounded by cores and memory, or a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

from patcher.errors import ToolFailed, UsageError
from patcher.scratch import scratch
from patcher.verify.bench import Farm
from patcher.verify.compile import Compiled, Compilers, Job, compile_job
from patcher.verify.execute import end_all, working_for
from patcher.verify.launcher import open_launcher
from patcher.verify.memory import MemoryGate, free_memory

_DASK_RETRIES = 3


class LocalFarm:
    """Threads that wait for compilers; as many as there are cores, as memory allows."""

    def __init__(self, pool: ThreadPoolExecutor, compilers: Compilers, memory: int,
                 launcher: tuple[str, ...] = ()) -> None:
        self._pool = pool
        self._compilers = compilers
        self._launcher = launcher
        self._gate = MemoryGate(memory)

    def submit(self, job: Job) -> Future[Compiled]:
        return self._pool.submit(self._run, job)

    def close(self) -> None:
        """Begin nothing more."""
        self._gate.close()

    def _run(self, job: Job) -> Compiled:
        self._gate.enter(job.memory)
        try:
            return compile_job(job, self._compilers, self._launcher)
        finally:
            self._gate.leave(job.memory)


class DaskFarm:
    """A Dask cluster: the text travels, each worker brings its own compilers."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._executor = client.get_executor(pure=False, retries=_DASK_RETRIES)
        self._name = uuid4().hex  # others may use the same workers
        self._jobs = 0

    def submit(self, job: Job) -> Future[Compiled]:
        self._jobs += 1
        owner = f"{self._name}-{self._jobs}"
        future: Future[Compiled] = self._executor.submit(_compile_for, owner, job)
        return future

    def close(self) -> None:
        """Begin nothing more, and end what the workers run for us."""
        self._executor.shutdown(wait=False)
        with suppress(Exception):  # the cluster may be gone
            self._client.run(end_all, [f"{self._name}-{n + 1}" for n in range(self._jobs)])


def _compile_for(owner: str, job: Job) -> Compiled:
    with working_for(owner):
        return compile_anywhere(job)


def compile_anywhere(job: Job) -> Compiled:
    """Compile on a worker with the compilers found there.

    Raises ToolFailed when none of them are the ones the job was made for: another
    release gives other code, and the verdict would depend on where a job ran.
    """
    from patcher.toolchain.find import find_toolkits
    from patcher.verify.tools import find_tools

    seen = []
    for toolkit in find_toolkits():
        try:
            tools = find_tools(toolkit, ())
        except ToolFailed:
            continue
        if tools.compilers.identity == job.compilers:
            return compile_job(job, tools.compilers)
        seen.append(toolkit.tool or toolkit.version)
    raise ToolFailed(
        f"this worker has {', '.join(f'CUDA {v}' for v in seen) or 'no CUDA compiler'}, not the "
        "very one the job was prepared with", where=os.uname().nodename,
        next_step="install the same release on all workers")


@contextmanager
def open_farm(kind: str, compilers: Compilers, *, jobs: int, scheduler: str | None,
              launcher: str | None = None) -> Iterator[Farm]:
    """A farm by name, closed at the end; nothing keeps running after an interrupt.

    ``kind`` is ``local`` or ``dask``; Dask without a scheduler's address starts a
    cluster on this machine. ``launcher`` is an sccache to start the compilers
    of this machine with. Raises UsageError when Dask is not installed or the
    scheduler does not answer.
    """
    if kind == "dask":
        with _dask(jobs, scheduler) as farm:
            yield farm
        return
    with open_launcher(launcher) as words, ThreadPoolExecutor(jobs) as pool:
        farm = LocalFarm(pool, compilers, free_memory() * 3 // 4, words)
        try:
            yield farm
        except BaseException:
            farm.close()
            pool.shutdown(wait=False, cancel_futures=True)
            end_all()
            raise


@contextmanager
def _dask(jobs: int, scheduler: str | None) -> Iterator[Farm]:
    try:
        import dask
        from distributed import Client
    except ImportError as error:
        raise UsageError("Dask is not installed here",
                         next_step="pip install 'sm-patch[farm]'") from error
    with scratch() as folder:
        options: dict[str, Any] = {"timeout": 20} if scheduler else {
            "n_workers": jobs, "threads_per_worker": 1, "dashboard_address": None}
        try:
            with dask.config.set({"temporary-directory": str(folder)}):
                client: Any = Client(scheduler, **options)  # type: ignore[no-untyped-call]
        except (OSError, TimeoutError) as error:
            raise UsageError(f"no Dask scheduler answers at {scheduler}",
                             next_step="start one with `dask scheduler`") from error
        with client:
            farm = DaskFarm(client)
            try:
                yield farm
            except BaseException:
                farm.close()
                raise
