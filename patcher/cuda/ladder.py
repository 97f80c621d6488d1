"""One #if ladder being walked: which worlds are left, and what is uncertain."""

from __future__ import annotations

from typing import Protocol

from patcher.arch import ALL_BITS
from patcher.cuda.conditions import Truths
from patcher.cuda.files import LoadedRow
from patcher.cuda.problems import MAX_DECIDERS
from patcher.cuda.record import ArmRow
from patcher.cuda.skeleton import Flag
from patcher.cuda.state import Fork, State
from patcher.cuda.values import Values

_ERROR, _LAST_RESORT, _GUARD = int(Flag.ERROR), int(Flag.LAST_RESORT), int(Flag.GUARD)


class Warner(Protocol):
    def warn(self, problem: str) -> None: ...


class LadderWalk:
    """``live`` are the worlds outside, ``maybe`` those of them for which the ladder's own
    place is unknown, ``names`` what would decide that; ``left`` took no arm yet."""

    __slots__ = ("_arms", "_deciders", "_depends", "_state", "_taken", "_unsure",
                 "_values", "arm_maybe", "arm_names", "fork", "left", "live", "maybe", "names")

    def __init__(self, state: State, values: Values, live: int, maybe: int,
                 names: tuple[str, ...]) -> None:
        self._state = state
        self._values = values
        self.live = self.left = live
        self.maybe = self.arm_maybe = maybe
        self.names = self.arm_names = names
        self._arms: list[ArmRow] = []
        self._depends = False
        self._unsure = 0  # worlds that may or may not have taken an earlier arm
        self._deciders: tuple[str, ...] = ()
        self.fork: Fork | None = None
        self._taken = 0

    def skip(self, row: LoadedRow) -> int:
        """An arm that no world reaches."""
        self.end_arm()
        self._arms.append((row[1], 0, 0, 0, ()))
        return 0

    def enter(self, row: LoadedRow, truths: Truths, warner: Warner) -> int:
        """Decide an arm, after the one before it was ended; the worlds that walk it."""
        true, false, names, problem = truths
        if problem and self.left:
            warner.warn(problem)
        left = self.left
        unknown = left & ~(true | false)
        if unknown or left & (self.maybe | self._unsure):
            return self._enter_unsure(row, true, false, names)
        if 0 < true < ALL_BITS and not row[5] & _GUARD:
            self._depends = True
        taken = left & true
        self._arms.append((row[1], taken, left & false, 0, ()))
        self.left = left & ~true
        self._taken = taken
        return taken

    def _enter_unsure(self, row: LoadedRow, true: int, false: int, names: tuple[str, ...]) -> int:
        left, flags = self.left, row[5]
        unknown = left & ~(true | false)
        if unknown and flags & _GUARD:
            # the file was included in one arm of a fork: whichever it was, it is included now
            true, unknown = true | unknown, 0
        doubtful = self.maybe | self._unsure
        uncertain = left & true & doubtful
        deciders = set(names if unknown else ())
        if uncertain:
            deciders.update(self.names, self._deciders)
        self._depends |= bool(unknown) or (0 < true < ALL_BITS and not flags & _GUARD)
        self._arms.append((row[1], left & true & ~doubtful, left & false, unknown | uncertain,
                           _few(deciders)))
        if flags & _ERROR:
            taken = left & true & ~self._unsure  # assumed not to be what is compiled
            self.left = left & ~true
        elif unknown and flags & _LAST_RESORT and not unknown & self._unsure:
            taken = left & true | unknown
            self.left = left & ~taken
        else:
            taken = left & true | unknown
            self.left = left & ~true
            if unknown:
                self._doubt(unknown, names)
        self.arm_maybe = (self.maybe | self._unsure) & taken
        self.arm_names = _few({*self.names, *self._deciders}) if self.arm_maybe else ()
        self._taken = taken
        return taken

    def _doubt(self, worlds: int, names: tuple[str, ...]) -> None:
        self._unsure |= worlds
        self._deciders = _few({*self._deciders, *names})
        if self.fork is None:
            self.fork = Fork(self._state, self._values)

    def end_arm(self) -> None:
        """Leave an arm. What it did nobody saw who asks for the next one: in a fork the table
        is again what it was before the ladder."""
        if self.fork is not None and self._taken:
            self.fork.end_arm(self._taken)
        self._taken = 0

    def close(self) -> tuple[tuple[ArmRow, ...], bool]:
        """Merge what the arms did; the finished rows, and whether worlds differ."""
        self.end_arm()
        if self.fork is not None:
            self.fork.merge(self.left & self.live, self._deciders)
        return tuple(self._arms), self._depends


def _few(names: set[str]) -> tuple[str, ...]:
    return tuple(sorted(names)[:MAX_DECIDERS])
