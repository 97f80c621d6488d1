"""Which public functions reach a JIT module, through which bindings, and which source exports them.

FlashInfer's chain has four links: a public function or wrapper class asks a
getter for the built module; the getter calls a ``gen_*`` function and wraps
the module's functions; each of those calls a binding; a CUDA source exports
the binding. All four are read from syntax and from the export macro.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from patcher.package.model import Package
from patcher.profiles.base import JitModule, PublicFunction
from patcher.profiles.flashinfer.builds import package_sources

_EXPORT = re.compile(rb"TVM_FFI_DLL_EXPORT_TYPED_FUNC\(\s*(\w+)\s*,\s*&?([\w:]+)\s*\)")
_MAX_SOURCE = 4 << 20


@dataclass(slots=True)
class _Getter:
    """A function that builds a module; ``wraps`` maps what it hands out to bindings."""

    wraps: dict[str, set[str]] = field(default_factory=dict)
    plain: bool = False  # hands out the module itself: its attributes are bindings

    def bindings(self, uses: set[str]) -> set[str]:
        """The bindings behind the attributes used; all of them when the use is not followed."""
        if not uses:
            return set().union(*self.wraps.values())
        known = (self.wraps.get(name) or ({name} if self.plain else set()) for name in uses)
        return set().union(*known)


@dataclass(frozen=True, slots=True)
class _Definition:
    """A top-level function or class with every name it mentions."""

    path: str
    node: ast.FunctionDef | ast.ClassDef
    names: frozenset[str]

    @property
    def public(self) -> bool:
        return not self.node.name.startswith(("_", "gen_", "get_"))


class FunctionIndex:
    """The Python side of one package, parsed file by file when a name occurs in it."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self._texts = {path: package.tree.read(path) for path in package_sources(package)}
        self._definitions: dict[str, list[_Definition]] = {}

    def functions_of(self, module: JitModule) -> list[PublicFunction]:
        """The public functions that reach a module, by file and line."""
        exports = _exports(self.package, module)
        bindings: dict[tuple[str, str], set[str]] = {}
        users: dict[tuple[str, str], _Definition] = {}
        getters = self._getters(module.generator.function)
        wanted = [(name, getter) for name, getter in getters.items()]
        done = set(getters)
        while wanted:
            name, getter = wanted.pop()
            for user in self._mentioning(name):
                used = getter.bindings(_attributes_of(user.node, name))
                if user.public:
                    key = (user.path, user.node.name)
                    users[key] = user
                    bindings.setdefault(key, set()).update(used)
                elif user.node.name not in done and not user.node.name.startswith("gen_"):
                    done.add(user.node.name)
                    wanted.append((user.node.name, _through(user.node, name, getter, used)))
        found = []
        for key, user in sorted(users.items(), key=lambda u: (u[0][0], u[1].node.lineno)):
            known = sorted(bindings[key] & set(exports))
            sources = sorted({source for binding in known for source in exports[binding]})
            found.append(PublicFunction(user.node.name, user.path, user.node.lineno,
                                        tuple(known), tuple(sources)))
        return found

    def _mentioning(self, name: str) -> Iterator[_Definition]:
        """Definitions that mention a name, except the one that bears it."""
        wanted = name.encode()
        for path, text in self._texts.items():
            if wanted in text:
                if path not in self._definitions:
                    self._definitions[path] = list(_definitions(path, text))
                yield from (d for d in self._definitions[path]
                            if name in d.names and d.node.name != name)

    def _getters(self, generator: str) -> dict[str, _Getter]:
        """Functions that build what ``generator`` specifies, through specs of specs too."""
        found: dict[str, _Getter] = {}
        wanted, done = [generator], {generator}
        while wanted:
            for user in self._mentioning(wanted.pop()):
                node = user.node
                if isinstance(node, ast.ClassDef) or node.name in done:
                    continue
                done.add(node.name)
                if user.names & {"build_and_load", "load"} and not user.public:
                    found[node.name] = _read_getter(node)
                elif node.name.startswith("gen_") or not user.public:
                    wanted.append(node.name)
        return found


def _definitions(path: str, text: bytes) -> Iterator[_Definition]:
    if len(text) > _MAX_SOURCE:
        return
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield _Definition(path, node, frozenset(_name(n) for n in ast.walk(node)))


