"""What is to be done to a cache, as values: planned, journaled, executed, replayed.

Actions on files of a cache are carried out by ``caches.execute``; what
concerns a file inside the package (an AOT module) is returned as a ``Move``
and carried out by apply, the only writer there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from patcher.errors import InputError


class Action(str, Enum):
    """What happens to the path of a CacheAction."""

    DELETE = "delete"  # one file of the cache
    REMOVE = "remove"  # a folder of the cache with everything in it
    ASIDE = "aside"  # an AOT module of the environment, moved by apply
    KEEP = "keep"  # stale and kept on request: the patch has no effect here
    ADVISE = "advise"  # nothing is done; the reason says what the user can do


@dataclass(frozen=True, slots=True)
class CacheAction:
    """One step of an invalidation.

    ``cache`` is the id in the registry, ``path`` absolute, ``root`` the cache
    root that ``path`` must not leave, ``lock`` the cache's own lock file to
    hold meanwhile ("" when it has none).
    """

    cache: str
    path: str
    action: Action
    reason: str
    root: str = ""
    lock: str = ""

    @property
    def writes(self) -> bool:
        """True when executing the action changes the cache."""
        return self.action in (Action.DELETE, Action.REMOVE)

    def public(self) -> dict[str, str]:
        """The four fields that diff, apply and revert print."""
        return {"cache": self.cache, "path": self.path, "action": self.action.value,
                "reason": self.reason}

    def record(self) -> dict[str, str]:
        """Everything a journal needs to replay the action."""
        return {**self.public(), "root": self.root, "lock": self.lock}

    @classmethod
    def from_record(cls, record: Mapping[str, str]) -> CacheAction:
        """The inverse of ``record``; raises InputError when it is none."""
        try:
            return cls(record["cache"], record["path"], Action(record["action"]),
                       record["reason"], record["root"], record["lock"])
        except (KeyError, ValueError) as error:
            raise InputError(f"not a cache action: {error}") from error


@dataclass(frozen=True, slots=True)
class Touched:
    """One package's side of an invalidation: which files changed, and for whom.

    ``paths`` are relative to ``root`` (the folder that holds the import
    packages). ``modules`` are names or fnmatch patterns of the JIT modules whose
    gate or flags changed, ``compiled`` those known to compile a changed file.
    ``name`` is the normalised distribution name.
    """

    name: str
    version: str | None
    root: str
    paths: frozenset[str]
    modules: frozenset[str] = frozenset()
    compiled: frozenset[str] = frozenset()
