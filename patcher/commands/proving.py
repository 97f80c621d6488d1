"""The work of ``verify``: an answer of before when nothing that decides it has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patcher.arch import target
from patcher.commands.options import Settings
from patcher.commands.planning import Planner, requests
from patcher.engine.codec import to_json
from patcher.errors import Refused, UsageError
from patcher.journal import Journal
from patcher.package.environment import find_environment
from patcher.patchset.load import is_patchset
from patcher.plan import Plan, Request
from patcher.preview import package_changes
from patcher.report.progress import progress
from patcher.session import reading
from patcher.state import find_home
from patcher.tree import ChangedTree
from patcher.verify.judge import Verdict
from patcher.verify.launcher import find_launcher
from patcher.verify.proof import Options, prove, prove_package
from patcher.verify.remember import keep, key, package_digest, recall
from patcher.verify.result import as_row
from patcher.verify.shipped import proofs_of, write_proofs
from patcher.verify.store import Store
from patcher.verify.tools import find_tools


@dataclass(frozen=True)
class Proof:
    """What the compiler said: one row per unit and target, as in the contract's JSON."""

    rows: tuple[dict[str, Any], ...]
    effort: str
    toolkit: str  # "CUDA 13.0"
    applied: bool = False  # every group that was asked for is in the journal

    @property
    def proven(self) -> bool:
        """False when a kernel is hollow or a unit failed."""
        bad = (Verdict.HOLLOW.value, Verdict.FAILED.value)
        return not any(row["verdict"] in bad for row in self.rows)


def proved(settings: Settings, names: Sequence[str], *, effort: str = "quick",
           units: Sequence[str] = (), executor: str = "local", scheduler: str | None = None,
           write_proof: Path | None = None, launch: bool = False) -> Proof:
    """Compile before and after; ``launch`` lets sccache start the compilers, where it is installed.

    Raises ToolFailed without nvcc, Refused for what cannot be applied.
    """
    # a proof is shipped to people who never heard of this cache; other machines have their own
    launcher = find_launcher() if launch and executor == "local" and not write_proof else None
    environment = find_environment(settings.python, settings.root)
    home = find_home(prefix=environment.prefix, root=environment.root, state=settings.state)
    planner = Planner(settings, environment, reading(home).view)
    with progress("compiling") as shown:
        options = Options(effort == "quick", tuple(map(target, settings.reference)), tuple(units),
                          executor, scheduler, settings.jobs, shown,
                          Store(launched=launcher is not None), launcher)
        asked = Asked(planner, home.journal(), options)
        rows = asked.answer(names, settings.group)
        if write_proof:
            count = asked.write_proofs(names, settings.group, write_proof)
            planner.notes.append(f"{count} proofs are in {write_proof}")
    for note in dict.fromkeys(planner.notes):
        settings.tell(note)
    return Proof(tuple(rows), effort, f"CUDA {planner.toolkit.version}",
                 asked.applied(names, settings.group))


@dataclass(frozen=True, slots=True)
class Asked:
    """One invocation: where, how hard, and what is applied there."""

    planner: Planner
    journal: Journal
    options: Options

    def answer(self, names: Sequence[str], groups: Sequence[str]) -> list[dict[str, Any]]:
        """The contract's rows for patchsets, or for modules of packages as they are on disk.

        Raises ToolFailed without an nvcc that knows the targets, UsageError for unknown names.
        """
        store, outside = self.options.store or Store(), set[str]()
        wanted = requests(names, groups) if all(map(is_patchset, names)) else []
        place = self._place(names, wanted)
        if (known := recall(store, place)) is not None:
            return known
        if wanted:
            plan = self.planner.plan(wanted)
            _refuse(plan)
            results = prove(plan, self.planner, self.options, outside)
        else:
            results = []
            for name in names:
                package, _, module = name.partition(":")
                results += prove_package(self.planner(package), module, self.options, outside)
        rows = [as_row(result) for result in results]
        if all(result.lasting for result in results):
            keep(store, place, rows, outside)
        return rows

    def write_proofs(self, names: Sequence[str], groups: Sequence[str], path: Path) -> int:
        """Write what ``answer`` proves of one patchset, and count it.

        Raises UsageError when there is not exactly one patchset of one package.
        """
        wanted = requests(names, groups) if all(map(is_patchset, names)) else []
        if len(wanted) != 1 or len(_packages(wanted)) != 1:
            raise UsageError("a proof is of one patchset and one package",
                             next_step="name one patchset, and groups with --group")
        rows = self.answer(names, groups)
        plan = self.planner.plan(wanted)
        subject = self.planner(plan.packages[0])
        changes = package_changes(plan, self.planner).get(subject.package.name, ())
        chosen = [group.id for group in plan.patchsets[0].groups if group.selected]
        tools = find_tools(self.planner.toolkit, ())
        found = proofs_of(
            rows, ChangedTree(subject.package.tree, changes),
            sorted({change.path for change in changes}), chosen,
            package=f"{subject.package.name} {subject.package.version}",
            effort="quick" if self.options.quick else "full", cuda=self.planner.toolkit.tool,
            compilers=tools.compilers.identity)
        write_proofs(path, found)
        return len(found)

    def applied(self, names: Sequence[str], groups: Sequence[str]) -> bool:
        """Whether there is nothing left to apply of these patchsets."""
        wanted = requests(names, groups) if all(map(is_patchset, names)) else []
        return all(applied is not None
                   and set(request.groups or request.patchset.default_groups) <= set(applied.groups)
                   for request in wanted
                   for applied in [self.journal.patchsets.get(request.patchset.name)])

    def _place(self, names: Sequence[str], wanted: Sequence[Request]) -> str:
        """The key of the answer: everything that is known before any work is done."""
        toolkit, options = self.planner.toolkit, self.options
        packages = _packages(wanted) if wanted else {name.partition(":")[0] for name in names}
        subjects = [self.planner(name) for name in sorted(packages)]
        return key({
            "names": [] if wanted else list(names),
            "patchsets": [[r.patchset.digest, sorted(r.groups)] for r in wanted],
            "packages": [[package_digest(s.package), s.find_target().names] for s in subjects],
            "journal": to_json(self.journal),
            "quick": options.quick, "units": list(options.only),
            "references": [target.name for target in options.references],
            "compilers": find_tools(toolkit, ()).compilers.identity, "nvcc": toolkit.tool,
            "host": [toolkit.host.version, toolkit.platform],
        })


def _packages(wanted: Sequence[Request]) -> set[str]:
    """Every package that a request may look at."""
    found = set()
    for request in wanted:
        for group in request.patchset.groups:
            patches = [*group.patches, *(p for v in group.variants for p in v.patches)]
            chosen = not request.groups or group.id in request.groups
            found |= {request.patchset.package_of(group, p) for p in patches if chosen}
    return found


def _refuse(plan: Plan) -> None:
    """What would not be applied cannot be proved."""
    for group in plan.refused:
        needs = "".join(f"; needs {text}" for text in group.group.needs)
        raise Refused(f"group {group.id} would not be applied here: {group.outcome.value}: "
                      f"{group.reason}{needs}", next_step="name other groups with --group")
