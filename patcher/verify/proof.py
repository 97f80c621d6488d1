"""From a plan to verdicts: choose units and targets, lay out the trees, compile, judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path

from patcher.arch import EMPTY, ArchSet, Target, target
from patcher.errors import UsageError
from patcher.package.model import Package
from patcher.plan import Plan, Subject, Subjects
from patcher.preview import package_changes
from patcher.scratch import scratch
from patcher.tree import Tree
from patcher.verify.bench import Bench
from patcher.verify.execute import interruptible
from patcher.verify.executors import open_farm
from patcher.verify.expect import check_expectations
from patcher.verify.prepare import Workshop
from patcher.verify.result import Pair, UnitResult
from patcher.verify.run import Goals, Shops, verify_unit
from patcher.verify.shadow import build_shadow
from patcher.verify.store import Store
from patcher.verify.subjects import asked_tree, pairs, trees
from patcher.verify.tools import buildable, find_tools


@dataclass(frozen=True, slots=True)
class Options:
    """What to compile and where. ``only`` are endings of unit paths, empty for all concerned.

    ``quick`` compiles unoptimised code for the user's target, and compares the
    references and the host pass; otherwise all targets of the patchset, optimised
    code and ptxas too, and every other target is compared. ``launcher`` is
    an sccache to start the compilers with.
    """

    quick: bool
    references: tuple[Target, ...]
    only: tuple[str, ...] = ()
    executor: str = "local"
    scheduler: str | None = None
    jobs: int = 1
    progress: Callable[[int, int], None] = lambda done, total: None
    store: Store | None = None
    launcher: str | None = None


def prove(plan: Plan, subjects: Subjects, options: Options,
          outside: set[str]) -> list[UnitResult]:
    """The verdicts for all units a plan concerns; ``outside`` gets the files they came from
    that are not the package's.

    Raises ToolFailed when there is no nvcc that knows the targets.
    """
    changes = package_changes(plan, subjects)
    results: list[UnitResult] = []
    for name in plan.packages:
        subject = subjects(name)
        if subject.profile is None or subject.toolkit is None:
            continue
        before, after = trees(subject, changes.get(name, ()))
        chosen = _chosen(pairs(subject, before, after, plan), plan, options)
        if chosen:
            asked, worlds = asked_tree(subject, plan)
            work = _Work(subject, options, outside, before, after, asked, worlds)
            results += work.run(chosen, _targets(plan, subject, options))
    blocks = [block for item in plan.patchsets for group in item.groups if group.selected
              for block in group.group.verify]
    return check_expectations(results, blocks)


def prove_package(subject: Subject, module: str, options: Options,
                  outside: set[str]) -> list[UnitResult]:
    """The verdicts for the units of one module (all modules when empty) as they are on disk.

    Raises UsageError when there is no such module, ToolFailed without a usable nvcc.
    """
    assert subject.profile is not None
    assert subject.toolkit is not None
    package = subject.package
    units = subject.profile.translation_units(package, subject.toolkit)
    mine = [u for u in units if not module or any(fnmatch(module, m) for m in u.modules)]
    if not mine:
        known = sorted({name for unit in units for name in unit.modules})
        raise UsageError(f"{package.name} has no module {module!r} with CUDA units",
                         next_step="modules: " + " ".join(get_close_matches(module, known, 8)
                                                          or known[:20]))
    chosen = [Pair(u, u, opened=True) for u in mine
              if not options.only or u.path.endswith(options.only)]
    targets = list(subject.find_target()) or [target("sm_120a")]
    return _Work(subject, options, outside, package, package).run(chosen, targets)


def _chosen(concerned: Sequence[Pair], plan: Plan, options: Options) -> list[Pair]:
    """Those asked for; else for a quick look those the patchset itself names, if it names any."""
    if options.only:
        return [p for p in concerned if p.path.endswith(options.only)]
    named = {
        str(block.unit)
        for item in plan.patchsets for group in item.groups if group.selected
        for block in group.group.verify
    }
    chosen = [p for p in concerned if p.path in named]
    return chosen if options.quick and chosen else list(concerned)


def _targets(plan: Plan, subject: Subject, options: Options) -> list[Target]:
    """The user's own target; for full effort every target that the patchsets name."""
    mine = list(subject.find_target()) or [target("sm_120a")]
    if options.quick:
        return mine
    named = [t for item in plan.patchsets for t in item.patchset.archs]
    return list(dict.fromkeys([*mine, *named]))


@dataclass(frozen=True, slots=True)
class _Work:
    """One package's trees; ``asked`` holds only the patches that may change ``worlds`` alone."""

    subject: Subject
    options: Options
    outside: set[str]
    before: Package
    after: Package
    asked: Tree | None = None
    worlds: ArchSet = EMPTY

    def run(self, chosen: Sequence[Pair], targets: Sequence[Target]) -> list[UnitResult]:
        toolkit, options = self.subject.toolkit, self.options
        assert toolkit is not None
        tools = find_tools(toolkit, [*targets, *options.references])
        known = buildable(toolkit)
        others = options.references if options.quick else known
        goals = Goals(targets, options.references, [t for t in others if t not in self.worlds],
                      known, not options.quick)
        with interruptible(), scratch() as folder, open_farm(
            options.executor, tools.compilers, jobs=options.jobs, scheduler=options.scheduler,
            launcher=options.launcher,
        ) as farm:
            shops = self._shops(folder, tools.nvcc)
            bench = Bench(tools, options.store or Store(), farm, options.jobs, options.progress)
            results = [replace(result, files=tuple(sorted(shops.after.inside.get(pair.path, ()))))
                       for pair in chosen for result in verify_unit(bench, pair, shops, goals)]
            for shop in (shops.before, shops.after, shops.asked):
                self.outside.update(shop.outside if shop else ())
            return results

    def _shops(self, folder: Path, nvcc: Path) -> Shops:
        before = self._shop(self.before, folder / "before", nvcc)
        after = before if self.after is self.before \
            else self._shop(self.after, folder / "after", nvcc)
        if self.asked is None:
            return Shops(before, after)
        only = replace(self.before, tree=self.asked)
        return Shops(before, after, self._shop(only, folder / "asked", nvcc))

    def _shop(self, package: Package, root: Path, nvcc: Path) -> Workshop:
        assert self.subject.profile is not None
        assert self.subject.toolkit is not None
        tree = self.subject.profile.tree(package, self.subject.toolkit)
        build_shadow(tree, (package.top, "@generated"), root)
        return Workshop(root, nvcc)
