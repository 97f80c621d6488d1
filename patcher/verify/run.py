"""Verify units: what the compiler makes of them before and after a change, per target.

Per unit and target: preprocess both trees; equal texts need no compilation; else
compile the after (and the before, to show what changed) and the same unit for a
reference target, and judge the kernels. Equal jobs are run once, known ones never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path

from patcher.arch import Target
from patcher.cuda.model import TranslationUnit
from patcher.verify.commands import Steps, code_flags, device_steps
from patcher.verify.compile import Compiled, Job, compile_job, job_key
from patcher.verify.judge import KernelVerdict, Verdict, judge_kernels, unit_verdict
from patcher.verify.prepare import Preprocessed, Workshop
from patcher.verify.ptx import Function, Ptx, parse_ptx
from patcher.verify.store import Store


@dataclass(frozen=True, slots=True)
class Tools:
    """The compilers of one toolkit. ``identity`` is a hash over their bytes."""

    nvcc: Path
    ptxas: Path | None
    identity: str


@dataclass(frozen=True, slots=True)
class Side:
    """One unit on one target in one tree, as compiled."""

    ptx: Ptx
    error: str
    messages: str
    seconds: float
    cached: bool


@dataclass(frozen=True, slots=True)
class UnitResult:
    """The verdict for a unit and target with its reasons; counts are kernels."""

    unit: str
    arch: str
    verdict: Verdict
    reasons: tuple[str, ...]
    before: Side | None
    after: Side | None
    kernels: tuple[KernelVerdict, ...] = ()
    before_kernels: tuple[KernelVerdict, ...] = ()
    seconds: float = 0.0
    cached: bool = False


@dataclass
class Bench:
    """One verification: its tools, store, executor and effort."""

    tools: Tools
    store: Store
    executor: Executor
    quick: bool
    progress: Callable[[int, int], None] = lambda done, total: None
    _done: dict[str, Side] = field(default_factory=dict)
    _steps: dict[tuple[Target, tuple[str, ...]], Steps] = field(default_factory=dict)

    def steps(self, target: Target, flags: tuple[str, ...]) -> Steps:
        """nvcc's cicc step for a target, asked once."""
        key = (target, flags)
        if key not in self._steps:
            self._steps[key] = device_steps(self.tools.nvcc, target, flags, quick=self.quick)
        return self._steps[key]

    def compile_all(self, jobs: Iterable[Job]) -> None:
        """Compile what neither this run nor the store knows."""
        todo: dict[str, Job] = {}
        for job in jobs:
            if job.key in self._done or job.key in todo:
                continue
            known = self.store.get(job.key)
            if known is not None:
                self._done[job.key] = _side_from_json(known)
            else:
                todo[job.key] = job
        futures = [self.executor.submit(compile_job, job) for job in todo.values()]
        try:
            for count, future in enumerate(as_completed(futures), 1):
                self._keep(future.result())
                self.progress(count, len(futures))
        except BaseException:
            for future in futures:
                future.cancel()
            raise

    def side(self, key: str) -> Side:
        return self._done[key]

    def _keep(self, compiled: Compiled) -> None:
        side = Side(parse_ptx(compiled.ptx), compiled.error, compiled.messages,
                    compiled.seconds, cached=False)
        self._done[compiled.key] = side
        if not compiled.error.startswith("cannot run"):
            self.store.put(compiled.key, _side_to_json(side))


@dataclass(frozen=True, slots=True)
class Pair:
    """A unit as it is built before and after; a flag's patch changes only its configuration."""

    before: TranslationUnit
    after: TranslationUnit

    @property
    def path(self) -> str:
        return self.after.path


@dataclass(frozen=True, slots=True)
class _Pass:
    """One (unit, target) in both trees, preprocessed, with its job keys."""

    unit: Pair
    target: Target
    before: Preprocessed
    after: Preprocessed
    jobs: Mapping[str, Job]  # "before", "after"


