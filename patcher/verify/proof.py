"""From a plan to verdicts: choose units and targets, lay out both trees, compile, judge."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path

from patcher.arch import Target, target
from patcher.errors import UsageError
from patcher.package.model import Package
from patcher.plan import Plan, Subject, Subjects
from patcher.preview import package_changes
from patcher.verify.executors import open_executor
from patcher.verify.expect import check_expectations
from patcher.verify.prepare import Workshop
from patcher.verify.run import Bench, Pair, UnitResult, verify_units
from patcher.verify.shadow import build_shadow
from patcher.verify.store import Store
from patcher.verify.subjects import pairs, trees
from patcher.verify.tools import find_tools


@dataclass(frozen=True, slots=True)
class Options:
    """What to compile and where. ``only`` are endings of unit paths, empty for all concerned.

    ``quick`` compiles unoptimised code for the user's target and the first
    reference; otherwise all targets of the patchset, and ptxas tries the result.
    """

    quick: bool
    references: tuple[Target, ...]
    only: tuple[str, ...] = ()
    executor: str = "local"
    scheduler: str | None = None
    jobs: int | None = None
    progress: Callable[[int, int], None] = lambda done, total: None


def prove(plan: Plan, subjects: Subjects, options: Options) -> tuple[list[UnitResult], str]:
    """The verdicts for all units a plan concerns, and the name of the toolkit that gave them.

    Raises ToolFailed when there is no nvcc that knows the targets.
    """
    changes = package_changes(plan, subjects)
    results: list[UnitResult] = []
    label = ""
    for name in plan.packages:
        subject = subjects(name)
        if subject.profile is None or subject.toolkit is None:
            continue
        label = f"CUDA {subject.toolkit.version}"
        before, after = trees(subject, changes.get(name, ()))
        chosen = _chosen(pairs(subject, before, after, plan), plan, options)
        if chosen:
            targets = _targets(plan, subject, options)
            results += _prove_package(subject, before, after, chosen, targets, options)
    blocks = [block for item in plan.patchsets for group in item.groups if group.selected
              for block in group.group.verify]
    return check_expectations(results, blocks), label


def prove_package(subject: Subject, module: str, options: Options) -> tuple[list[UnitResult], str]:
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
    chosen = [Pair(u, u) for u in mine if not options.only or u.path.endswith(options.only)]
    targets = list(subject.find_target()) or [target("sm_120a")]
    results = _prove_package(subject, package, package, chosen, targets, options)
    return results, f"CUDA {subject.toolkit.version}"


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


def _prove_package(subject: Subject, before: Package, after: Package, chosen: Sequence[Pair],
                   targets: Sequence[Target], options: Options) -> list[UnitResult]:
    assert subject.profile is not None
    assert subject.toolkit is not None
    references = options.references[-1:] if options.quick else options.references
    tools = find_tools(subject.toolkit, [*targets, *references], assemble=not options.quick)
    with tempfile.TemporaryDirectory(prefix="sm-patch-") as scratch, open_executor(
        options.executor, jobs=options.jobs, scheduler=options.scheduler
    ) as executor:
        shops = []
        for label, package in (("before", before), ("after", after)):
            tree = subject.profile.tree(package, subject.toolkit)
            root = Path(scratch) / label
            build_shadow(tree, (package.import_name, "@generated"), root)
            shops.append(Workshop(root, tools.nvcc))
        bench = Bench(tools, Store(), executor, options.quick, options.progress)
        return verify_units(bench, chosen, shops[0], shops[1], targets, references)
