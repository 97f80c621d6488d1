"""Whether an applied change is what runs: yes, after a restart, no, or unknown; and why."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patcher.caches.actions import Touched
from patcher.caches.aot import shadowing
from patcher.caches.invalidate import Subject, plan
from patcher.processes import NO_PROCESSES, Running, Survey
from patcher.status import Effective


@dataclass(frozen=True, slots=True)
class Answer:
    """``reason`` is "" for yes; ``restart`` are processes with the old code."""

    state: Effective
    reason: str = ""
    restart: tuple[Running, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about: a group's share of one package.

    ``touched`` are the group's files and modules, ``subject`` the whole package.
    ``search_path`` is where Python looks, in order, ``import_name`` what it looks
    for, and ``code`` where the package's own is (a source tree maps its paths).
    ``environs`` are the variables of those who may run it, ``survey`` the
    environment's processes.
    """

    touched: Touched
    subject: Subject
    import_name: str
    code: Path
    search_path: tuple[Path, ...] = ()
    aot_folders: tuple[Path, ...] = ()
    environs: tuple[Mapping[str, str], ...] = ()
    survey: Survey = NO_PROCESSES


def effective(question: Question) -> Answer:
    """The first thing that stands between the change and the code that runs."""
    for check in (_other_copy, _prebuilt, _stale_builds, _old_processes):
        answer = check(question)
        if answer is not None:
            return answer
    return Answer(Effective.YES)


def other_copy(search_path: Sequence[Path], import_name: str, code: Path) -> Path | None:
    """A copy of the package that Python finds before the one whose folder is ``code``."""
    own = os.path.realpath(code)
    for folder in search_path:
        if os.path.realpath(folder / import_name) == own:
            return None
        for candidate in (folder / import_name / "__init__.py", folder / f"{import_name}.py"):
            if candidate.is_file():
                return candidate
    return None


def still_old(survey: Survey, files: Iterable[Path]) -> tuple[Running, ...]:
    """Processes that began before the last of these files was written."""
    times = []
    for path in files:
        try:
            times.append(os.lstat(path).st_mtime)
        except FileNotFoundError:  # a file that the change removed has no time of its own
            continue
    newest = max(times, default=0.0)
    return tuple(process for process in survey.running if process.started < newest)


def _other_copy(question: Question) -> Answer | None:
    found = other_copy(question.search_path, question.import_name, question.code)
    return Answer(Effective.NO, f"Python finds {found} first") if found else None


def _prebuilt(question: Question) -> Answer | None:
    touched = question.touched
    for module in shadowing(question.aot_folders, touched.modules | touched.compiled):
        return Answer(Effective.NO, f"the prebuilt {module.library} ({module.archs}) wins; "
                                    "apply with --aot aside")
    compiled = any(not path.endswith(".py") for path in touched.paths)
    if compiled and not touched.compiled and any(shadowing(question.aot_folders, ["*"])):
        return Answer(Effective.UNKNOWN, "prebuilt modules are installed, and it is not known "
                                         "which of them hold the changed sources")
    return None


def _stale_builds(question: Question) -> Answer | None:
    ours = question.touched.paths
    for environ in question.environs:
        # nothing changes now: what is left are entries that a cache was not told of
        missed = plan(question.subject, frozenset(), environ, only=ours)
        stale = [action for action in missed if action.writes]
        if stale:
            # an object tells more than the library that was linked from it
            first = min(stale, key=lambda action: action.path.endswith(".so"))
            return Answer(Effective.NO, f"{first.path} is stale ({first.reason}); "
                                        "run `sm-patch caches invalidate --if-changed`")
    return None


def _old_processes(question: Question) -> Answer | None:
    files = [Path(question.touched.root, path) for path in question.touched.paths]
    running = still_old(question.survey, files)
    if not running:
        return None
    pids = ", ".join(str(process.pid) for process in running)
    return Answer(Effective.AFTER_RESTART, f"still running the code from before: {pids}", running)
