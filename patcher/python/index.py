"""The modules of a package, parsed on demand, and the definitions in them."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from patcher.errors import InputError, UnsafePath
from patcher.python.bindings import Binding, Bindings, FunctionNode, How, collect, walruses
from patcher.python.blocks import changed, condensed
from patcher.python.sieve import Marks, lines_of, marks
from patcher.python.vocabulary import vocabulary
from patcher.tree import Tree, exists

MAX_SOURCE_BYTES = 8 << 20  # the largest real module seen has 1 MB


def parse(source: bytes) -> ast.Module | None:
    """The syntax tree, None when this is not Python that can be parsed."""
    if len(source) > MAX_SOURCE_BYTES:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@dataclass(eq=False)
class Module:
    """One parsed file. ``dotted`` is its import name, ``package`` what dots count from."""

    path: str
    dotted: str
    package: str
    tree: ast.Module
    bindings: Bindings
    source: bytes
    marks: Marks
    whole: bytes  # the file, of which ``source`` may have only some blocks
    blocks: list[bytes]  # of ``source``
    left_out: bytes  # what is not in these
    inner: dict[int, Bindings] = field(default_factory=dict)
    cache: dict[object, object] = field(default_factory=dict)

    @cached_property
    def walrus(self) -> list[int]:
        """The lines with assignment expressions."""
        return walruses(self.source)

    @cached_property
    def lines(self) -> list[bytes]:
        """The lines as syntax positions count them."""
        source = self.source
        if b"\r" in source:
            source = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return source.split(b"\n")

    @cached_property
    def hinted(self) -> list[int]:
        """The lines of the whole file that hint at an architecture, ascending."""
        return lines_of(self.whole, self.marks.hints)

    def clear(self) -> None:
        """Let go of what leads back to the syntax tree, which is then freed with the module."""
        self.inner.clear()
        self.cache.clear()
        self.bindings.clear()

    def bindings_of(self, node: FunctionNode | ast.ClassDef) -> Bindings:
        """The bindings of a function or class body, collected once."""
        found = self.inner.get(id(node))
        if found is None:
            body = [] if isinstance(node, ast.Lambda) else node.body
            found = self.inner[id(node)] = collect(body, walrus=self.walrus)
        return found


@dataclass(frozen=True, eq=False)
class Function:
    """A function as a value. ``owner`` is its class, ``parent`` the enclosing scope."""

    node: FunctionNode
    module: Module
    owner: Class | None = None
    parent: object = None


@dataclass(frozen=True, eq=False)
class Class:
    node: ast.ClassDef
    module: Module

    def attributes(self) -> Bindings:
        """Class attributes by name, and what methods assign to ``self.NAME``."""
        key = ("attributes", id(self.node))
        found = self.module.cache.get(key)
        if not isinstance(found, dict):
            found = self.module.cache[key] = self._attributes()
        return found

    def _attributes(self) -> Bindings:
        found = {name: list(places) for name, places
                 in self.module.bindings_of(self.node).items() if "." not in name}
        for method in self.methods():
            for name, places in self.module.bindings_of(method).items():
                owner, dot, attribute = name.partition(".")
                if dot and owner in ("self", "cls"):
                    found.setdefault(attribute, []).extend(places)
            for name, place in _set_attributes(method):
                found.setdefault(name, []).append(place)
        return found

    def methods(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [n for n in self.node.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]

    def method_of(self, binding: Binding) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The method in which an attribute is assigned, None for the class body."""
        for method in self.methods():
            if method.lineno <= binding.line <= (method.end_lineno or method.lineno):
                return None if binding.node is method else method
        return None


def _set_attributes(method: FunctionNode) -> Iterator[tuple[str, Binding]]:
    """``object.__setattr__(self, "name", value)`` in a class that guards its attributes."""
    for node in getattr(method, "body", []):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) \
                and len(node.value.args) == 3 and isinstance(node.value.args[1], ast.Constant) \
                and ast.unparse(node.value.func) == "object.__setattr__":
            yield str(node.value.args[1].value), Binding(
                How.ASSIGN, node.value.args[2], node.lineno, sure=True)


@dataclass(frozen=True, slots=True)
class External:
    """Something outside the index, known by its dotted name only."""

    dotted: str


