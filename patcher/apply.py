"""The only module that writes into a target: carries out steps, forward or back.

A file is written beside its place, flushed, given the mode, owner and labels of
what it replaces, and renamed over it. So nobody ever sees half a file, a hard
link shared with an installer's cache keeps its bytes, and a link is replaced
instead of followed.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import shutil
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EEXIST, ENOENT, ENOTDIR, ENOTEMPTY
from pathlib import Path

from patcher.durable import sync_files, sync_folders
from patcher.engine.pyc import compiled_copies, compiled_folders
from patcher.engine.request import Step
from patcher.engine.target import is_now, writable_place
from patcher.errors import Conflict, UnsafePath
from patcher.journal import FileKey, Journal, Kind, Shape
from patcher.state import StateHome


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes for one transaction; its ``id`` marks its temporary files."""

    home: StateHome
    id: str
    content: Callable[[str], bytes]

    def prepare(self, steps: Sequence[Step]) -> None:
        """Make new folders and write every new file beside its place.

        A full disk or a read-only folder shows here, before any file changed.
        """
        written = []
        for step in steps:
            place = self._place(step)
            with _naming(place):
                if step.makes_folder:
                    os.mkdir(place, step.after.mode)
                elif _is_written(step):
                    self._write_beside(place, step.after)
                    if step.after.kind is Kind.FILE:
                        written.append(place)
        try:
            sync_files(map(self._beside, written))
        except OSError as error:
            named = {os.fspath(self._beside(place)): os.fspath(place) for place in written}
            error.filename = named.get(error.filename, error.filename)
            raise

    def carry_out(self, steps: Sequence[Step], begun: list[Step]) -> None:
        """Make the prepared steps, entering each in ``begun`` first.

        Raises Conflict when something else stands there by now.
        """
        for step in steps:
            place = self._place(step)
            if step.makes_folder:
                continue
            if not step.drops_folder and not is_now(place, step.before):
                raise Conflict("changed while it was being patched", where=str(place),
                               next_step="run the same command again")
            begun.append(step)
            with _naming(place):
                self._change(step, place)
        self._sync(steps)

    def settle(self, steps: Sequence[Step]) -> list[Step]:
        """Bring every step to its ``after``, wherever a crash left it; returns what is neither.

        What is neither old nor new is somebody else's, and is not touched.
        """
        self._discard(steps)
        foreign = []
        for step in steps:
            place = self._place(step)
            if is_now(place, step.after):
                self._forget_compiled(place)
            elif is_now(place, step.before) and place.parent.is_dir():
                self._change(step, place)  # a folder that was taken away is not made again
            elif not (step.makes_folder or step.drops_folder):
                foreign.append(step)
        self._sync(steps)
        return foreign

    def _change(self, step: Step, place: Path) -> None:
        before, after = step.before, step.after
        if step.makes_folder:
            os.mkdir(place, after.mode)
        elif step.drops_folder:
            _drop_folder(place)
        elif after.kind is Kind.MOVED:
            _move(place, place.parent / after.target)
        elif before.kind is Kind.MOVED:
            _move(place.parent / before.target, place)
        elif after.kind is Kind.ABSENT:
            os.unlink(place)
        else:
            beside = self._beside(place)
            if not os.path.lexists(beside):
                self._write_beside(place, after)
                if after.kind is Kind.FILE:
                    sync_files([beside])
            if after.kind is Kind.FILE:
                os.utime(beside)  # builders compare times: nothing built before may look newer
            os.replace(beside, place)
        self._forget_compiled(place)

    def _write_beside(self, place: Path, shape: Shape) -> None:
        beside = self._beside(place)
        if shape.kind is Kind.LINK:
            os.symlink(shape.target, beside)
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        handle = os.open(beside, flags, 0o600)
        try:
            with os.fdopen(handle, "wb", closefd=False) as file:
                file.write(self.content(shape.sha256))
            _dress(handle, place, shape.mode)
        finally:
            os.close(handle)

    def _forget_compiled(self, source: Path) -> None:
        for compiled in compiled_copies(source):
            with suppress(FileNotFoundError):
                os.unlink(compiled)
        if source.suffix == ".py" and not source.exists():
            with suppress(OSError):
                os.rmdir(source.parent / "__pycache__")

    def _sync(self, steps: Iterable[Step]) -> None:
        """Wait for every folder that may have changed, those of compiled copies too."""
        folders = set[Path]()
        for step in steps:
            place = self._place(step)
            folders |= {place.parent, *compiled_folders(place)}
            for shape in (step.before, step.after):
                if shape.kind is Kind.MOVED:
                    folders.add((place.parent / shape.target).parent)
        sync_folders(folders)

    def _discard(self, steps: Iterable[Step]) -> None:
        """Remove temporary files that a failed or killed transaction left behind."""
        for folder in sorted({self._place(step).parent for step in steps}):
            with suppress(FileNotFoundError, NotADirectoryError):
                for name in os.listdir(folder):
                    if name.startswith(f".smp-{self.id}-"):
                        os.unlink(folder / name)

    def _place(self, step: Step) -> Path:
        return writable_place(self.home.root(step.key.root), step.place)

    def _beside(self, place: Path) -> Path:
        # short, so that a name near the file system's limit still has a neighbour
        mark = hashlib.sha256(os.fsencode(place.name)).hexdigest()[:12]
        return place.parent / f".smp-{self.id}-{mark}"


