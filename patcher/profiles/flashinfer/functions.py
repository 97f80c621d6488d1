"""Which public functions reach a JIT module, through which bindings, and which source exports them.

FlashInfer's chain has four links: a public function or wrapper class asks a
getter for the built module; the getter calls a ``gen_*`` function and wraps
the module's functions; each of those calls a binding; a CUDA source exports
the binding. All four are read from syntax and from the export macro.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from patcher.package.model import Package
from patcher.profiles.base import JitModule, PublicFunction
from patcher.profiles.flashinfer.builds import package_sources
from patcher.profiles.references import Definition, References, called

_EXPORT = re.compile(rb"TVM_FFI_DLL_EXPORT_TYPED_FUNC\(\s*(\w+)\s*,\s*&?([\w:]+)\s*\)")
_Key = tuple[str, str]  # the file and name of a definition


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


class FunctionIndex:
    """Answers for one package; what was parsed is kept."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self._references = References(package.tree, package_sources(package))

    def functions_of(self, module: JitModule) -> list[PublicFunction]:
        """The public functions that reach a module, by file and line."""
        exports = _exports(self.package, module)
        found: dict[_Key, tuple[Definition, set[str]]] = {}
        wanted = list(self._getters((module.generator.path, module.generator.function)).items())
        done = {key for key, _ in wanted}
        while wanted:
            origin, getter = wanted.pop()
            for user in self._references.users(*origin):
                key = (user.path, user.node.name)
                used = getter.bindings(_attributes_of(user.node, origin[1]))
                if _is_public(user.node.name):
                    found.setdefault(key, (user, set()))[1].update(used)
                elif key not in done and not user.node.name.startswith("gen_"):
                    done.add(key)
                    wanted.append((key, _through(user.node, origin[1], getter, used)))
        return [_public_function(user, names, exports) for user, names in
                sorted(found.values(), key=lambda item: (item[0].path, item[0].node.lineno))]

    def _getters(self, generator: _Key) -> dict[_Key, _Getter]:
        """Functions that build what ``generator`` specifies, through specs of specs too."""
        found: dict[_Key, _Getter] = {}
        wanted, done = [generator], {generator}
        while wanted:
            for user in self._references.users(*wanted.pop()):
                key = (user.path, user.node.name)
                if isinstance(user.node, ast.ClassDef) or key in done:
                    continue
                done.add(key)
                private = not _is_public(user.node.name)
                if user.names & {"build_and_load", "load"} and private:
                    found[key] = _read_getter(user.node)
                elif private:
                    wanted.append(key)
        return found


def _is_public(name: str) -> bool:
    """Getters and generators are FlashInfer's inside, although some are exported."""
    return not name.startswith(("_", "gen_", "get_"))


def _public_function(user: Definition, names: set[str],
                     exports: dict[str, set[str]]) -> PublicFunction:
    known = sorted(names & set(exports))
    sources = sorted({source for binding in known for source in exports[binding]})
    return PublicFunction(user.node.name, user.path, user.node.lineno, tuple(known), tuple(sources))


def _through(node: ast.FunctionDef | ast.ClassDef, name: str, getter: _Getter,
             used: set[str]) -> _Getter:
    """What a private function hands on: the getter's module itself, or only its own uses."""
    returned = any(isinstance(n, ast.Return) and n.value is not None and _mentions(n.value, name)
                   and not isinstance(n.value, ast.Attribute) for n in ast.walk(node))
    if returned and not _attributes_of(node, name):
        return getter
    return _Getter({node.name: used}, plain=False)


def _mentions(node: ast.AST, name: str) -> bool:
    return any(called(n) == name for n in ast.walk(node))


def _calls(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Call) and called(n.func) == name for n in ast.walk(node))


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
               and called(n.value.value) in modules for t in n.targets if isinstance(t, ast.Name)}
    reached = {name: _used(body, modules, aliases) for name, body in nested.items()}
    handed = [n for n in ast.walk(node) if isinstance(n, ast.Call)
              and called(n.func) == "SimpleNamespace"]
    for call in handed:
        for keyword in call.keywords:
            target = called(keyword.value)
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
        if isinstance(node, ast.Attribute) and called(node.value) in modules:
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
            last |= {called(t) for t in child.targets}
    found = set()
    for child in ast.walk(node):
        if isinstance(child, ast.Attribute):
            direct = isinstance(child.value, ast.Call) and called(child.value.func) == getter
            if direct or (called(child.value) in last and ast.unparse(child.value) in holders):
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