def _through(node: ast.FunctionDef | ast.ClassDef, name: str, getter: _Getter,
             used: set[str]) -> _Getter:
    """What a private function hands on: the getter's module itself, or only its own uses."""
    returned = any(isinstance(n, ast.Return) and n.value is not None and _mentions(n.value, name)
                   and not isinstance(n.value, ast.Attribute) for n in ast.walk(node))
    if returned and not _attributes_of(node, name):
        return getter
    return _Getter({node.name: used}, plain=False)


def _name(node: ast.AST) -> str:
    return getattr(node, "id", getattr(node, "attr", "")) or ""


def _mentions(node: ast.AST, name: str) -> bool:
    return any(_name(n) == name for n in ast.walk(node))


def _calls(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Call) and _name(n.func) == name for n in ast.walk(node))


def _builds(node: ast.AST) -> bool:
    """True for an expression that turns a spec into a loaded module."""
    return _calls(node, "build_and_load") or _calls(node, "load")


def _read_getter(node: ast.FunctionDef) -> _Getter:
    """What a getter hands out: wrapped functions by name, or the module itself."""
    getter = _Getter()
    nested = {n.name: n for n in ast.walk(node) if isinstance(n, ast.FunctionDef) and n is not node}
    modules = {t.id for n in ast.walk(node) if isinstance(n, ast.Assign) and _builds(n.value)
               for t in n.targets if isinstance(t, ast.Name)}
    # functions of the module under a local name: run = module.run
    aliases = {t.id: n.value.attr for n in ast.walk(node)
               if isinstance(n, ast.Assign) and isinstance(n.value, ast.Attribute)
               and _name(n.value.value) in modules for t in n.targets if isinstance(t, ast.Name)}
    reached = {name: _used(body, modules, aliases) for name, body in nested.items()}
    handed = [n for n in ast.walk(node) if isinstance(n, ast.Call)
              and _name(n.func) == "SimpleNamespace"]
    for call in handed:
        for keyword in call.keywords:
            target = _name(keyword.value)
            if keyword.arg:
                getter.wraps[keyword.arg] = reached.get(target) or (
                    {aliases[target]} if target in aliases else
                    {target} if isinstance(keyword.value, ast.Attribute) else set())
    getter.plain = not handed
    if getter.plain and reached:
        getter.wraps.update({name: names for name, names in reached.items() if names})
    return getter


def _used(body: ast.AST, modules: set[str], aliases: dict[str, str]) -> set[str]:
    """The bindings a wrapped function calls."""
    found = set()
    for node in ast.walk(body):
        if isinstance(node, ast.Attribute) and _name(node.value) in modules:
            found.add(node.attr)
        elif isinstance(node, ast.Name) and node.id in aliases:
            found.add(aliases[node.id])
    return found


def _attributes_of(node: ast.AST, getter: str) -> set[str]:
    """Attributes used of a getter's result: at once, through a name, or through ``self.x``."""
    holders: set[str] = set()
    last: set[str] = set()  # the holders' last names: a cheap test before unparsing
    for child in ast.walk(node):
        if isinstance(child, ast.Assign) and _calls(child.value, getter):
            holders |= {ast.unparse(t) for t in child.targets}
            last |= {_name(t) for t in child.targets}
    found = set()
    for child in ast.walk(node):
        if isinstance(child, ast.Attribute):
            direct = isinstance(child.value, ast.Call) and _name(child.value.func) == getter
            if direct or (_name(child.value) in last and ast.unparse(child.value) in holders):
                found.add(child.attr)
    return found


def _exports(package: Package, module: JitModule) -> dict[str, set[str]]:
    """Sources by binding: the file that exports it, and the one that defines what it exports."""
    made = {t.path: t.content for t in module.templates}
    texts = {}
    for source in module.sources:
        try:
            texts[source] = made[source] if source in made else package.tree.read(source)
        except FileNotFoundError:
            continue
    found: dict[str, set[str]] = {}
    for path, text in texts.items():
        for match in _EXPORT.finditer(text):
            function = match[2].rpartition(b"::")[2]
            body = re.compile(rb"\b" + function + rb"\s*\([^;{]*\)\s*(?:const\s*)?\{")
            definers = {p for p, t in texts.items() if function in t and body.search(t)}
            found.setdefault(match[1].decode(), set()).update(definers or {path})
    return found
