"""A machine that loses power: what a disk may hold then, and what recovery makes of it.

Every call that changes the disk is recorded with the barriers between them.
After a power cut the disk holds all that a barrier made durable, and of the
rest any part: POSIX promises an entry of a folder only by fsync of that
folder, the bytes of a file only by fsync of that file, and renames are whole.
Such parts are replayed into a fresh tree, which then has to start again.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.engine.watched import Watched

EXHAUSTIVE = 5  # pending entries up to which every part of them is tried
SAMPLES = 20  # seeded parts tried beyond that, besides none, all, and all but one or only one

Operation = dict[str, Any]
_write = os.write


class Recorder:
    """Writes every change below ``base`` to a log at once, so that it survives a kill."""

    def __init__(self, base: Path, log: Path) -> None:
        self.base = f"{base}/"
        self.known: dict[int, str] = {}
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def arm(self) -> None:
        """Wrap this process's calls; there is no way back, so do it in a child."""
        for name in ("mkdir", "rmdir", "unlink", "symlink", "replace", "rename"):
            setattr(os, name, self._entry(name, getattr(os, name)))
        os.fsync = self._fsync  # type: ignore[assignment]
        for name, wrap in (("open", self._open), ("fchmod", self._fchmod),
                           ("fdopen", self._fdopen)):
            setattr(os, name, wrap(getattr(os, name)))

    def note(self, kind: str, **what: Any) -> None:
        _write(self.log, json.dumps({"op": kind, **what}).encode() + b"\n")

    def _inside(self, path: Any, folder: int | None = None) -> str | None:
        """The path below the base, None for what lies elsewhere."""
        text = os.fsdecode(path)
        if folder is not None:
            text = f"{self.known.get(folder, '')}/{text}"
        text = os.path.normpath(os.path.join(os.getcwd(), text))
        if f"{text}/" == self.base:
            return "."
        return text.removeprefix(self.base) if text.startswith(self.base) else None

    def _entry(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            result = real(*arguments, **options)
            paths = arguments[1:2] if name == "symlink" else arguments[:2]
            if name in ("mkdir", "rmdir", "unlink"):
                paths = arguments[:1]
            names = [self._inside(path, options.get("dir_fd")) for path in paths]
            if None not in names:
                more = {"target": os.fsdecode(arguments[0])} if name == "symlink" else {}
                self.note("rename" if name == "replace" else name, paths=names, **more)
            return result

        return call

    def _open(self, real: Callable[..., int]) -> Callable[..., int]:
        def call(path: Any, flags: int, *mode: Any, dir_fd: int | None = None) -> int:
            there = self._inside(path, dir_fd)
            fresh = bool(flags & os.O_CREAT) and there is not None and not os.path.lexists(
                self.base + there)
            handle = real(path, flags, *mode, dir_fd=dir_fd)
            self.known[handle] = self.base + there if there is not None else os.fsdecode(path)
            if fresh:
                self.note("create", paths=[there], file=os.fstat(handle).st_ino)
            return handle

        return call

    def _fsync(self, handle: int) -> None:
        """Recorded, not waited for: this machine keeps its power."""
        info, there = os.fstat(handle), self._inside(self.known.get(handle, "/"))
        if there is not None:
            self.note("sync", path=there, file=info.st_ino)

    def _fchmod(self, real: Callable[[int, int], None]) -> Callable[[int, int], None]:
        def call(handle: int, mode: int) -> None:
            real(handle, mode)
            self.note("mode", file=os.fstat(handle).st_ino, mode=mode)

        return call

    def _fdopen(self, real: Callable[..., Any]) -> Callable[..., Any]:
        recorder = self

        def call(handle: int, *arguments: Any, **options: Any) -> Any:
            file = real(handle, *arguments, **options)

            def noted(data: bytes) -> int:
                recorder.note("write", file=os.fstat(handle).st_ino,
                              data=base64.b64encode(data).decode())
                return int(file.write(data))

            return Watched(file, noted)

        return call


def read_log(log: Path) -> list[Operation]:
    return [json.loads(line) for line in log.read_text().splitlines()]


@dataclass
class Disk:
    """What is known to be durable, and what is not, after a number of calls.

    Files are numbered anew: inode numbers are given away again.
    """

    entries: list[Operation] = field(default_factory=list)  # changes of folders, in order
    durable: set[int] = field(default_factory=set)  # indices of entries behind a barrier
    needs: dict[int, set[str]] = field(default_factory=dict)  # barriers an entry still needs
    files: dict[int, int] = field(default_factory=dict)  # inode number to the latest file's
    data: dict[int, bytes] = field(default_factory=dict)
    modes: dict[int, int] = field(default_factory=dict)
    synced: set[int] = field(default_factory=set)  # files whose bytes are durable

    def take(self, operation: Operation) -> None:
        kind, file = operation["op"], self.files.get(operation.get("file", 0), -1)
        if kind == "write":
            self.data[file] = self.data.get(file, b"") + base64.b64decode(operation["data"])
            self.synced.discard(file)
        elif kind == "mode":
            self.modes[file] = operation["mode"]
        elif kind == "sync":
            self.synced.add(file)
            for index, needed in self.needs.items():
                needed.discard(operation["path"])
                if not needed:
                    self.durable.add(index)
        else:
            number = len(self.entries)
            if kind == "create":
                self.files[operation["file"]] = number
                operation = {**operation, "file": number}
            self.needs[number] = {os.path.dirname(path) or "." for path in operation["paths"]}
            self.entries.append(operation)

    @property
    def pending(self) -> list[int]:
        return [index for index in range(len(self.entries)) if index not in self.durable]


def parts(pending: Sequence[int], choose: random.Random) -> Iterator[frozenset[int]]:
    """Which of the pending entries made it to the disk."""
    if len(pending) <= EXHAUSTIVE:
        for count in range(len(pending) + 1):
            yield from map(frozenset, itertools.combinations(pending, count))
        return
    everything = frozenset(pending)
    yield from (frozenset(), everything)
    for index in pending:
        yield from (everything - {index}, frozenset({index}))
    for _ in range(SAMPLES):
        yield frozenset(index for index in pending if choose.random() < 0.5)


def rebuild(start: Path, place: Path, disk: Disk, kept: frozenset[int], tear: int) -> bytes:
    """The tree after the cut: ``kept`` of the pending entries, unsynced bytes torn.

    An entry whose ground is not there (its folder was lost) is lost with it.
    Returns what tells this outcome from others.
    """
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(start, place, symlinks=True)
    chosen = sorted(disk.durable | kept)
    for index in chosen:
        operation = disk.entries[index]
        paths = [place / path for path in operation["paths"]]
        try:
            _ENTRY[operation["op"]](disk, operation, paths, tear)
        except OSError:
            continue
    return repr(sorted(_outcome(place))).encode()


def _create(disk: Disk, operation: Operation, paths: list[Path], tear: int) -> None:
    number = operation["file"]
    data = disk.data.get(number, b"")
    if number not in disk.synced:
        data = (data, b"", data[:len(data) // 2])[tear]
    with paths[0].open("xb") as file:
        file.write(data)
    paths[0].chmod(disk.modes.get(number, 0o600))


_ENTRY: dict[str, Callable[[Disk, Operation, list[Path], int], object]] = {
    "create": _create,
    "mkdir": lambda _disk, _operation, paths, _tear: paths[0].mkdir(),
    # with its entry a folder goes, whatever of its own entries had been written back
    "rmdir": lambda _disk, _operation, paths, _tear: shutil.rmtree(paths[0]),
    "unlink": lambda _disk, _operation, paths, _tear: paths[0].unlink(),
    "symlink": lambda _disk, operation, paths, _tear: paths[0].symlink_to(operation["target"]),
    "rename": lambda _disk, _operation, paths, _tear: os.replace(*paths),
}


def _outcome(place: Path) -> Iterator[tuple[str, bytes]]:
    for folder, _, names in os.walk(place):
        yield folder, b""
        for name in names:
            path = Path(folder, name)
            yield str(path), (os.readlink(path).encode() if path.is_symlink()
                              else path.read_bytes())


@dataclass
class Cuts:
    """Every outcome of every cut of a recorded log, each distinct tree once."""

    log: list[Operation]
    start: Path
    place: Path
    first: int = 0  # cuts before this call are left to others
    seed: int = 1
    sampled: int = 0
    exhaustive: int = 0

    def __iter__(self) -> Iterator[tuple[int, Path]]:
        disk, seen, choose = Disk(), set[bytes](), random.Random(self.seed)
        for number in range(len(self.log) + 1):
            if number:
                disk.take(self.log[number - 1])
            if number < self.first:
                continue
            pending = disk.pending
            if len(pending) <= EXHAUSTIVE:
                self.exhaustive += 1
            else:
                self.sampled += 1
            for kept in parts(pending, choose):
                torn = any(disk.entries[i]["op"] == "create"
                           and disk.entries[i]["file"] not in disk.synced
                           for i in disk.durable | kept)
                for tear in range(3 if torn else 1):
                    key = rebuild(self.start, self.place, disk, kept, tear)
                    if key not in seen:
                        seen.add(key)
                        yield number, self.place


__all__ = ["Cuts", "Recorder", "read_log"]
