"""What apply and revert have in common: the site, its caches, and the facts of a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from patcher.affected import Surroundings, effect
from patcher.caches.actions import CacheAction
from patcher.caches.aot import dropped_libraries
from patcher.caches.environ import read_environ
from patcher.caches.handler import CacheHandler
from patcher.commands.installed import Site
from patcher.commands.options import Settings
from patcher.edits import unified_diff
from patcher.effective import still_old
from patcher.engine.digest import package_digest
from patcher.engine.request import GroupName, Staged
from patcher.engine.target import Target
from patcher.journal import Journal, Kind, Shape
from patcher.processes import NO_PROCESSES, Survey, users_of, users_of_environment
from patcher.report.plan import PackageRow
from patcher.session import Session, reading, writing
from patcher.status import Effective


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What a change left to know: by group whether it is in effect, caches, and who to restart."""

    effective: dict[GroupName, tuple[Effective, str]]
    caches: tuple[CacheAction, ...]
    restart: tuple[dict[str, Any], ...]


class Changing:
    """One invocation that may write."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        if settings.env_from:  # a server that is not there is no reason to look at ours
            read_environ(settings.env_from)
        self.site = Site(settings)

    @property
    def live(self) -> bool:
        """False for an image or an unpacked wheel: what runs it later is unknown."""
        return self.site.environment.root is None

    @cached_property
    def surroundings(self) -> Surroundings:
        return Surroundings(self._settings.env_from, self.live)

    @cached_property
    def survey(self) -> Survey:
        """The processes of this environment."""
        environment = self.site.environment
        if not self.live or environment.prefix is None:
            return NO_PROCESSES
        return users_of_environment((environment.prefix, *environment.site_packages))

    def handler(self, timeout: float) -> CacheHandler:
        """The caches of everyone who may run what is patched here."""
        return CacheHandler(self.site.subject, self.surroundings.environs(self.survey), timeout)

    @contextmanager
    def session(self, *, check: bool, timeout: float) -> Iterator[Session]:
        """Locked and recovered, or only looked at with ``--check``; says what it met."""
        home = self.site.home
        if check:
            session = reading(home)
            if session.pending:
                self._settings.tell(
                    f"an interrupted change of {', '.join(session.pending)} is pending: "
                    "the next apply or revert finishes it")
            yield session
            return
        with writing(home, self.handler(timeout), timeout) as session:
            if session.recovered is not None:
                done = "finished" if session.recovered.forward else "undid"
                self._settings.tell(f"{done} an interrupted change of "
                                    f"{', '.join(session.recovered.patchsets)}")
                for key in session.recovered.foreign:
                    self._settings.tell(f"  left alone, as somebody edited it: {key.path}")
            yield session

    def rows(self, session: Session, staged: Staged, targets: Iterable[Target]
             ) -> list[PackageRow]:
        """Each package with its digest now and after the steps; asked before they are made."""
        return [PackageRow(
            target.name, target.version, str(target.root),
            package_digest(session.home, session.journal, target.name, target.version),
            package_digest(session.home, staged.journal, target.name, target.version,
                           staged.steps)) for target in targets]

    def aftermath(self, journal: Journal, groups: Iterable[GroupName], staged: Staged,
                  caches: Sequence[CacheAction]) -> Aftermath:
        """What is to be known after a commit."""
        ask = effect(self.site.installed, self.site.home, journal, self.surroundings)
        found = {}
        for name, group in groups:
            applied = journal.patchsets.get(name)
            if applied is not None and group in applied.groups:
                found[name, group] = ask(applied, applied.groups[group])
        files = [Path(self.site.home.root(step.key.root), step.place) for step in staged.steps]
        old = {one.pid: one for one in (still_old(self.survey, files) if files else ())}
        if self.live:
            # servers of other environments and containers may share the cache
            old |= {one.pid: one for one in users_of(dropped_libraries(caches)).running}
        return Aftermath(found, tuple(caches), tuple(
            {"pid": one.pid, "file": one.file} for _, one in sorted(old.items())))


def steps_diff(session: Session, staged: Staged) -> str:
    """The diff of what the steps change on the disk, file by file."""
    def content(shape: Shape) -> bytes | None:
        if shape.kind is Kind.LINK:
            return shape.target.encode()
        if shape.kind is not Kind.FILE:
            return None
        data = staged.blobs.get(shape.sha256)
        return session.home.original(shape.sha256) if data is None else data

    shown = (Kind.FILE, Kind.LINK, Kind.ABSENT)
    return "".join(unified_diff(content(step.before), content(step.after), step.key.path)
                   for step in staged.steps
                   if step.before.kind in shown and step.after.kind in shown)
