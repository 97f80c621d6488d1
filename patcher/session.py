"""A session on one state home: locked and recovered for writing, or only looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from patcher.caches.actions import CacheAction
from patcher.engine.request import Request, Staged
from patcher.engine.stage import stage
from patcher.engine.target import Target
from patcher.engine.view import PackageView
from patcher.journal import Journal
from patcher.locks import LOCK_TIMEOUT, exclusive
from patcher.state import StateHome
from patcher.transaction import Caches, Recovery, recover, run, sweep


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
        recovered = recover(home, caches)
        journal = home.journal()
        sweep(home, journal)
        yield Session(home, journal, recovered)


def reading(home: StateHome) -> Session:
    """Look without a lock and without write permission; an interrupted change is only named."""
    record = home.intent() or home.committed() or {}
    return Session(home, home.journal(), pending=tuple(record.get("patchsets", ())))
