"""Jobs on threads and on a real Dask cluster: the same answers, also when a worker dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError, Future
from pathlib import Path

import pytest

from patcher.arch import target
from patcher.errors import ToolFailed, UsageError
from patcher.verify.bench import Bench, Tools
from patcher.verify.commands import device_steps
from patcher.verify.compile import Compiled, Compilers, Job, Stage, compile_job, job_key
from patcher.verify.executors import compile_anywhere, open_farm
from patcher.verify.memory import MemoryGate
from patcher.verify.store import Store, encode

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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("effort", ["quick", "full"])
def test_the_documents_are_the_same_bytes_also_with_a_killed_worker(
    effort: str, toy: Path, tmp_path: Path
) -> None:
    from distributed import LocalCluster

    for number in range(COUNT):
        (toy / f"toy/csrc/more{number}.cu").write_text(
            '#include "body.cuh"\n' + SOURCE +
            f"template __global__ void k<{number + 1}>(int *);\n"
            f"__global__ void g{number}(int *p) {{ body<{number}>(p); }}\n")

    def start(cache: str, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "patcher", "verify", "toy", "--root", toy, "--arch", "sm_120a",
             "--effort", effort, "--format", "json", "--without-timing", *arguments],
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / cache)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    here = start("here")
    expected, _ = here.communicate(timeout=300)
    assert here.returncode == 1  # the toy is hollow as it is
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        away = start("away", "--executor", "dask", "--scheduler", cluster.scheduler_address)
        victim = next(iter(cluster.workers.values())).process.pid
        deadline = time.monotonic() + 120
        while not _children(victim):  # it compiles
            assert away.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(victim, signal.SIGKILL)
        found, messages = away.communicate(timeout=300)
    assert found == expected, messages.decode()
    assert away.returncode == 1


def _children(parent: int) -> list[int]:
    """The processes that a process has started itself."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(entry.name))
        except (OSError, ValueError, IndexError):
            continue
    return found


def test_a_job_that_is_lost_with_its_worker_fails_its_unit(
    jobs: list[Job], compilers: Compilers, store: Store
) -> None:
    """A farm that gives up on one job, as Dask does after its retries."""
    class KilledWorker(Exception):
        """What Dask raises after its retries; it cannot always be printed."""

        def __str__(self) -> str:
            raise AttributeError

    class Losing:
        def submit(self, job: Job) -> Future[Compiled]:
            future: Future[Compiled] = Future()
            if job is jobs[0]:
                future.set_exception(KilledWorker())
            else:
                future.set_result(compile_job(job, compilers))
            return future

    bench = Bench(Tools(Path("nvcc"), compilers), store, Losing())
    bench.compile_all(jobs[:2])
    lost, kept = map(bench.result, jobs[:2])
    assert lost.error.startswith("lost with its worker: KilledWorker")
    assert not lost.lasting
    assert store.compiled(jobs[0].key) is None  # another time it may go well
    assert not kept.error
    assert kept.code.kernels


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
