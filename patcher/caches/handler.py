"""The caches' side of a transaction: plan, lock, drop, and note what they are in line with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from patcher.caches.actions import Action, CacheAction
from patcher.caches.execute import check_writable, execute
from patcher.caches.invalidate import Subject, plan, reconcile
from patcher.caches.locks import ModuleLocks
from patcher.errors import LockHeld

FindSubject = Callable[[str], Subject | None]


@dataclass
class CacheHandler:
    """Serves one transaction over several packages.

    ``subject`` tells of a package as it is on the disk when it is asked, None
    when it is not there any more; ``environs`` are the variables of every server
    whose caches are meant. ``timeout`` is in seconds, for all locks together.
    """

    subject: FindSubject
    environs: Sequence[Mapping[str, str]]
    timeout: float
    done: list[CacheAction] = field(default_factory=list)
    _changed: dict[str, frozenset[str]] = field(default_factory=dict)
    _before: dict[str, Subject] = field(default_factory=dict)
    _locks: ModuleLocks | None = None

    def plan(self, changed: Mapping[str, frozenset[str]]) -> tuple[CacheAction, ...]:
        """What these changed paths, by package, make stale, with the dependencies of now."""
        self._changed = dict(changed)
        found: dict[tuple[str, str], CacheAction] = {}
        for name, paths in changed.items():
            if (subject := self.subject(name)) is None:
                continue
            self._before[name] = subject
            for environ in self.environs:
                for action in plan(subject, paths, environ):
                    found.setdefault((action.path, action.action.value), action)
        return tuple(found.values())

    @contextmanager
    def locked(self, actions: Sequence[CacheAction]) -> Iterator[ModuleLocks]:
        """Hold the caches' own locks; raises LockHeld or Refused before anything is written."""
        check_writable(actions)
        with ModuleLocks(self.timeout) as locks:
            locks.take(actions)
            self._locks = locks
            try:
                yield locks
            finally:
                self._locks = None

    def execute(self, actions: Sequence[CacheAction]) -> None:
        """Carry the actions out, and what builds have added since they were planned.

        A replay after a crash knows no changed paths: it notes nothing, and the
        next ``--if-changed`` looks again. Raises OSError.
        """
        with ModuleLocks(self.timeout) as own:
            locks = self._locks or own
            self.done += execute(actions, locks)
            for name, paths in self._changed.items():
                if (subject := self.subject(name)) is None:
                    continue
                # the edits of a revert are known only from before it
                subject = replace(subject, describe=self._before[name].describe)
                for environ in self.environs:
                    try:
                        self.done += reconcile(subject, paths, environ, locks)
                    except LockHeld as held:  # a build that began after ours were locked
                        self.done.append(_later(held))


def _later(held: LockHeld) -> CacheAction:
    return CacheAction("flashinfer_nvcc_jit", held.where or "", Action.ADVISE,
                       f"{held.what}: run `sm-patch caches invalidate --if-changed` when it ends")
