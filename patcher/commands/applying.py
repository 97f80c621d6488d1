"""The work of ``apply``: from requests to a committed transaction and its report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patcher.arch import Target as Arch
from patcher.caches.actions import CacheAction
from patcher.caches.aot import AotPolicy
from patcher.changes import Move
from patcher.commands.changing import Aftermath, Changing
from patcher.commands.options import Settings
from patcher.commands.planning import Planner, requests
from patcher.commands.proven import notes as proven_notes
from patcher.engine.asked import kept_aside, request_of
from patcher.engine.request import GroupName, Refusal, Staged
from patcher.engine.view import PackageView
from patcher.errors import Conflict, Exit, PackageNotFound, Refused, UsageError
from patcher.lockfile import Locked, LockedPatchset, read_patchsets, write_lock
from patcher.operations.base import Outcome
from patcher.package.model import Package
from patcher.plan import GroupPlan, Plan, Request, edits_by_path
from patcher.preflight import enforce
from patcher.preview import diff
from patcher.profiles import profile_for
from patcher.readiness import aot, findings
from patcher.report.change import applied
from patcher.report.plan import PackageRow, cautions, to_json
from patcher.session import Session
from patcher.transaction import NoCaches


@dataclass(frozen=True, slots=True)
class Options:
    """The switches of ``apply``; see its help."""

    check: bool = False
    keep_going: bool = False
    require_clean: bool = False
    aot: str | None = None
    no_cache: bool = False
    force: bool = False
    write_lock: str | None = None
    from_lock: str | None = None
    every: bool = False
    lock_timeout: float = 30.0

    @property
    def policy(self) -> AotPolicy | None:
        return AotPolicy(self.aot) if self.aot else None


def chosen(settings: Settings, names: Sequence[str], *, every: bool,
           from_lock: str | None) -> list[Request]:
    """The patchsets and groups meant; none with ``every``, whose meaning ``everything`` finds.

    Raises UsageError unless exactly one way to name them is used, Refused when
    a patchset is not the one that was locked.
    """
    if sum((bool(names), every, from_lock is not None)) != 1:
        raise UsageError("name patchsets, or use --all, or --from-lock FILE",
                         next_step="sm-patch patchsets lists the shipped ones")
    if from_lock is None:
        return requests(names, settings.group) if names else []
    found = []
    for row in read_patchsets(Path(from_lock)):
        (request,) = requests([row.source], row.groups)
        if request.patchset.digest != row.digest:
            raise Refused(f"this patchset has digest {request.patchset.digest[:12]}, the lock "
                          f"file has {row.digest[:12]}", where=row.source,
                          next_step="get the patchset that was locked")
        found.append(request)
    return found


@dataclass(frozen=True, slots=True)
class Applied:
    """What apply did, or with ``check`` would do.

    ``packages`` have their digests before and after; ``diff`` is what was written;
    ``after`` says by group whether it is in effect, which caches went, and who must restart.
    """

    plan: Plan
    packages: tuple[PackageRow, ...]
    diff: str
    changed: bool
    after: Aftermath
    check: bool = False

    @property
    def exit(self) -> Exit:
        """The exit code of ``sm-patch apply``."""
        if self.plan.refused:
            return Exit.REFUSED
        return Exit.CHECK_FAILED if self.check and self.changed else Exit.DONE

    def text(self) -> str:
        """For people: the answer first, the next command last."""
        after = self.after
        return "\n".join(applied(self.plan, self.packages, after.effective, after.caches,
                                 after.restart, changed=self.changed, check=self.check))

    def json(self) -> str:
        """The contract's document."""
        known = {name: state.value for name, (state, _) in self.after.effective.items()}
        return to_json(self.plan, self.packages, self.diff, changed=self.changed,
                       effective=known, restart=list(self.after.restart),
                       caches=[action.public() for action in self.after.caches])