class Index:
    """Modules of the import packages in a tree, by dotted name. Only files below
    ``folder`` (the top folder of one package) are read; the rest is External."""

    def __init__(self, tree: Tree | None, folder: str) -> None:
        self._tree = tree
        self._top = folder.strip("/").split("/")[0]
        self._modules: dict[str, Module | None] = {}
        self._wanted: set[str] = set()
        self._marks: dict[tuple[str, int], Marks] = {}

    def replaced(self, path: str, source: bytes) -> Index:
        """The same package with other bytes in one file; parsed modules are shared."""
        other = Index(self._tree, self._top)
        other._modules = {**self._modules}
        other.add(path, source)
        return other

    def add(self, path: str, source: bytes) -> Module | None:
        """Parse ``source`` as the file at ``path`` (instead of what the tree holds)."""
        return self._put(path, source, ([source], b""), parse(source))

    def _put(self, path: str, source: bytes, parts: tuple[list[bytes], bytes],
             tree: ast.Module | None) -> Module | None:
        module = self._modules[path] = None if tree is None else _module(
            path, parts, tree, self.marks(path, source), source)
        return module

    def scanned(self, path: str, source: bytes) -> Module | None:
        """The module without long blocks that cannot hold a gate: for looking, not for editing."""
        known = self._modules.get(path)
        if known is not None and known.whole == source:
            return known
        parts = condensed(source, self.marks(path, source))
        tree = parse(b"".join(parts[0])) if parts[1] else None
        return self.add(path, source) if tree is None else self._put(path, source, parts, tree)

    def widened(self, module: Module, names: Iterable[str]) -> Module | None:
        """The module with the blocks that have one of the names, too; only these are parsed."""
        whole = module.whole
        parts = condensed(whole, module.marks.and_names(whole, names))
        more, lines = changed(module.blocks, parts[0])
        tree = parse(more)
        if tree is None:
            return self.add(module.path, whole)
        stays = [node for node in module.tree.body
                 if not any(first <= node.lineno <= last for first, last in lines)]
        body = sorted([*stays, *tree.body], key=lambda node: node.lineno)
        return self._put(module.path, whole, parts, ast.Module(body, []))

    def marks(self, path: str, source: bytes) -> Marks:
        """What the vocabulary's words say of a file, remembered."""
        key = (path, hash(source))
        if key not in self._marks:
            self._marks[key] = marks(source, vocabulary().words)
        return self._marks[key]

    def forget(self, path: str) -> None:
        """Free a module that no other has asked for."""
        module = self._modules.get(path)
        if module is not None and path not in self._wanted:
            del self._modules[path]
            module.clear()

    def forget_all(self) -> None:
        """Free every module."""
        for module in filter(None, self._modules.values()):
            module.clear()
        self._modules.clear()

    def at(self, path: str) -> Module | None:
        """The module at a path, None when it is absent or not Python."""
        if path not in self._modules:
            try:
                self._modules[path] = None
                if self._tree is not None:
                    self.scanned(path, self._tree.read(path))
            except (OSError, InputError, UnsafePath):
                self._modules[path] = None
        return self._modules[path]

    def module(self, dotted: str) -> Module | None:
        """The module with an import name, if it belongs to the package."""
        base = dotted.replace(".", "/")
        if base.split("/")[0] != self._top:
            return None
        for path in (f"{base}.py", f"{base}/__init__.py"):
            known = self._modules.get(path)
            if known or (self._tree is not None and exists(self._tree, path)):
                self._wanted.add(path)
                return self.at(path)
        return None

    def is_inside(self, dotted: str) -> bool:
        return dotted.split(".")[0] == self._top


def _module(path: str, parts: tuple[list[bytes], bytes], tree: ast.Module, marks: Marks,
            whole: bytes) -> Module:
    dotted = path.removesuffix(".py").replace("/", ".")
    if dotted.endswith(".__init__"):
        dotted = package = dotted.removesuffix(".__init__")
    else:
        package = dotted.rpartition(".")[0]
    blocks, left_out = parts
    source = blocks[0] if len(blocks) == 1 else b"".join(blocks)
    bindings = collect(tree.body, walrus=walruses(source))
    return Module(path, dotted, package, tree, bindings, source, marks, whole, blocks,
                  left_out)


def absolute(module: Module, node: ast.ImportFrom) -> str:
    """The dotted module that ``from ..x import`` names, seen from ``module``."""
    if not node.level:
        return node.module or ""
    parts = module.package.split(".")
    base = parts[:len(parts) - node.level + 1]
    return ".".join([*base, *([node.module] if node.module else [])])
