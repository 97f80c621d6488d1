"""The files of a walk: read once, lexed once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from patcher.cuda.lexer import CONDITIONAL, Directive, directives
from patcher.cuda.problems import MAX_FILE_BYTES
from patcher.cuda.shelf import Shelf
from patcher.cuda.skeleton import Op, Skeleton, build
from patcher.cuda.values import Values
from patcher.errors import PatcherError
from patcher.tree import Tree

_UNITS = (".cu", ".cc", ".cpp")  # nobody else includes them: kept with the scan, or not at all
Content = Callable[[str], str]  # a file's path to its digest, "" where it is not known
LoadedRow = tuple[Any, ...]  # a skeleton's row; that of a #define holds the macro itself
_DEFINE, _END = int(Op.DEFINE), int(Op.END)
_NAME = re.compile(r"(?<![\w.$])[A-Za-z_$\x80-\xff][\w$\x80-\xff]*")


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """``once`` is the name under which the table holds that the file was included."""

    digest: str
    rows: tuple[LoadedRow, ...]
    uses_next: bool
    once: str
    warnings: tuple[str, ...]
    defines: frozenset[str]


class Files:
    """Loads files of a tree; ``elifdef`` as in ``skeleton.build``.

    ``base`` are the files of a tree that differs in the ``changed`` ones alone.
    """

    def __init__(self, tree: Tree, values: Values, *, elifdef: bool, shelf: Shelf | None = None,
                 base: Files | None = None, changed: frozenset[str] = frozenset(),
                 content: Content = lambda path: "") -> None:
        self._tree = tree
        self._base = base
        self._changed = changed
        self._values = values
        self._elifdef = elifdef
        self._shelf = shelf
        self._content = content
        self._loaded: dict[str, LoadedFile | str] = {}
        self._digests: dict[str, str] = {}
        self._mentions: dict[str, frozenset[str]] = {}
        self._conditionals: dict[str, tuple[int, tuple[Directive, ...]]] = {}

    def load(self, path: str) -> LoadedFile | str:
        """The file, or why it cannot be read."""
        found = self._loaded.get(path)
        if found is None:
            shared = self._base if path not in self._changed else None
            found = self._loaded[path] = shared.load(path) if shared else self._read(path)
        return found

    def add(self, path: str, content: bytes) -> None:
        """A generated file that no tree holds."""
        self._digests[path] = _digest(content)
        self._loaded[path] = self._lex(content, self._digests[path])

    def digest(self, path: str) -> str:
        """Names a file's content; "" for one that cannot be read."""
        digest = self._digests.get(path)
        if digest is None:
            try:
                digest = _digest(self._tree.read(path))
            except (OSError, PatcherError):
                digest = ""
            self._digests[path] = digest
        return digest

    def defines(self, path: str) -> frozenset[str]:
        """Every name that some #define of a file defines."""
        file = self.load(path)
        return file.defines if isinstance(file, LoadedFile) else frozenset()

    def mentions(self, path: str) -> frozenset[str]:
        """Every name that occurs in a condition or a macro of a file."""
        names = self._mentions.get(path)
        if names is None:
            file = self.load(path)
            rows = file.rows if isinstance(file, LoadedFile) else ()
            texts = [row[3].body if row[0] == _DEFINE else row[3]
                     for row in rows if row[0] <= _DEFINE and row[0] != _END]
            names = self._mentions[path] = frozenset(_NAME.findall(" ".join(texts)))
        return names

    def once_key(self, path: str) -> str:
        """Equal files count as one for #pragma once, as gcc has it."""
        file = self._loaded[path]
        return file.once if isinstance(file, LoadedFile) else ""

    def _read(self, path: str) -> LoadedFile | str:
        try:
            return self._lexed_before(path) or self._lex_anew(path)
        except (OSError, PatcherError) as error:
            return f"cannot read {path}: {error}"

    def _lexed_before(self, path: str) -> LoadedFile | None:
        shelf = self._shelf
        if shelf is None or shelf.empty or path.endswith(_UNITS):
            return None
        digest = self._content(path)
        entry = shelf.get(digest) if digest else None
        if entry is None:
            return None
        self._digests[path] = digest
        return self._load(Skeleton.unpack(digest, entry))

    def _lex_anew(self, path: str) -> LoadedFile | str:
        data = self._tree.read(path)
        if len(data) > MAX_FILE_BYTES:
            return f"{path} is larger than {MAX_FILE_BYTES >> 20} MiB"
        digest = self._digests[path] = _digest(data)
        return self._lex(data, digest, path)

    def _lex(self, data: bytes, digest: str, path: str = "") -> LoadedFile:
        shelf = self._shelf if path and not path.endswith(_UNITS) else None
        entry = shelf.get(digest) if shelf else None
        if entry is not None:
            return self._load(Skeleton.unpack(digest, entry))
        found = directives(data)
        if path and not path.startswith("/"):
            self._conditionals[path] = data.count(b"\n") + 2, tuple(
                one for one in found if one.name in CONDITIONAL)
        skeleton = build(data, digest, elifdef=self._elifdef, found=found)
        if shelf:
            shelf.put(digest, skeleton.pack())
        return self._load(skeleton)

    def save(self) -> None:
        """Keep what was lexed for later processes."""
        if self._shelf:
            self._shelf.save()

    def conditionals(self, path: str) -> tuple[int, tuple[Directive, ...]] | None:
        """The line behind a file of the tree and its conditional directives, if it was lexed."""
        return self._conditionals.get(path)

    def _load(self, skeleton: Skeleton) -> LoadedFile:
        macro = self._values.macro
        rows: list[LoadedRow] = [
            (row[0], row[1], row[2], macro(row[3], row[4])) if row[0] == _DEFINE else row  # type: ignore[arg-type]
            for row in skeleton.rows
        ]
        once = f"@{skeleton.digest}" if skeleton.once else ""
        return LoadedFile(skeleton.digest, tuple(rows), skeleton.uses_next, once,
                          skeleton.warnings, skeleton.defines)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=20).hexdigest()
