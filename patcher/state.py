"""The state home: where an environment's journal, record and originals are kept.

It stands beside the environment, never in site-packages (an installer would
not know it) and never in $HOME (sudo and containers have another one), and
holds no absolute path, so that it moves and is copied with the environment.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patcher.atomic import TEMPORARY, add_durably, canonical_json, write_atomic
from patcher.durable import sync_folder
from patcher.engine.codec import from_json, to_json
from patcher.errors import InputError, Refused
from patcher.journal import Journal
from patcher.tree import read_plain


def find_home(*, prefix: Path | None, root: Path | None, state: str | None) -> StateHome:
    """The state home of an environment (``prefix``) or of a folder used as one (``root``).

    ``state`` is the value of ``--state`` or SM_PATCH_STATE and wins. Raises
    Refused when there is neither an environment nor a folder.
    """
    anchor = root or prefix
    if anchor is None:
        raise Refused("there is no environment here to keep state for",
                      next_step="name one with --python or --root")
    anchor = Path(os.path.realpath(anchor))
    if state:
        return StateHome(Path(os.path.abspath(state)), anchor)
    if root is not None:
        return StateHome(anchor.parent / ".sm-patch" / (anchor.name or "root"), anchor)
    return StateHome(anchor / "share" / "sm-patch", anchor)


@dataclass(frozen=True, slots=True)
class StateHome:
    """``path`` is the folder itself, ``anchor`` the environment that it belongs to."""

    path: Path
    anchor: Path

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    def key(self, root: Path) -> str:
        """A root's name in the journal: its path relative to the environment."""
        return os.path.relpath(os.path.realpath(root), self.anchor)

    def root(self, key: str) -> Path:
        """The inverse of ``key``."""
        return Path(os.path.normpath(self.anchor / key))

    def create(self) -> None:
        """Make the folders; raises Refused when that is not possible or not safe."""
        place = self.path / "originals"
        try:
            # one by one: a parent made by mkdir(parents=True) ignores the mode
            for folder in (*reversed(place.parents), place):
                if not folder.exists():
                    folder.mkdir(mode=0o755, exist_ok=True)
                    if os.geteuid() == 0:  # with sudo: the environment's owner goes on with it
                        owner = os.stat(self.anchor)
                        os.chown(folder, owner.st_uid, owner.st_gid)
                    # a home that a power failure takes away remembers nothing
                    sync_folder(folder.parent)
        except OSError as error:
            raise Refused(f"cannot keep state here: {error.strerror}", where=str(self.path),
                          next_step="name a folder you can write with --state") from error
        self.check()

    def check(self) -> None:
        """Refuse a home that somebody else could have prepared; raises Refused."""
        owner = os.stat(self.anchor).st_uid
        trusted = {0, os.geteuid(), owner}
        hidden = [p for p in self.path.parents if p.name == ".sm-patch"]
        for place in (*hidden, self.path, self.path / "originals"):
            try:
                info = os.lstat(place)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise Refused(f"cannot look at the state home: {error.strerror}",
                              where=str(place), next_step="run as the user who owns it, or "
                              "name another one with --state") from error
            if not stat.S_ISDIR(info.st_mode):
                raise Refused("the state home is not a plain folder", where=str(place),
                              next_step="name another one with --state")
            if info.st_uid not in trusted:
                raise Refused(f"the state home is owned by user {info.st_uid}, who is neither "
                              "you nor the environment's owner", where=str(place),
                              next_step=f"chown -R {owner} {place} if it is yours, or "
                              "name another one with --state")
            if info.st_mode & 0o022:
                raise Refused("others may write the state home", where=str(place),
                              next_step=f"chmod go-w {place}, or name another one with --state")

    def journal(self) -> Journal:
        """What is applied; an empty journal when there is no home. Needs no lock."""
        document = self._load("journal.json")
        if self.committed() is not None:  # the next journal counts from the commit on
            document = self._load("journal.next.json") or self._load("journal.json")
        if document is None:
            return Journal()
        if document.get("environment") != self._identity():
            raise Refused("this state home belongs to another environment",
                          where=str(self.path), next_step="name one of its own with --state")
        return from_json(document, str(self.path / "journal.json"))

    def write_journal(self, journal: Journal) -> None:
        self._write("journal.json", {"environment": self._identity(), **to_json(journal)})

    def next_journal(self) -> Journal:
        """The journal that an unfinished transaction aims at; raises InputError without one."""
        document = self._load("journal.next.json")
        return from_json(document or {}, str(self.path / "journal.next.json"))

    def write_next_journal(self, journal: Journal) -> None:
        self._write("journal.next.json", {"environment": self._identity(), **to_json(journal)})

    def promote_journal(self) -> None:
        """Put the next journal in place; doing it twice is harmless."""
        with suppress(FileNotFoundError):
            os.replace(self.path / "journal.next.json", self.path / "journal.json")
            sync_folder(self.path)

    def intent(self) -> dict[str, Any] | None:
        """The record of a transaction that was not committed."""
        return self._load("intent.json")

    def write_intent(self, record: Mapping[str, Any]) -> None:
        self._write("intent.json", record)

    def forget_intent(self) -> None:
        """The transaction never was; the intent goes first, it is what recovery looks for."""
        for name in ("intent.json", "journal.next.json"):
            with suppress(FileNotFoundError):
                os.unlink(self.path / name)
            sync_folder(self.path)

    def commit(self) -> None:
        """The commit point: before this rename all rolls back, after it all rolls forward."""
        os.replace(self.path / "intent.json", self.path / "committed.json")
        sync_folder(self.path)

    def committed(self) -> dict[str, Any] | None:
        """The record of a committed transaction that was not finished."""
        return self._load("committed.json")

    def make_sure(self) -> None:
        """What is seen here is what stays: whoever wrote it may have died before the barrier."""
        sync_folder(self.path)

    def forget_commit(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.path / "committed.json")
        sync_folder(self.path)

    def original(self, sha256: str) -> bytes:
        """Stored bytes by their hash, verified; raises Refused when damaged or gone."""
        place = self.path / "originals" / sha256
        try:
            data = place.read_bytes()
        except OSError as error:
            raise Refused(f"an original is gone: {error.strerror}", where=str(place),
                          next_step="reinstall the package; its patches then count as lost"
                          ) from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise Refused("an original is damaged", where=str(place),
                          next_step="reinstall the package; its patches then count as lost")
        return data

    def keep(self, blobs: Mapping[str, bytes]) -> None:
        """Store contents durably by their hash."""
        folder = self.path / "originals"
        add_durably(folder, {sha256: data for sha256, data in blobs.items()
                             if not _holds(folder / sha256, data)})

    def sweep(self, needed: Collection[str]) -> None:
        """Under the lock: drop originals nobody needs and what a crash left unfinished."""
        for name in os.listdir(self.path / "originals"):
            if name not in needed:
                os.unlink(self.path / "originals" / name)
        for place in (*self.path.glob(f"{TEMPORARY}*"), self.path / "journal.next.json"):
            place.unlink(missing_ok=True)

    def remove(self) -> None:
        """Leave no trace of a home that holds nothing any more. Needs the lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):  # others keep things there too
            os.rmdir(self.path.parent)

    def _identity(self) -> str:
        return os.path.relpath(self.anchor, os.path.realpath(self.path))

    def _load(self, name: str) -> dict[str, Any] | None:
        self.check()
        place = self.path / name
        try:
            document = json.loads(read_plain(str(place)))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise InputError(f"cannot read the state: {error}", where=str(place)) from error
        if not isinstance(document, dict):
            raise InputError("not a state document", where=str(place))
        return document

    def _write(self, name: str, document: Mapping[str, Any]) -> None:
        write_atomic(self.path / name, canonical_json(document))


def _holds(place: Path, data: bytes) -> bool:
    return place.exists() and place.read_bytes() == data
