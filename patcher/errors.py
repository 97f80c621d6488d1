"""The error tree and the exit codes, in one place.

An error carries what went wrong, where, and what to do next; the command line
turns it into one line on stderr and the exit code of its class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum


class Exit(IntEnum):
    """What a verb's exit code promises to scripts."""

    DONE = 0
    CHECK_FAILED = 1  # a check said no: --check, --fail-on, verify, status --check
    USAGE = 2  # usage, unreadable input, schema error
    REFUSED = 3  # conflict, drift, lock held, preflight, unsafe target; nothing written
    INTERNAL = 70
    INTERRUPTED = 130


class PatcherError(Exception):
    """Base of every expected failure.

    ``what`` is one sentence, ``where`` a file or a path inside a document,
    ``next_step`` a command or an action the user can take.
    """

    exit_code: Exit = Exit.USAGE

    def __init__(
        self, what: str, *, where: str | None = None, next_step: str | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.next_step = next_step

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f" ({self.next_step})" if self.next_step else ""
        return f"{place}{self.what}{advice}"


class UsageError(PatcherError):
    """The command line asks for something that makes no sense."""


class InputError(PatcherError):
    """A file or folder cannot be read or understood."""


class PackageNotFound(InputError):
    """No such package in the environment that was looked at."""


class SchemaError(InputError):
    """A patchset has errors; ``problems`` lists all of them, each with its path."""

    def __init__(self, problems: list[str], *, where: str) -> None:
        count = len(problems)
        noun = "error" if count == 1 else "errors"
        super().__init__(f"{count} {noun}: " + "; ".join(problems), where=where)
        self.problems = problems


class Refused(PatcherError):
    """The change was refused and nothing was written."""

    exit_code = Exit.REFUSED


class Conflict(Refused):
    """An anchor matches never or too often, or a foreign edit is in the way."""


class LawViolation(Refused):
    """The edit would change a world that was not asked for."""


class UnsafePath(Refused):
    """A path leaves its root, or names something that is not a plain file."""


class LockHeld(Refused):
    """Another process holds a lock past the timeout."""


class ToolFailed(PatcherError):
    """An external tool (nvcc, ptxas, ninja, git) could not do its part."""


@contextmanager
def output_errors(where: str) -> Iterator[None]:
    """What cannot be written for the caller is the caller's to mend: raises InputError.

    A reader that went away (BrokenPipeError) wants no more, which is no error.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"cannot write the output: {error.strerror}", where=where,
                         next_step="choose another place for it") from error


def did_you_mean(typed: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> str:
    """A hint at the nearest of the known words; "" when none is alike."""
    from difflib import get_close_matches

    near = get_close_matches(typed, list(known), most, cutoff)
    return f"did you mean {', '.join(near)}?" if near else ""
