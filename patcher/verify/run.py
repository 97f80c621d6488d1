"""Verify units: what the compiler makes of them before and after a change, per target.

Per unit and target: preprocess both trees, compile unoptimised code of both and of
the same unit for reference targets, and judge the kernels. What only optimised code
can tell is asked where it matters, or everywhere for full effort. For all other
targets the preprocessed text must be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from patcher.arch import Target
from patcher.instructions import shared_memory_limit
from patcher.verify.bench import Bench
from patcher.verify.compile import Job, Stage
from patcher.verify.doubt import doubts, empty_everywhere
from patcher.verify.judge import (
    UNSUPPORTED,
    Built,
    KernelVerdict,
    Verdict,
    has_matrix_code,
    judge_kernels,
    unit_verdict,
)
from patcher.verify.kernels import Code
from patcher.verify.prepare import Preprocessed, Workshop
from patcher.verify.result import Elsewhere, Pair, Reason, Side, UnitResult, reasons_of


@dataclass(frozen=True, slots=True)
class Shops:
    """The trees: as it is, after all changes, and after only those that claim to leave other
    targets alone (None when no change claims it)."""

    before: Workshop
    after: Workshop
    asked: Workshop | None = None


@dataclass(frozen=True, slots=True)
class Goals:
    """For whom to judge and against whom. ``others`` must not change, and then the host
    pass neither; ``buildable`` are all that the toolkit knows."""

    targets: Sequence[Target]
    references: Sequence[Target]
    others: Sequence[Target]
    buildable: Sequence[Target]
    full: bool


@dataclass(frozen=True, slots=True)
class _Pass:
    """One target's device pass of a unit in both trees, with the jobs that read its code."""

    target: Target
    before: Preprocessed
    after: Preprocessed
    old: Job | None
    new: Job | None

    @property
    def changed(self) -> bool:
        return self.old is None or self.new is None or self.old.key != self.new.key


def verify_unit(bench: Bench, pair: Pair, shops: Shops, goals: Goals) -> list[UnitResult]:
    """Judge one unit for every target of the goals."""
    shops.before.place(pair.before)
    shops.after.place(pair.after)
    if shops.asked:
        shops.asked.place(pair.before)
    work = _Unit(bench, pair, shops, goals)
    elsewhere = work.compare()
    passes = work.prepare(goals.targets)
    if goals.full or pair.opened or any(this.changed for this in passes.values()):
        passes |= work.prepare([t for t in goals.references if t not in passes])
        work.read(passes)
        results = [work.judge(passes[target], passes) for target in goals.targets]
    else:
        results = [work.untouched(target) for target in goals.targets]
    return [_with_elsewhere(result, elsewhere) for result in results]


def _with_elsewhere(result: UnitResult, elsewhere: Elsewhere) -> UnitResult:
    result = replace(result, elsewhere=elsewhere)
    if not elsewhere.different:
        return result
    reason = Reason("code of targets that were not asked for changes: "
                    + " ".join(elsewhere.different))
    return replace(result, verdict=Verdict.FAILED, reasons=(reason, *result.reasons))


