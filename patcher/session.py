"""A session on one state home: locked and recovered for writing, or only looked at."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from patcher.apply import discard_asides, drop_empty_folders
from patcher.caches.actions import CacheAction
from patcher.engine.request import Request, Staged
from patcher.engine.stage import stage
from patcher.engine.target import Target
from patcher.engine.view import PackageView
from patcher.errors import Refused
from patcher.journal import Journal
from patcher.locks import LOCK_TIMEOUT, exclusive, steady
from patcher.state import StateHome
from patcher.transaction import Caches, Recovery, disk_errors, recover, run, sweep


@dataclass(frozen=True, slots=True)
class Session:
    """``recovered`` tells what an earlier crash had left, ``pending`` what it still leaves."""

    home: StateHome
    journal: Journal
    recovered: Recovery | None = None
    pending: tuple[str, ...] = ()

    def view(self, target: Target) -> PackageView:
        """What planning may know of the journal for one package."""
        return PackageView(self.home, self.journal, target)

    def stage(self, request: Request, targets: Mapping[str, Target]) -> Staged:
        """Decide what a request would do; see ``stage``."""
        return stage(self.home, self.journal, request, targets)

    def commit(self, staged: Staged, caches: Caches) -> list[CacheAction]:
        """Carry it out, whole or not at all; see ``transaction.run``."""
        return run(self.home, self.journal, staged, caches)


@contextmanager
def writing(home: StateHome, caches: Caches, timeout: float = LOCK_TIMEOUT) -> Iterator[Session]:
    """Take the lock and recover first. Raises Refused or LockHeld before anything is written."""
    home.create()
    with exclusive(home.lock, timeout):
        with disk_errors("the state home cannot be tidied up"):
            recovered = recover(home, caches)
            journal = home.journal()
            sweep(home, journal)
            discard_asides(home, journal)
        yield Session(home, journal, recovered)


def retire(session: Session, gone: Collection[str], caches: Caches) -> tuple[str, ...]:
    """Forget the groups whose packages have all been uninstalled, and what they left behind.

    Returns their names. Raises Refused when a file of theirs was edited since.
    """
    drops = frozenset((patchset.name, group.id) for patchset in session.journal.patchsets.values()
                      for group in patchset.groups.values()
                      if {patch.package for patch in group.patches} <= set(gone))
    if not drops:
        return ()
    discard_asides(session.home, session.journal, gone)
    staged = session.stage(Request(drops=drops), {})
    if staged.refusals:
        raise Refused(staged.refusals[0].reason, next_step="remove that file")
    session.commit(staged, caches)
    drop_empty_folders(session.home, set(session.journal.files) - set(staged.journal.files))
    if not staged.journal.patchsets:
        session.home.remove()
    return tuple(sorted({f"{patchset}/{group}" for patchset, group in drops}))


@contextmanager
def looking(home: StateHome) -> Iterator[Session]:
    """``reading``, with the journal and the files of one moment: a writer is waited for, and waits.

    One that stays at work for long is looked at all the same; what it changes is then named.
    """
    with steady(home.lock):
        yield reading(home)


def reading(home: StateHome) -> Session:
    """Look without a lock and without write permission; an interrupted change is only named."""
    record = home.intent() or home.committed() or {}
    return Session(home, home.journal(), pending=tuple(record.get("patchsets", ())))