class Application:
    """One run of ``apply``."""

    def __init__(self, settings: Settings, options: Options, wanted: list[Request]) -> None:
        self._settings = settings
        self._options = options
        self._wanted = wanted
        self._changing = Changing(settings)
        self._views: dict[str, PackageView] = {}
        self._said: list[CacheAction] = []

    def run(self) -> Applied:
        """Plan under the lock, and write. Raises Refused and its kin."""
        options = self._options
        with self._changing.session(check=options.check,
                                    timeout=options.lock_timeout) as session:
            planner = Planner(self._settings, self._changing.site.environment,
                              lambda package: self._view(session, package))
            plan, staged = self._staged(session, planner)
            text = diff(_without_refused(plan), planner)
            names = dict.fromkeys(planner(name).package.name for name in plan.packages)
            rows = self._changing.rows(session, staged, [planner.targets[n] for n in names])
            stopped = bool(plan.refused) and not options.keep_going
            if stopped:
                rows, text = [replace(row, after=row.before) for row in rows], ""
            else:
                self._preflight(planner, _without_refused(plan))
            listed = (options.check and self._settings.format == "text"
                      and self._settings.output is None)  # the text has them, too
            said = () if stopped or listed else tuple(cautions(plan))
            for note in dict.fromkeys((*planner.notes, *said, *proven_notes(plan, planner))):
                self._settings.tell(note)
            after = Aftermath({}, (), ())
            if not (options.check or stopped):
                after = self._write(session, plan, staged, rows)
        return Applied(plan, tuple(rows), text, bool(staged.steps) and not stopped, after,
                       options.check)

    def _view(self, session: Session, package: Package) -> PackageView:
        self._changing.site.adopt(package)
        return self._views.setdefault(package.name, session.view(package))

    def _plan(self, planner: Planner) -> Plan:
        """With ``--all`` only what fits: its package is there, in a version it was written for."""
        if not self._options.every:
            return planner.plan(self._wanted)
        plan = planner.plan([request for request in self._wanted
                             if self._is_here(request, planner)])
        unfit = {(item.patchset.name, group.id): group for item in plan.patchsets
                 for group in item.groups
                 if group.outcome in (Outcome.UNSUPPORTED, Outcome.MISSING)}
        for (patchset, name), group in unfit.items():
            if group.selected:
                self._settings.tell(f"left out: {patchset}/{name}: {group.reason}")
        return _mapped(plan, {name: replace(group, selected=False)
                              for name, group in unfit.items()})

    def _is_here(self, request: Request, planner: Planner) -> bool:
        patchset = request.patchset
        names = {patchset.package_of(part, patch) for group in patchset.groups
                 if group.id in patchset.default_groups
                 for part in (group, *group.parts) for patch in part.every_patch}
        try:
            for name in sorted(names or {patchset.package}):
                planner(name)
        except PackageNotFound:
            self._settings.tell(f"{patchset.name}: its package is not here")
            return False
        return True

    def _staged(self, session: Session, planner: Planner) -> tuple[Plan, Staged]:
        """The plan with the engine's obstacles in it, and the steps of what goes through."""
        plan = _with_dependents(self._plan(planner))
        coming = [patch for item in plan.patchsets for group in item.groups
                  if group.selected and group.writes for patch in group.patches]
        for name in plan.packages:
            self._changing.site.expect(planner(name).package.name, edits_by_path(coming, name))
        aside = self._aside(session, plan)

        def view_of(name: str) -> PackageView:
            return self._view(session, planner(name).package)

        request = request_of(plan, view_of, aside)
        request = replace(request, drops=request.drops | self._retired(session, plan))
        staged = session.stage(request, planner.targets)
        if staged.refusals:
            plan = _with_dependents(_with_refusals(plan, staged.refusals))
            lost = frozenset((item.patchset.name, group.id) for item in plan.patchsets
                             for group in item.groups if group.outcome.refused)
            staged = session.stage(request.without(lost), planner.targets)
        for warning in staged.warnings:
            if self._options.require_clean:
                raise Conflict(warning, next_step="undo that edit, or leave out --require-clean")
            self._settings.tell(f"warning: {warning}")
        return plan, staged

    def _retired(self, session: Session, plan: Plan) -> frozenset[GroupName]:
        """Applied groups that the release installed now does not need any more."""
        found = frozenset(
            (item.patchset.name, group.id) for item in plan.patchsets for group in item.groups
            if group.selected and group.outcome is Outcome.NOT_NEEDED
            and session.journal.owners(item.patchset.name, [group.id]))
        for patchset, group in sorted(found):
            self._settings.tell(f"retired: {patchset}/{group}: the installed version has it")
        return found

    def _aside(self, session: Session, plan: Plan
               ) -> dict[GroupName, tuple[str, tuple[Move, ...]]]:
        """Prebuilt modules to set aside now, and those that stay so."""
        site, found = self._changing.site, dict[GroupName, tuple[str, tuple[Move, ...]]]()
        for item in plan.patchsets:
            for group in item.groups:
                if not (group.selected and group.writes):
                    continue
                name = (item.patchset.name, group.id)
                earlier = kept_aside(session.home, session.journal, name)
                package, actions, moves = aot(group, site.installed, site.subject,
                                              self._options.policy)
                self._said += actions
                if moves:
                    found[name] = (package, moves)
                elif earlier is not None and self._options.policy is not AotPolicy.KEEP:
                    found[name] = earlier
        return found

    def _write(self, session: Session, plan: Plan, staged: Staged,
               rows: Iterable[PackageRow]) -> Aftermath:
        if self._options.from_lock:
            _check_locked(Path(self._options.from_lock), rows)
        handler = self._changing.handler(self._options.lock_timeout)
        session.commit(staged, NoCaches() if self._options.no_cache else handler)
        groups = [(item.patchset.name, group.id) for item in plan.patchsets
                  for group in item.groups if group.selected]
        if self._options.write_lock and not plan.refused:
            self._write_lock(staged)
        return self._changing.aftermath(staged.journal, groups, staged,
                                        [*handler.done, *self._said])

    def _preflight(self, planner: Planner, plan: Plan) -> None:
        """Raises PreflightRefused in a live environment; elsewhere it only warns."""
        site = self._changing.site

        def targets(name: str) -> tuple[Arch, ...]:
            package = planner(name).package
            return tuple(profile_for(package).resolve_target(d, package, site.toolkit).target
                         for d in self._settings.arch)

        found = findings(plan, site.installed, site.subject, targets, site.toolkit,
                         self._options.policy)
        enforce(found, live=self._changing.live, force=self._options.force)
        for finding in found:
            self._settings.tell(f"warning: {finding.module}: {finding.summary}")

    def _write_lock(self, staged: Staged) -> None:
        path = Path(str(self._options.write_lock))
        sources = {str(r.patchset.name): r.patchset.source for r in self._wanted}
        rows = [LockedPatchset.of(applied, path, sources.get(name, ""))
                for name, applied in staged.journal.patchsets.items()]
        packages = [Locked(name, subject.state.version, subject.state.digest)
                    for name in sorted(staged.journal.packages())
                    if (subject := self._changing.site.subject(name)) is not None]
        write_lock(path, packages, rows)