@dataclass(frozen=True, slots=True)
class _Unit:
    bench: Bench
    pair: Pair
    shops: Shops
    goals: Goals

    def compare(self) -> Elsewhere:
        """Compare the other targets' preprocessed text and the host pass's."""
        asked, others = self.shops.asked, self.goals.others
        if asked is None or not others:
            return Elsewhere()
        unit, before = self.pair.before, self.shops.before

        def same(target: Target) -> bool:
            return before.preprocess(unit, target).same_code(asked.preprocess(unit, target))

        def host() -> bool:
            mine = before.preprocess_host(unit, others[0])
            return mine.same_code(asked.preprocess_host(unit, others[0]))

        work: list[Callable[[], bool]] = [host]
        work += [lambda target=target: same(target) for target in others]  # type: ignore[misc]
        names = ["host", *(target.name for target in others)]
        equal = dict(zip(names, self.bench.each(work), strict=True))
        return Elsewhere(tuple(n for n in names if equal[n]),
                         tuple(n for n in names if not equal[n]))

    def prepare(self, targets: Sequence[Target]) -> dict[Target, _Pass]:
        """Preprocess both trees; only the after tree for what is a reference alone."""
        wanted = list(dict.fromkeys(targets))
        old = [t for t in wanted if t in self.goals.targets]
        work: list[Callable[[], Preprocessed]] = []
        for shop, unit, some in ((self.shops.after, self.pair.after, wanted),
                                 (self.shops.before, self.pair.before, old)):
            work += [lambda s=shop, u=unit, t=t: s.preprocess(u, t) for t in some]  # type: ignore[misc]
        texts = self.bench.each(work)
        after = dict(zip(wanted, texts, strict=False))
        before = dict(zip(old, texts[len(wanted):], strict=True))
        return {t: self._pass(t, before.get(t, after[t]), after[t]) for t in wanted}

    def _pass(self, target: Target, before: Preprocessed, after: Preprocessed) -> _Pass:
        def job(side: Preprocessed) -> Job | None:
            if side.error:
                return None
            unit = self.pair.after if side is after else self.pair.before
            return self.bench.job(unit, target, side, Stage.READ)

        return _Pass(target, before, after, job(before), job(after))

    def untouched(self, target: Target) -> UnitResult:
        """The change does not reach this unit, so its code need not be looked at."""
        return UnitResult(self.pair.path, target.name, Verdict.UNCHANGED, (), None, None)

    def read(self, passes: Mapping[Target, _Pass]) -> None:
        """Compile unoptimised code, of the before tree only for the targets themselves."""
        jobs = [p.new for p in passes.values()]
        jobs += [p.old for p in passes.values() if p.target in self.goals.targets]
        self.bench.compile_all(job for job in jobs if job is not None)

    def judge(self, this: _Pass, passes: Mapping[Target, _Pass]) -> UnitResult:
        """The verdict for one target."""
        references = self._references(this, passes)
        old = self._side(this.old, this.before.error, references)
        broken = this.after.error or self._broken_reference(this, passes)
        if broken or this.new is None:
            # what is missing may be installed later
            return UnitResult(self.pair.path, this.target.name, Verdict.FAILED,
                              (Reason(broken),), old, None, lasting=False)
        earlier = old.code if old and this.changed else None
        new = self._side(this.new, "", references, earlier)
        assert new is not None
        if new.lasting and (self.goals.full or new.error or _is_in_doubt(new, this.target)):
            new = self._build(this, new, references, earlier, passes)
        verdict = Verdict.FAILED if new.error else unit_verdict(new.kernels)
        reasons = (Reason(new.error),) if new.error else reasons_of(new.kernels)
        if verdict is not Verdict.OK:
            reasons += self._advice(this, references)
        elif not new.kernels:
            verdict = Verdict.UNCHANGED  # no kernel here and on no reference: nothing to prove
        else:
            reasons += doubts(new.code, references, self.shops.after.lines)
            if this.changed and old and _alike(old.code, new.code):
                reasons += (Reason("no kernel has other instructions than before the change"),)
            if not references and self.goals.references:
                reasons += (Reason("no reference target has code of this unit: it was judged by "
                                   "itself"),)
            if not this.changed and not self.pair.opened:
                verdict = Verdict.UNCHANGED
        result = self.bench.result(this.new)
        return UnitResult(self.pair.path, this.target.name, verdict, reasons, old, new,
                          seconds=result.seconds, cached=self.bench.cached(this.new),
                          lasting=new.lasting and (old is None or old.lasting))

    def _references(self, this: _Pass, passes: Mapping[Target, _Pass]) -> dict[str, Code]:
        found = {}
        for target in reversed(self.goals.references):
            job = passes[target].new
            if target != this.target and job is not None:
                compiled = self.bench.result(job)
                if compiled.code.kernels:
                    found[target.name] = compiled.code
        return found

    def _broken_reference(self, this: _Pass, passes: Mapping[Target, _Pass]) -> str:
        """Why a reference is not known that may well have code: without it all would look well."""
        for target in self.goals.references:
            if target == this.target:
                continue
            text, job = passes[target].after, passes[target].new
            compiled = self.bench.result(job) if job else None
            if not text.lasting or (compiled and not compiled.lasting):
                return f"the reference {target}: {compiled.error if compiled else text.error}"
        return ""

    def _side(self, job: Job | None, error: str, references: Mapping[str, Code],
              earlier: Code | None = None) -> Side | None:
        if job is None:
            return Side(error=error)
        compiled = self.bench.result(job)
        if compiled.error and not compiled.code.kernels:
            return Side(error=compiled.error, lasting=compiled.lasting)
        kernels = judge_kernels(compiled.code, references, earlier=earlier)
        kernels = empty_everywhere(kernels, compiled.code, references, self.shops.after.lines)
        return Side(compiled.code, compiled.error, tuple(kernels), lasting=compiled.lasting)

    def _build(self, this: _Pass, side: Side, references: Mapping[str, Code],
               earlier: Code | None, passes: Mapping[Target, _Pass]) -> Side:
        """Judge again with the optimised code, which knows what can never run."""
        job = self.bench.job(self.pair.after, this.target, this.after, Stage.BUILD)
        self.bench.compile_all([job])
        compiled = self.bench.result(job)
        if compiled.error:
            return replace(side, error=compiled.error, lasting=compiled.lasting)
        built = Built(compiled.code)
        if any(built.vanished(kernel) for kernel in side.code.kernels.values()):
            built = Built(compiled.code, self._built_references(passes)[1])
        code = side.code
        if side.error and not code.kernels:  # like is compared with like
            code, earlier = compiled.code, None
            references = self._built_references(passes, this.target)[0]
        kernels = tuple(empty_everywhere(judge_kernels(code, references, built, earlier), code,
                                         references, self.shops.after.lines))
        error = ""
        limit = shared_memory_limit(this.target)
        if limit is not None and compiled.resources.shared > limit:
            error = (f"a kernel takes {compiled.resources.shared} bytes of static shared memory, "
                     f"{this.target} has {limit}")
        return Side(code, error, kernels, compiled.resources)

    def _built_references(self, passes: Mapping[Target, _Pass], but: Target | None = None
                          ) -> tuple[dict[str, Code], Code | None]:
        """The references' optimised code, where there is any, and the first of it."""
        jobs = {target.name: self.bench.job(self.pair.after, target, passes[target].after,
                                            Stage.BUILD)
                for target in reversed(self.goals.references)
                if target != but and passes[target].new is not None}
        self.bench.compile_all(jobs.values())
        found = {name: code for name, job in jobs.items()
                 if (code := self.bench.result(job).code).kernels}
        return found, next(iter(found.values()), None)

    def _advice(self, this: _Pass, references: Mapping[str, Code]) -> tuple[Reason, ...]:
        """For a plain target: whether the same unit is real on its a and f variants."""
        if this.target.suffix:
            return ()
        twins = [t for t in self.goals.buildable
                 if t.number == this.target.number and t.suffix]
        passes = self.prepare(twins)
        self.read(passes)
        real = []
        for twin in twins:
            job = passes[twin].new
            compiled = self.bench.result(job) if job else None
            if compiled and not compiled.error:
                kernels = judge_kernels(compiled.code, references)
                if unit_verdict(kernels) is Verdict.OK:
                    real.append(twin.name)
        if not real:
            return ()
        return (Reason(f"needs an a or f target: the same unit is real on {', '.join(real)}"),)


def _alike(old: Code, new: Code) -> bool:
    """The same kernels with as many instructions of each kind: a macro, say, that none uses."""
    return old.kernels.keys() == new.kernels.keys() and all(
        old.kernels[name].opcodes == kernel.opcodes for name, kernel in new.kernels.items())


def _is_in_doubt(side: Side, target: Target) -> bool:
    """True for what optimised code may refute, or what ptxas has to confirm."""
    limit = shared_memory_limit(target)
    large = limit is not None and any(k.shared > limit for k in side.code.kernels.values())
    return large or any(_may_be_real(kernel, side.code) for kernel in side.kernels)


def _may_be_real(verdict: KernelVerdict, code: Code) -> bool:
    kernel = code.kernels.get(verdict.name)
    if verdict.verdict is not Verdict.HOLLOW or kernel is None:
        return False
    return (verdict.stub and has_matrix_code(kernel)) \
        or any(UNSUPPORTED.search(name) for name in kernel.externs)
