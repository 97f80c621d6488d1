"""Who mentions a function of a package: names resolved through imports and re-exports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from patcher.tree import Tree, exists

_SPACED = re.sub(rb"\W", b" ", bytes(range(256)))  # what is no part of a word becomes a space
_DEFINED = re.compile(rb"^(?:async )?(?:def|class) (\w+)", re.MULTILINE)
_MAX_SOURCE = 4 << 20
_MAX_HOPS = 6  # re-exports between an import and a definition
_KEPT = 256  # parsed files held at once; their trees are large


@dataclass(frozen=True, slots=True)
class Definition:
    """A top-level function or class with every name it mentions."""

    path: str
    node: ast.FunctionDef | ast.ClassDef
    names: frozenset[str]


@dataclass(slots=True)
class _Parsed:
    definitions: list[Definition] = field(default_factory=list)
    imports: list[tuple[str, str, str]] = field(default_factory=list)  # module, name, bound name

    @property
    def defined(self) -> set[str]:
        return {d.node.name for d in self.definitions}


class References:
    """The index holds, for every name that some file defines at top level, the files it occurs in.

    FlashInfer 0.7.4 has 114 MB of Python: files are parsed only when a name occurs in them
    as an import or an attribute.
    """

    def __init__(self, tree: Tree, paths: Iterable[str]) -> None:
        self._tree = tree
        self._parsed = lru_cache(maxsize=_KEPT)(self._parse)
        words: dict[str, set[bytes]] = {}
        defined: set[bytes] = set()
        for path in paths:
            text = tree.read(path)
            defined.update(_DEFINED.findall(text))
            words[path] = set(text.translate(_SPACED).split())
        self._files: dict[str, list[str]] = {}
        for path, found in words.items():
            for name in found & defined:
                self._files.setdefault(name.decode(), []).append(path)

    def users(self, path: str, name: str) -> Iterator[Definition]:
        """Definitions that mention the function ``name`` that ``path`` defines."""
        for file in self._files.get(name, ()):
            if file != path and not self._may_use(file, path, name):
                continue
            parsed = self._parsed(file)
            if file == path or self._refers(parsed, path, name):
                yield from (d for d in parsed.definitions
                            if name in d.names and (file, d.node.name) != (path, name))

    def _may_use(self, file: str, path: str, name: str) -> bool:
        """A cheap look at the text before it is parsed."""
        text, word = self._tree.read(file), re.escape(name.encode())
        stem = path.removesuffix("/__init__.py").removesuffix(".py").rpartition("/")[2].encode()
        imported = rb"\bimport\s*(?:\([^)]*?\b" + word + rb"\b|[^\n(]*\b" + word + rb"\b)"
        return bool((stem in text and b"." + name.encode() in text) or re.search(imported, text))

    def _refers(self, parsed: _Parsed, path: str, name: str) -> bool:
        for base, imported, _ in parsed.imports:
            if imported == name and self._origin(base, name) == path:
                return True
            if self._file(f"{base}.{imported}" if imported else base) == path:
                return True  # the module itself is imported: its attribute may be meant
        return False

    def _origin(self, base: str, name: str, hops: int = 0) -> str | None:
        """The file that defines what ``from base import name`` brings."""
        file = self._file(base)
        if file is None or hops > _MAX_HOPS:
            return None
        parsed = self._parsed(file)
        if name in parsed.defined:
            return file
        for inner, imported, bound in parsed.imports:
            if bound == name or imported == "*":
                found = self._origin(inner, name if imported == "*" else imported, hops + 1)
                if found is not None:
                    return found
        return None

    def _file(self, module: str) -> str | None:
        stem = module.replace(".", "/")
        paths = (f"{stem}.py", f"{stem}/__init__.py")
        return next((p for p in paths if exists(self._tree, p)), None)

    def _parse(self, path: str) -> _Parsed:
        parsed = _Parsed()
        text = self._tree.read(path)
        try:
            tree = ast.parse(text) if len(text) <= _MAX_SOURCE else ast.Module([], [])
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return parsed
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names = frozenset(called(n) for n in ast.walk(node))
                parsed.definitions.append(Definition(path, node, names))
        package = path.rpartition("/")[0].split("/")
        for child in ast.walk(tree):
            if isinstance(child, ast.ImportFrom):
                up = package[:len(package) - child.level + 1] if child.level else []
                base = ".".join([*up, *([child.module] if child.module else [])])
                parsed.imports += [(base, a.name, a.asname or a.name) for a in child.names]
            elif isinstance(child, ast.Import):
                parsed.imports += [(a.name, "", a.asname or a.name) for a in child.names]
        return parsed


def called(node: ast.AST) -> str:
    """The last name of a name or attribute, empty for any other node."""
    return getattr(node, "id", getattr(node, "attr", "")) or ""
