"""One transaction: intent, write, commit by one rename, finish; and what to do after a crash.

Files of the state home tell how far it came:

- ``intent.json``: files may have been changed; recovery rolls all of them back.
- ``committed.json`` (the intent, renamed): recovery rolls all of them forward,
  puts ``journal.next.json`` in place and cleans the caches again.

After the intent nothing needs space in the state home any more, so a full disk
cannot come between the commit and the new journal.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from errno import EACCES, EDQUOT, ENOSPC, EPERM, EROFS
from typing import Any, Protocol

from patcher.apply import Writer
from patcher.caches.actions import CacheAction
from patcher.engine.request import Staged, Step
from patcher.errors import InputError, Refused
from patcher.journal import AppliedGroup, AppliedPatchset, FileEntry, FileKey, Journal
from patcher.state import StateHome


class Caches(Protocol):
    """What a transaction asks of the caches; ``execute`` may run twice (recovery replays it)."""

    def plan(self, changed: Mapping[str, frozenset[str]]) -> Sequence[CacheAction]:
        """What these changed paths, by package, make stale, with the dependencies of now."""

    def locked(self, actions: Sequence[CacheAction]) -> AbstractContextManager[object]:
        """Hold the caches' own locks; raises LockHeld before anything is written."""

    def execute(self, actions: Sequence[CacheAction]) -> None:
        """Carry the actions out; raises OSError."""


class NoCaches:
    """For ``--no-cache`` and for targets that have none."""

    def plan(self, changed: Mapping[str, frozenset[str]]) -> Sequence[CacheAction]:
        return ()

    def locked(self, actions: Sequence[CacheAction]) -> AbstractContextManager[object]:
        return nullcontext()

    def execute(self, actions: Sequence[CacheAction]) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Recovery:
    """What recovery did: ``forward`` or back, and the files that were neither old nor new."""

    forward: bool
    patchsets: tuple[str, ...]
    foreign: tuple[FileKey, ...]


def run(home: StateHome, before: Journal, staged: Staged, caches: Caches) -> list[CacheAction]:
    """Carry a staged request out, whole or not at all; returns the cache actions done.

    Raises Refused (nothing written, or the disk fails so badly that recovery has
    to decide), LockHeld, or Conflict when a file changed in between. The caller
    holds the state home's lock.
    """
    if staged.refusals:
        raise ValueError("a request with refusals cannot be carried out")
    if not staged.steps and staged.journal == before:
        return []
    with disk_errors("the disk fails"):
        return _carried_out(home, before, staged, caches)


@contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Whatever the disk says where nothing better is known of it: raises Refused."""
    try:
        yield
    except OSError as error:
        raise Refused(f"{what}: {error.strerror}", where=_where(error),
                      next_step="sm-patch status finishes or undoes what was begun, "
                      "when the disk works again") from error


def _carried_out(home: StateHome, before: Journal, staged: Staged,
                 caches: Caches) -> list[CacheAction]:
    with caches.locked(caches.plan(staged.changed)):
        # planned again: a build may have ended while we waited for its lock
        actions = list(caches.plan(staged.changed))
        writer = _begin(home, before, staged, actions)
        begun: list[Step] = []
        try:
            writer.prepare(staged.steps)
            writer.carry_out(staged.steps, begun)
            home.commit()
        except BaseException as error:
            if home.committed() is not None:
                raise  # interrupted just after the commit: recovery goes forward
            _roll_back(home, before, writer, staged.steps, begun)
            if isinstance(error, OSError):
                raise Refused(f"cannot write: {error.strerror}; everything is as before",
                              where=_where(error), next_step=_ADVICE.get(error.errno or 0)
                              ) from error
            raise
        try:
            home.promote_journal()
            caches.execute(actions)
            _finish(home, staged.journal)
        except (OSError, Refused) as error:
            what = error.what if isinstance(error, Refused) else error.strerror
            where = error.where if isinstance(error, Refused) else _where(error)
            raise Refused(f"the files are written, but a stale cache may stay: {what}",
                          where=where, next_step="sm-patch caches invalidate") from error
    return actions


_ADVICE = {EACCES: "run as the user who owns it", EPERM: "run as the user who owns it",
           EROFS: "mount it writable, or patch a copy with --root", ENOSPC: "free space",
           EDQUOT: "free space"}


def _where(error: OSError) -> str | None:
    return os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else None


def _begin(home: StateHome, before: Journal, staged: Staged,
           actions: Sequence[CacheAction]) -> Writer:
    """Everything recovery needs, on disk before the first change."""
    names = sorted(name for name in {*before.patchsets, *staged.journal.patchsets}
                   if before.patchsets.get(name) != staged.journal.patchsets.get(name))
    identity = secrets.token_hex(4)
    try:
        home.keep(staged.blobs)
        home.write_next_journal(staged.journal)
        home.write_intent({"id": identity, "patchsets": names,
                           "steps": [step.to_json() for step in staged.steps],
                           "caches": [action.record() for action in actions]})
    except OSError as error:
        home.forget_intent()
        sweep(home, before)
        raise Refused(f"cannot keep the originals: {error.strerror}; everything is as before",
                      where=str(home.path)) from error
    return Writer(home, identity, home.original)


def _roll_back(home: StateHome, before: Journal, writer: Writer, steps: Sequence[Step],
               begun: Sequence[Step]) -> None:
    try:
        # what somebody changed before we came to it is theirs alone
        ours = {step.key for step in begun}
        foreign = [step for step in writer.settle(_backwards(steps)) if step.key in ours]
        _remember(home, foreign)
        home.forget_intent()
        sweep(home, home.journal() if foreign else before)
    except OSError as error:
        raise Refused(f"cannot undo a half-made change now: {error.strerror}",
                      where=_where(error),
                      next_step="free space or mount it writable, then run sm-patch status"
                      ) from error


def _backwards(steps: Sequence[Step]) -> list[Step]:
    return [step.inverse for step in reversed(steps)]


def _remember(home: StateHome, foreign: Sequence[Step]) -> None:
    """A file that could not be rolled back may hold our edits: its patchset is drifted."""
    if not foreign:
        return
    journal, aimed = home.journal(), home.next_journal()
    files = dict(journal.files)
    patchsets = dict(journal.patchsets)
    for step in foreign:
        entry = aimed.files.get(step.key)
        if entry is None or step.key in files:
            continue
        files[step.key] = entry
        _adopt(patchsets, aimed, entry)
    home.write_journal(replace(journal, files=files, patchsets=patchsets))


def _adopt(patchsets: dict[str, AppliedPatchset], aimed: Journal, entry: FileEntry) -> None:
    for owner in entry.owners:
        group = aimed.patchsets[owner.patchset].groups[owner.group]
        known = patchsets.get(owner.patchset, replace(aimed.patchsets[owner.patchset], groups={}))
        groups: dict[str, AppliedGroup] = {**known.groups}
        groups.setdefault(owner.group, group)
        patchsets[owner.patchset] = replace(known, groups=groups)


def _finish(home: StateHome, journal: Journal) -> None:
    home.forget_commit()
    sweep(home, journal)


def sweep(home: StateHome, journal: Journal) -> None:
    """Drop what no applied patchset needs, and what a crash left half written. Needs the lock."""
    home.sweep({shape.sha256 for entry in journal.files.values()
                for shape in (entry.base, *entry.wants.values())})


def recover(home: StateHome, caches: Caches) -> Recovery | None:
    """Finish what a crash interrupted; None when there was nothing. Needs the lock.

    Raises Refused when the disk does not allow it now.
    """
    record, forward = home.committed(), True
    if record is None:
        record, forward = home.intent(), False
    if record is None:
        return None
    steps, actions, writer = _parse(home, record)
    try:
        home.make_sure()
        foreign = writer.settle(steps if forward else _backwards(steps))
        if forward:
            home.promote_journal()
            with caches.locked(actions):
                caches.execute(actions)
        else:
            _remember(home, foreign)
            home.forget_intent()
        _finish(home, home.journal())
    except OSError as error:
        raise Refused(f"cannot finish an interrupted change: {error.strerror}",
                      where=_where(error), next_step="make it writable, then run sm-patch status"
                      ) from error
    return Recovery(forward, tuple(record["patchsets"]), tuple(step.key for step in foreign))


def _parse(home: StateHome, record: Mapping[str, Any]
           ) -> tuple[list[Step], list[CacheAction], Writer]:
    try:
        steps = [Step.from_json(item) for item in record["steps"]]
        actions = [CacheAction.from_record(item) for item in record["caches"]]
        return steps, actions, Writer(home, str(record["id"]), home.original)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"not a transaction record: {error!r}", where=str(home.path)) from error
