"""Where jobs run: a local pool sized by cores and memory, or a Dask cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from patcher.errors import UsageError

# cicc on the largest units of FlashInfer 0.6.3 was measured below 2.5 GB resident
BYTES_PER_JOB = 5 << 29


def local_workers(jobs: int | None = None) -> int:
    """How many compilations fit: by cores this process may use, and by free memory."""
    cores = jobs or len(os.sched_getaffinity(0))
    return max(1, min(cores, available_memory() // BYTES_PER_JOB))


def available_memory() -> int:
    """Bytes that can be used without swapping (MemAvailable; 4 GiB when not told)."""
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    return 4 << 30


@contextmanager
def open_executor(kind: str, *, jobs: int | None, scheduler: str | None) -> Iterator[Executor]:
    """An executor by name, closed at the end; nothing keeps running after an interrupt.

    ``kind`` is ``local`` or ``dask``; Dask without a scheduler address starts a
    cluster on this machine. Raises UsageError when Dask is not installed.
    """
    if kind == "local":
        # threads: the work happens in compiler processes, each in a session of its own
        with ThreadPoolExecutor(local_workers(jobs)) as pool:
            try:
                yield pool
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError(
            "Dask is not installed here", next_step="pip install 'sm-patch[farm]'"
        ) from error
    address = scheduler or None
    options = {} if address else {"n_workers": local_workers(jobs), "threads_per_worker": 1}
    with Client(address, **options) as client:
        yield client.get_executor(pure=False)