def verify_units(
    bench: Bench,
    units: Sequence[Pair],
    before: Workshop,
    after: Workshop,
    targets: Sequence[Target],
    references: Sequence[Target],
) -> list[UnitResult]:
    """Judge every unit for every target; references are compiled from the after tree."""
    passes = [_prepare(bench, unit, target, before, after) for unit in units for target in targets]
    anchors = {
        unit: [_prepare(bench, unit, target, before, after) for target in references]
        for unit in units
    }
    jobs = [job for p in passes for job in p.jobs.values()]
    jobs += [p.jobs["after"] for group in anchors.values() for p in group if "after" in p.jobs]
    bench.compile_all(jobs)
    return [_judge(bench, p, anchors[p.unit]) for p in passes]


def _prepare(
    bench: Bench, unit: Pair, target: Target, before: Workshop, after: Workshop
) -> _Pass:
    old = before.preprocess(unit.before, target)
    new = after.preprocess(unit.after, target)
    jobs = {}
    if not old.error:
        jobs["before"] = _job(bench, unit.before, target, old)
    if not new.error:
        jobs["after"] = _job(bench, unit.after, target, new)
    return _Pass(unit, target, old, new, jobs)


def _job(
    bench: Bench, unit: TranslationUnit, target: Target, side: Preprocessed
) -> Job:
    steps = bench.steps(target, code_flags(unit.configuration))
    ptxas = str(bench.tools.ptxas) if bench.tools.ptxas else None
    key = job_key(side.text, steps, ptxas, bench.tools.identity)
    return Job(key, target.name, side.text, steps, ptxas, bench.quick)


def _judge(bench: Bench, this: _Pass, anchors: Sequence[_Pass]) -> UnitResult:
    unit, arch = this.unit.path, this.target.name
    old = bench.side(this.jobs["before"].key) if "before" in this.jobs else None
    if this.after.error:
        return UnitResult(unit, arch, Verdict.FAILED, (this.after.error,), old, None)
    new = bench.side(this.jobs["after"].key)
    if new.error:
        return UnitResult(unit, arch, Verdict.FAILED, (new.error,), old, new)
    references = {
        p.target.name: bench.side(p.jobs["after"].key).ptx
        for p in anchors
        if p.target != this.target
        and "after" in p.jobs
        and not bench.side(p.jobs["after"].key).error
    }
    kernels = tuple(judge_kernels(new.ptx, references))
    earlier = tuple(judge_kernels(old.ptx, references)) if old and not old.error else ()
    verdict = unit_verdict(kernels)
    if verdict is Verdict.OK and this.before == this.after:
        verdict = Verdict.UNCHANGED
    return UnitResult(unit, arch, verdict, summarise(kernels), old, new, kernels, earlier,
                      new.seconds, new.cached)


def summarise(kernels: Sequence[KernelVerdict]) -> tuple[str, ...]:
    """One line per distinct reason, with the count and one kernel as example."""
    by_reason: dict[str, list[str]] = {}
    for kernel in kernels:
        if kernel.verdict is Verdict.HOLLOW:
            by_reason.setdefault(kernel.reason, []).append(kernel.name)
    return tuple(
        f"{len(names)} of {len(kernels)} kernels: {reason}, e.g. {names[0]}"
        for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1]))
    )


def _side_to_json(side: Side) -> dict[str, object]:
    return {
        "error": side.error,
        "messages": side.messages,
        "seconds": side.seconds,
        "functions": [
            {**asdict(f), "opcodes": dict(f.opcodes), "calls": sorted(f.calls),
             "texts": sorted(f.texts)}
            for f in side.ptx.functions.values()
        ],
    }


def _side_from_json(data: Mapping[str, object]) -> Side:
    rows = data["functions"]
    assert isinstance(rows, list)
    functions = {
        row["name"]: Function(row["name"], row["entry"], row["opcodes"], frozenset(row["calls"]),
                              frozenset(row["texts"]), row["effects"])
        for row in rows
    }
    return Side(Ptx(functions), str(data["error"]), str(data["messages"]), 0.0, cached=True)
