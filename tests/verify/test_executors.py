"""Jobs on threads and on a real Dask cluster: the same answers, also when a worker dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path

import pytest

from patcher.arch import target
from patcher.errors import ToolFailed, UsageError
from patcher.verify.commands import device_steps
from patcher.verify.compile import Compilers, Job, Stage, job_key
from patcher.verify.executors import compile_anywhere, open_farm
from patcher.verify.memory import MemoryGate
from patcher.verify.store import encode

pytestmark = pytest.mark.nvcc

SOURCE = """
template <int N> __global__ void k(int *p) {
  #pragma unroll 1
  for (int i = 0; i < N; i++) p[i] += i * N;
}
"""
COUNT = 6


@pytest.fixture
def jobs(nvcc: Path, compilers: Compilers, tmp_path: Path) -> list[Job]:
    """Several different units."""
    goal = target("sm_120a")
    steps = device_steps(nvcc, goal, (), quick=True)
    found = []
    for number in range(COUNT):
        unit = tmp_path / f"unit{number}.cu"
        unit.write_text(SOURCE + f"template __global__ void k<{number + 1}>(int *);\n")
        text = subprocess.run([nvcc, goal.gencode, "-E", unit], check=True, capture_output=True)
        key = job_key(text.stdout, steps, Stage.READ, compilers.identity)
        found.append(Job(key, goal.name, text.stdout, steps, Stage.READ, compilers.identity))
    return found


def _answers(kind: str, jobs: list[Job], compilers: Compilers) -> list[dict[str, object]]:
    with open_farm(kind, compilers, jobs=2, scheduler=None) as farm:
        return _timeless([f.result() for f in [farm.submit(job) for job in jobs]])


def _timeless(results: list) -> list[dict[str, object]]:  # type: ignore[type-arg]
    rows = [encode(result) for result in results]
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


@pytest.fixture(autouse=True)
def quiet_distributed(recwarn: pytest.WarningsRecorder) -> None:
    """Dask warns of its own shutdown races; they are not ours to fail for."""
    pytest.importorskip("distributed")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_dask_answers_as_threads_do(jobs: list[Job], compilers: Compilers) -> None:
    assert _answers("dask", jobs, compilers) == _answers("local", jobs, compilers)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_lost_worker_is_retried(jobs: list[Job], compilers: Compilers) -> None:
    from distributed import LocalCluster

    expected = _answers("local", jobs, compilers)
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster, open_farm("dask", compilers, jobs=2,
                            scheduler=cluster.scheduler_address) as farm:
        futures = [farm.submit(job) for job in jobs]
        futures[0].result()  # both workers have begun
        victim = next(iter(cluster.workers.values()))
        os.kill(victim.process.pid, signal.SIGKILL)
        found = _timeless([future.result(timeout=120) for future in futures])
    assert found == expected


def test_a_worker_with_other_compilers_refuses(jobs: list[Job]) -> None:
    job = jobs[0]
    foreign = Job(job.key, job.target, job.text, job.steps, job.stage, "another release")
    with pytest.raises(ToolFailed, match=r"this worker has CUDA .* not the very one"):
        compile_anywhere(foreign)


def test_no_scheduler_is_a_usage_error(compilers: Compilers) -> None:
    with pytest.raises(UsageError, match="no Dask scheduler answers"), \
            open_farm("dask", compilers, jobs=1, scheduler="tcp://127.0.0.1:1"):
        pass


def test_without_dask_the_extra_is_named(
    compilers: Compilers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)  # importing it fails
    with pytest.raises(UsageError, match="not installed") as caught, \
            open_farm("dask", compilers, jobs=1, scheduler=None):
        pass
    assert "sm-patch[farm]" in str(caught.value)


def test_the_gate_holds_back_what_does_not_fit() -> None:
    gate = MemoryGate(100)
    gate.enter(60)
    entered = threading.Event()

    def come() -> None:
        gate.enter(60)
        entered.set()

    waiting = threading.Thread(target=come)
    waiting.start()
    assert not entered.wait(0.1)
    gate.leave(60)
    assert entered.wait(5)
    waiting.join()


def test_what_never_fits_runs_alone() -> None:
    gate = MemoryGate(100)
    gate.enter(1000)  # returns
    gate.leave(1000)


def test_a_closed_gate_turns_all_away() -> None:
    gate = MemoryGate(100)
    gate.enter(100)
    outcome: list[str] = []

    def wait() -> None:
        try:
            gate.enter(10)
        except CancelledError:
            outcome.append("away")

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.05)
    gate.close()
    waiting.join(5)
    assert outcome == ["away"]
