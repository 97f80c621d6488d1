"""The work of ``revert``."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path, PurePath

import click

from patcher.commands.changing import Aftermath, Changing, steps_diff
from patcher.commands.options import Settings
from patcher.engine.request import GroupName, Request, Staged
from patcher.engine.target import Target
from patcher.errors import Conflict, Exit, UsageError
from patcher.journal import Journal
from patcher.package.model import Package
from patcher.patchset.shipped import shipped
from patcher.report.change import reverted
from patcher.report.plan import PackageRow
from patcher.transaction import NoCaches


class Reversion:
    """One run of ``revert``."""

    def __init__(self, settings: Settings, *, check: bool, require_clean: bool, no_cache: bool,
                 timeout: float) -> None:
        self._settings = settings
        self._check = check
        self._require_clean = require_clean
        self._no_cache = no_cache
        self._timeout = timeout
        self._changing = Changing(settings)

    def run(self, names: Sequence[str], *, every: bool) -> Exit:
        """Undo under the lock, and report. Raises Conflict when somebody's edit is in the way."""
        # where there is no state home, none is made to say that
        look = self._check or not os.path.exists(self._changing.site.home.path)
        with self._changing.session(check=look, timeout=self._timeout) as session:
            drops = self._drops(session.journal, names, every)
            targets = self._targets(session.journal, drops)
            staged = session.stage(Request(drops=drops), targets)
            self._refuse(staged)
            rows = self._changing.rows(session, staged, targets.values())
            text = steps_diff(session, staged)
            after = Aftermath({}, (), ())
            if not look:
                handler = self._changing.handler(self._timeout)
                session.commit(staged, NoCaches() if self._no_cache else handler)
                after = self._changing.aftermath(staged.journal, (), staged, handler.done)
            self._report(session.journal, drops, staged, rows, text, after)
        return Exit.CHECK_FAILED if self._check and drops else Exit.DONE

    def _drops(self, journal: Journal, names: Sequence[str], every: bool
               ) -> frozenset[GroupName]:
        """The groups that leave. A name may be given as the path of its document."""
        applied = journal.patchsets
        if names and every:
            raise UsageError("name patchsets or use --all, not both")
        if not names and not every and len(applied) > 1:
            raise UsageError(f"{len(applied)} patchsets are applied: {', '.join(sorted(applied))}",
                             next_step="name one, or use --all")
        chosen = [self._name(name, journal) for name in names] or list(applied)
        if names and not applied and not os.path.exists(self._changing.site.home.path):
            click.echo(f"{self._changing.site.home.path} has no state: patched files that were "
                       "copied here need theirs beside them; else reinstall their package",
                       err=True)
        groups = set(self._settings.group)
        known = {group for name in chosen if name in applied for group in applied[name].groups}
        if groups - known:
            raise UsageError(f"no applied group {', '.join(sorted(groups - known))}",
                             next_step=f"applied: {', '.join(sorted(known)) or 'none'}")
        return frozenset((name, group) for name in chosen if name in applied
                         for group in applied[name].groups if not groups or group in groups)

    @staticmethod
    def _name(typed: str, journal: Journal) -> str:
        """The name of a patchset; one that nothing here or shipped has is a slip of the pen."""
        name = typed if typed in journal.patchsets else PurePath(typed).stem
        if name not in journal.patchsets:
            if journal.patchsets and not (name in shipped() or Path(typed).is_file()):
                raise UsageError(f"no patchset {typed} is applied",
                                 next_step=f"applied: {', '.join(sorted(journal.patchsets))}")
            click.echo(f"{typed} is not applied", err=True)
        return name

    def _targets(self, journal: Journal, drops: frozenset[GroupName]) -> dict[str, Target]:
        """The packages concerned, as far as they are still installed."""
        names = {patch.package for patchset, group in drops
                 for patch in journal.patchsets[patchset].groups[group].patches}
        found = {name: self._changing.site.installed(name) for name in sorted(names)}
        packages = [one.package for one in found.values() if one is not None]
        for package in packages:
            self._refuse_elsewhere(package, Path(journal.packages()[package.name][0]))
        return {package.name: package for package in packages}

    def _refuse_elsewhere(self, package: Package, key: Path) -> None:
        """A copied environment may lead to a project that another one has patched."""
        home = self._changing.site.home
        place = home.root(str(key))
        if home.key(package.root) != str(key) and not place.is_dir():
            raise Conflict(f"{package.name} is in {package.root} now; what was changed in {place} "
                           "cannot be undone from here", where=str(home.path),
                           next_step="revert with --python of the environment that applied it; "
                           "to forget it here remove that folder")

    def _refuse(self, staged: Staged) -> None:
        if staged.refusals:
            for refusal in staged.refusals:
                if refusal.diff:
                    click.echo(refusal.diff, err=True, nl=False)
            first = staged.refusals[0]
            more = f" (and {len(staged.refusals) - 1} more)" if len(staged.refusals) > 1 else ""
            raise Conflict(f"{first.why.value}: {first.reason}{more}",
                           next_step="nothing was written; sm-patch status shows all of it")
        for warning in staged.warnings:
            if self._require_clean:
                raise Conflict(warning, next_step="undo that edit, or leave out --require-clean")
            click.echo(f"warning: {warning}", err=True)

    def _report(self, journal: Journal, drops: frozenset[GroupName], staged: Staged,
                rows: Sequence[PackageRow], text: str, after: Aftermath) -> None:
        names = sorted({name for name, _ in drops})
        if self._settings.format == "json":
            self._settings.emit(json.dumps({
                "version": 1, "changed": bool(drops),
                "packages": [{"name": row.name, "version": row.version, "root": row.root,
                              "digest_before": row.before, "digest_after": row.after}
                             for row in rows],
                "patchsets": [_patchset(journal, name, drops) for name in names],
                "caches": [action.public() for action in after.caches],
                "restart": list(after.restart), "diff": text,
            }, indent=2, sort_keys=True))
            return
        files = sorted({step.key.path for step in staged.steps
                        if not (step.makes_folder or step.drops_folder)})
        self._settings.emit("\n".join(reverted(
            names, files, sorted(staged.journal.patchsets), after.caches, after.restart,
            check=self._check)))


def _patchset(journal: Journal, name: str, drops: frozenset[GroupName]) -> dict[str, object]:
    applied = journal.patchsets[name]
    groups = [group for group in applied.groups.values() if (name, group.id) in drops]
    return {"name": name, "digest": applied.digest, "groups": [
        {"id": group.id, "outcome": "reverted", "effective": "no", "patches": [
            {"id": patch.id, "outcome": "reverted", "reason": "", "files": list(patch.files)}
            for patch in group.patches]} for group in groups]}