def _is_written(step: Step) -> bool:
    """True when the step puts new bytes or a new link in place, instead of moving what is there."""
    return step.after.kind in (Kind.FILE, Kind.LINK) and step.before.kind is not Kind.MOVED


def _drop_folder(place: Path) -> None:
    try:
        os.rmdir(place)
    except OSError as error:
        # somebody keeps files there, or it has gone: then it is not ours any more
        if error.errno not in (ENOTEMPTY, EEXIST, ENOENT, ENOTDIR):
            raise


@contextmanager
def _naming(place: Path) -> Iterator[None]:
    """Errors name the file that is meant, not the temporary one beside it."""
    try:
        yield
    except OSError as error:
        error.filename = os.fspath(place)
        raise


def discard_asides(home: StateHome, journal: Journal, gone: Collection[str] = ()) -> None:
    """Remove what had been set aside and nobody can want back. Needs the lock.

    An installer has put another one in its place since, or has taken its package
    (one of ``gone``) away. What cannot be removed stays, and is in the way later.
    """
    lost = {FileKey(patch.root, path) for patchset in journal.patchsets.values()
            for group in patchset.groups.values() for patch in group.patches
            if patch.package in gone for path in patch.files}
    for key, entry in journal.files.items():
        for want in entry.wants.values():
            if want.kind is Kind.MOVED:
                with suppress(UnsafePath):
                    place = writable_place(home.root(key.root), entry.place or key.path)
                    if key in lost or os.path.lexists(place):
                        _remove(writable_place(place.parent, want.target))


def drop_empty_folders(home: StateHome, files: Iterable[FileKey]) -> None:
    """Folders that an uninstaller left for the sake of these files, which are gone by now."""
    for key in files:
        folder = posixpath.dirname(key.path)
        with suppress(OSError, UnsafePath):
            while folder:
                os.rmdir(writable_place(home.root(key.root), folder))
                folder = posixpath.dirname(folder)


def _remove(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=True)
    else:
        with suppress(OSError):
            os.unlink(place)


def _move(old: Path, new: Path) -> None:
    if os.path.lexists(new):  # a rename would silently replace it
        raise Conflict("in the way of a file to be set aside", where=str(new),
                       next_step="remove it")
    os.rename(old, new)


def _dress(handle: int, place: Path, mode: int) -> None:
    """Give a new file the mode, owner and labels of what stands at ``place``, as far as allowed."""
    try:
        info = os.lstat(place)
    except FileNotFoundError:
        info = None
    if info is not None and stat.S_ISREG(info.st_mode):
        mode = stat.S_IMODE(info.st_mode)
        for name in _labels(place):
            with suppress(OSError):
                os.setxattr(handle, name, os.getxattr(place, name, follow_symlinks=False))
    owner = info or os.lstat(place.parent)
    mine = os.fstat(handle)
    if (owner.st_uid, owner.st_gid) != (mine.st_uid, mine.st_gid):
        with suppress(PermissionError):
            os.fchown(handle, owner.st_uid, owner.st_gid)
    os.fchmod(handle, mode)


def _labels(place: Path) -> list[str]:
    try:
        return os.listxattr(place, follow_symlinks=False)
    except OSError:  # a file system without extended attributes
        return []