def _check_locked(path: Path, rows: Iterable[PackageRow]) -> None:
    from patcher.lockfile import read_lock

    locked = read_lock(path)
    for row in rows:
        wanted = locked.get(row.name)
        if wanted is not None and wanted.digest != row.after:
            raise Refused(f"{row.name} would get digest {row.after[:12]}, the lock file has "
                          f"{wanted.digest[:12]}", where=str(path),
                          next_step=f"install {row.name} {wanted.version}, unmodified")


def _mapped(plan: Plan, change: dict[GroupName, GroupPlan]) -> Plan:
    return replace(plan, patchsets=tuple(
        replace(item, groups=tuple(change.get((item.patchset.name, group.id), group)
                                   for group in item.groups)) for item in plan.patchsets))


def _with_refusals(plan: Plan, refusals: Iterable[Refusal]) -> Plan:
    """The engine's obstacles as outcomes of their groups."""
    reasons: dict[GroupName, str] = {}
    for refusal in refusals:
        for name in refusal.groups:
            reasons.setdefault(name, refusal.reason + (f"\n{refusal.diff}" if refusal.diff else ""))
    return _mapped(plan, {
        (item.patchset.name, group.id): group.refuse(Outcome.CONFLICT, reasons[name])
        for item in plan.patchsets for group in item.groups
        if (name := (item.patchset.name, group.id)) in reasons})


def _with_dependents(plan: Plan) -> Plan:
    """A group that requires a refused one of this plan cannot go through either."""
    while True:
        change: dict[GroupName, GroupPlan] = {}
        others = {f"{item.patchset.name}/{group.id}" for item in plan.patchsets
                  for group in item.groups if group.outcome.refused}
        for item in plan.patchsets:
            out = others | {group.id for group in item.groups if group.outcome.refused}
            for group in item.groups:
                lost = out & set(group.group.requires)
                if lost and group.selected and group.outcome is Outcome.APPLICABLE:
                    change[item.patchset.name, group.id] = group.refuse(
                        Outcome.CONFLICT, f"requires {', '.join(sorted(lost))}")
        if not change:
            return plan
        plan = _mapped(plan, change)


def _without_refused(plan: Plan) -> Plan:
    return replace(plan, patchsets=tuple(
        replace(item, groups=tuple(g for g in item.groups if not g.outcome.refused))
        for item in plan.patchsets))
