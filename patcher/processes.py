"""Which running processes still use the code from before a change. They are only listed.

A process is recognised by device and inode, never by path alone: after a rebuild the
path names a new file while the process goes on with the old one, which the kernel then
shows as ``(deleted)``; in a container the paths differ as well.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

FileId = tuple[int, int, int]  # major and minor device number, inode

_MAP = re.compile(rb"^[0-9a-f]+-[0-9a-f]+ \S+ [0-9a-f]+ ([0-9a-f]+):([0-9a-f]+) (\d+) +(/.*)$",
                  re.MULTILINE)
_DELETED = " (deleted)"


@dataclass(frozen=True, slots=True, order=True)
class Running:
    """A process and the file that shows it: a library, or what ties it to an environment.

    ``started`` is in seconds since the epoch, good to about a hundredth.
    """

    pid: int
    file: str
    started: float


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found; ``unreadable`` processes of other users could not be looked into."""

    running: tuple[Running, ...]
    unreadable: int


NO_PROCESSES = Survey((), 0)


def file_id(path: str | Path) -> FileId | None:
    """The identity of what a path names now; None when it names nothing."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return os.major(info.st_dev), os.minor(info.st_dev), info.st_ino


def users_of(libraries: Iterable[str | Path], ids: Iterable[FileId] = (),
             proc: Path = Path("/proc")) -> Survey:
    """Processes that map one of these libraries, also when it was deleted or replaced since.

    ``ids`` are identities taken (``file_id``) before files were replaced.
    """
    names = {os.path.abspath(path) for path in libraries}
    wanted = {found for name in names if (found := file_id(name)) is not None} | set(ids)

    def uses(process: Path) -> str | None:
        for identity, path in _maps(process):
            gone = path.endswith(_DELETED)
            if identity in wanted or (gone and path.removesuffix(_DELETED) in names):
                return path
        return None

    return _survey(proc, uses)


def users_of_environment(folders: Sequence[Path], proc: Path = Path("/proc")) -> Survey:
    """Processes tied to an environment by their program, libraries, folder or open files.

    For changes of Python files only, which no map shows. ``folders`` are the
    prefix and the package roots. Libraries are compared by device and inode, so
    a process in a container counts too; an interpreter that the environment
    only links to counts when it was started by its name there.
    """
    places = [*map(os.path.abspath, folders), *map(os.path.realpath, folders)]
    homes = tuple(dict.fromkeys(places))
    libraries = {found for home in homes for path in _libraries(home)
                 if (found := file_id(path)) is not None}

    def uses(process: Path) -> str | None:
        for identity, path in _maps(process):
            if identity in libraries or _inside(path.removesuffix(_DELETED), homes):
                return path
        return next((path for path in (*_arguments(process), *_handles(process))
                     if _inside(path, homes)), None)

    return _survey(proc, uses)


def _survey(proc: Path, uses: Callable[[Path], str | None]) -> Survey:
    """Ask every process; those that end meanwhile are passed over."""
    running, unreadable = [], 0
    for name in os.listdir(proc):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        try:
            found = uses(proc / name)
        except PermissionError:
            unreadable += 1
        except OSError:
            continue
        else:
            if found is not None:
                running.append(Running(int(name), found, _started(proc, name)))
    return Survey(tuple(sorted(running)), unreadable)


def _started(proc: Path, name: str) -> float:
    """When a process began; 0 when that cannot be told, which counts as before any change."""
    try:
        # the command, in parentheses, may hold spaces: fields count from after it (proc(5))
        fields = (proc / name / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    # the time of boot in /proc/stat has whole seconds only
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    return boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def _maps(process: Path) -> Iterator[tuple[FileId, str]]:
    for match in _MAP.finditer((process / "maps").read_bytes()):
        yield (int(match[1], 16), int(match[2], 16), int(match[3])), os.fsdecode(match[4])


def _arguments(process: Path) -> list[str]:
    """The program and the script as they were typed, where they are absolute paths."""
    words = (process / "cmdline").read_bytes().split(b"\0")[:2]
    return [os.fsdecode(word) for word in words if word.startswith(b"/")]


def _handles(process: Path) -> Iterator[str]:
    """The program, the folder a Python program stands in, and the open files."""
    program = os.readlink(process / "exe")
    yield program
    if "python" in os.path.basename(program):  # a shell that stands there runs none of its code
        yield os.readlink(process / "cwd")
    for name in os.listdir(process / "fd"):
        with suppress(FileNotFoundError):
            yield os.readlink(process / "fd" / name)


def _inside(path: str, homes: tuple[str, ...]) -> bool:
    return any(path == home or path.startswith(home.rstrip("/") + "/") for home in homes)


def _libraries(home: str) -> Iterator[str]:
    """Shared libraries below a folder, links not followed."""
    for folder, _, names in os.walk(home):
        for name in names:
            if name.endswith(".so") or ".so." in name:
                yield os.path.join(folder, name)
