"""More trees: an installed package, a source archive in memory, a source tree as a wheel."""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

from patcher.errors import InputError, UnsafePath
from patcher.package.model import RecordEntry
from patcher.tree import MAX_FILE_BYTES, FolderTree, read_plain

MAX_ARCHIVE_BYTES = 1 << 30  # of unpacked content; vllm's largest source archive has 60 MB
MAX_MEMBERS = 200_000


class InstalledTree(FolderTree):
    """site-packages: a link that leaves it is read when its bytes are those of RECORD.

    An installer may link every file into its cache; any other link out of the
    root raises UnsafePath, as in every FolderTree.
    """

    def __init__(self, root: Path, record: Mapping[str, RecordEntry]) -> None:
        super().__init__(root)
        self._record = record
        self._trusted: set[str] = set()

    def locate(self, path: str) -> str:
        try:
            return super().locate(path)
        except UnsafePath as error:
            if path not in self._trusted and not self._matches(path):
                entry = self._record.get(path)
                if entry is None or entry.digest:
                    raise
                raise UnsafePath(f"{error.what}, and RECORD has no hash to know it by",
                                 where=path, next_step="reinstall the package with copies, "
                                 "with uv --link-mode copy") from None
            self._trusted.add(path)
            return os.path.join(self.root, path)

    def _matches(self, path: str) -> bool:
        entry = self._record.get(path)
        if entry is None or not entry.digest:
            return False
        data = read_plain(os.path.join(self.root, path))
        return hashlib.new(entry.algorithm, data).hexdigest() == entry.digest


class SiteTree(FolderTree):
    """site-packages before any RECORD is known: metadata may be links into an installer's cache.

    What such a file says only labels, and RECORD only ever makes us more careful.
    """

    def locate(self, path: str) -> str:
        full = os.path.join(self.root, path)
        folder, _, name = path.rpartition("/")
        if folder.endswith(".dist-info") and "/" not in folder and name not in ("", ".", ".."):
            super().locate(folder)
            return full
        return super().locate(path)


class ArchiveTree:
    """A ``.tar.gz``, read once into memory. Its single top folder is taken off.

    Links and devices are left out. Raises InputError for an archive that is
    broken or too large, UnsafePath for a member that would leave it.
    """

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._files = _read_archive(archive)
        self._names: dict[str, set[str]] = {}
        self._folders: dict[str, set[str]] = {}
        for path in self._files:
            parent, _, leaf = path.rpartition("/")
            self._names.setdefault(parent, set()).add(leaf)
            while parent:
                above, _, leaf = parent.rpartition("/")
                self._folders.setdefault(above, set()).add(leaf)
                parent = above
        self._outside = FolderTree(Path("/"))

    @property
    def root(self) -> Path:
        return self._archive

    def read(self, path: str) -> bytes:
        if path.startswith("/"):
            return self._outside.read(path)
        try:
            return self._files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def names(self, folder: str) -> frozenset[str]:
        if folder.startswith("/"):
            return self._outside.names(folder)
        return frozenset(self._names.get(folder, ()))

    def folders(self, folder: str) -> frozenset[str]:
        if folder.startswith("/"):
            return self._outside.folders(folder)
        return frozenset(self._folders.get(folder, ()))


def _read_archive(archive: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    total = 0
    try:
        with tarfile.open(archive, "r|gz") as stream:
            for count, member in enumerate(stream):
                total += member.size
                if count >= MAX_MEMBERS or total > MAX_ARCHIVE_BYTES:
                    raise InputError("the archive is too large", where=str(archive))
                path = _safe(member.name)
                if member.isreg() and member.size <= MAX_FILE_BYTES:
                    handle = stream.extractfile(member)
                    files[path] = handle.read() if handle else b""
    except (OSError, tarfile.TarError, EOFError) as error:
        raise InputError(f"not a readable source archive: {error}", where=str(archive)) from error
    tops = {path.split("/")[0] for path in files}
    if len(tops) == 1 and all("/" in path for path in files):
        cut = len(tops.pop()) + 1
        files = {path[cut:]: data for path, data in files.items()}
    return files


def _safe(name: str) -> str:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts:
        raise UnsafePath("the archive holds a path that leaves it", where=name)
    return "/".join(parts)


class MappedTree:
    """A source tree read under the paths that its wheel would have.

    ``mapping`` says which folder of the repository stands behind a folder of
    the wheel; the other paths are the same in both.
    """

    def __init__(self, base: FolderTree | ArchiveTree, mapping: Mapping[str, str]) -> None:
        self.base = base
        self._mapping = dict(sorted(mapping.items(), key=lambda item: -len(item[0])))

    @property
    def root(self) -> Path:
        return self.base.root

    def inside(self, path: str) -> str:
        """The repository's path behind a wheel path."""
        for wheel, repository in self._mapping.items():
            if path == wheel or path.startswith(f"{wheel}/"):
                return repository + path[len(wheel):]
        return path

    def locate(self, path: str) -> str:
        """The absolute path on disk; raises UnsafePath when it would leave the tree."""
        if isinstance(self.base, FolderTree):
            return self.base.locate(self.inside(path))
        raise InputError("an archive has no files on disk", where=str(self.root))

    def read(self, path: str) -> bytes:
        return self.base.read(self.inside(path))

    def names(self, folder: str) -> frozenset[str]:
        return self.base.names(self.inside(folder))

    def folders(self, folder: str) -> frozenset[str]:
        prefix = f"{folder}/" if folder else ""
        mapped = {wheel[len(prefix):].split("/")[0] for wheel in self._mapping
                  if wheel.startswith(prefix) and len(wheel) > len(prefix)}
        return self.base.folders(self.inside(folder)) | mapped
