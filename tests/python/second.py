"""A second opinion on one Python gate: Python itself runs the test, with stubs for the rest.

Only the expression of the gate runs, and what it names: definitions of capability tests in the
package's own source, each cut out and executed alone. Names that nothing explains answer by
chance, many times over. Nothing of a package is imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

from patcher.arch import Target

_DEPTH = 3
_TRIALS = 60
_ABOUT = re.compile(r"sm_?\d|capabilit|arch|major|blackwell|hopper", re.IGNORECASE)
_NUMBER = ("arch", "sm", "cc", "capability", "cuda_arch", "device_arch", "sm_version")


class Capability(NamedTuple):
    """As torch and vLLM give it."""

    major: int
    minor: int

    def to_int(self) -> int:
        return self.major * 10 + self.minor

    def as_version_str(self) -> str:
        return f"{self.major}.{self.minor}"


class Anything:
    """Whatever a name may be; so are its calls, attributes and items, each true by chance."""

    def __init__(self, chance: Random) -> None:
        self._chance, self._truth = chance, chance.random() < 0.5

    def __bool__(self) -> bool:
        return self._truth  # always the same: ``a and b`` asks, and then gives ``a``

    def __call__(self, *args: object, **keywords: object) -> Anything:
        return Anything(self._chance)

    def __getattr__(self, name: str) -> Anything:
        return Anything(self._chance)

    def __getitem__(self, key: object) -> Anything:
        return Anything(self._chance)

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __hash__(self) -> int:
        return 0

    def _answer(self, other: object) -> bool:
        return self._chance.random() < 0.5

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = _answer

    def _same(self, other: object) -> Anything:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __mod__ = _same


class Loose(SimpleNamespace):
    """A namespace with some names; every other is anything."""

    def __getattr__(self, name: str) -> Any:
        return self.anything


def world(target: Target, chance: Random) -> dict[str, Any]:
    """The names that tell an architecture, on one target."""
    cc = Capability(target.capability.major, target.capability.minor)

    def number(asked: Any) -> int:
        return asked if isinstance(asked, int) else asked[0] * 10 + asked[1]

    anything = Anything(chance)
    cuda = Loose(anything=anything,
        get_device_capability=lambda *a, **k: cc, is_available=lambda: True,
        get_device_properties=lambda *a, **k: SimpleNamespace(major=cc.major, minor=cc.minor),
        get_device_name=lambda *a, **k: anything, current_device=lambda: 0)
    platform = Loose(anything=anything,
        get_device_capability=lambda *a, **k: cc, is_cuda=lambda: True, is_rocm=lambda: False,
        is_cuda_alike=lambda: True, is_xpu=lambda: False, is_cpu=lambda: False,
        has_device_capability=lambda asked, *a, **k: cc.to_int() >= number(asked),
        is_device_capability=lambda asked, *a, **k: cc.to_int() == number(asked),
        is_device_capability_family=lambda asked, *a, **k: cc.to_int() // 10 == asked // 10)
    torch = Loose(anything=anything, cuda=cuda, version=SimpleNamespace(cuda="13.0", hip=None))
    return {
        "torch": torch, "current_platform": platform, "get_platform": lambda: platform,
        "get_compute_capability": lambda *a, **k: cc, "get_device_capability": lambda *a, **k: cc,
        "get_device_sm": lambda *a, **k: cc.to_int(), "is_cuda": lambda: True,
        "is_hip": lambda: False, "is_npu": lambda: False, "is_cuda_alike": lambda: True,
    }


def parameter(name: str, target: Target) -> Any:
    """What a parameter of that name is given; None when it says nothing."""
    if name.endswith("capability") and "cuda_" not in name:
        return Capability(target.capability.major, target.capability.minor)
    if name == "sm_version":
        return f"sm_{target.number}"
    if name in _NUMBER or name.endswith("capability"):
        return target.number
    plain = {"major": target.capability.major, "minor": target.capability.minor}
    return plain.get(name.rpartition("_")[2])


@dataclass
class Package:
    """The sources of one package, searched for definitions by name."""

    root: Path
    folder: str
    _trees: dict[str, ast.Module] = field(default_factory=dict)
    _places: dict[str, list[tuple[str, ast.stmt]]] = field(default_factory=dict)
    _locals: dict[tuple[str, str, int], ast.expr | None] = field(default_factory=dict)

    def assigned(self, path: str, name: str, line: int) -> ast.expr | None:
        key = path, name, line
        if key not in self._locals:
            self._locals[key] = _assigned(self.tree(path), name, line)
        return self._locals[key]

    def tree(self, path: str) -> ast.Module:
        if path not in self._trees:
            self._trees[path] = ast.parse((self.root / path).read_bytes())
        return self._trees[path]

    def index(self, paths: list[str]) -> None:
        """Definitions of functions and of names at the top level of these files."""
        for path in paths:
            for node in self.tree(path).body:
                names = [node.name] if isinstance(node, ast.FunctionDef) else [
                    t.id for t in getattr(node, "targets", ()) if isinstance(t, ast.Name)]
                for name in names:
                    self._places.setdefault(name, []).append((path, node))
                for inner in node.body if isinstance(node, ast.ClassDef) else ():
                    if isinstance(inner, ast.FunctionDef):
                        self._places.setdefault(f".{inner.name}", []).append((path, inner))

    def methods(self, name: str) -> list[tuple[str, ast.stmt]]:
        """The methods of that name in any class."""
        return self._places.get(f".{name}", [])

    def defined(self, name: str, path: str) -> tuple[str, ast.stmt | None]:
        """Where a name of that file is defined: in it, or wherever the package does."""
        places = self._places.get(name, [])
        own = [place for place in places if place[0] == path]
        return own[-1] if own else places[0] if places else (path, None)


class Names(dict[str, Any]):
    """Global names of an expression: stubs, then the source's own definitions, then anything."""

    def __init__(self, package: Package, path: str, line: int, target: Target, chance: Random,
                 depth: int = 0) -> None:
        super().__init__(world(target, chance))
        self._at = package, path, line, target, chance, depth

    def __missing__(self, name: str) -> Any:
        package, path, line, target, chance, depth = self._at
        if name == "__builtins__":
            return {}
        if name in _PLAIN:
            return _PLAIN[name]
        if depth > _DEPTH:
            return Anything(chance)
        inner = Names(package, path, line, target, chance, depth + 1)
        if name in ("self", "cls"):
            return Own(inner, _around(package.tree(path), line, ast.ClassDef))
        local = package.assigned(path, name, line)
        if local is not None:
            return _run(local, inner)
        where, node = package.defined(name, path)
        if node is None:
            given = parameter(name, target)
            return Anything(chance) if given is None else given
        there = Names(package, where, node.end_lineno or 0, target, chance, depth + 1)
        if isinstance(node, ast.FunctionDef):
            return _function(node, there)
        return _run(node.value, there) if isinstance(node, ast.Assign) else Anything(chance)


class Own:
    """``self``: methods and attributes as the class around the gate writes them."""

    def __init__(self, names: Names, around: list[ast.ClassDef]) -> None:
        self.__dict__["_names"], self.__dict__["_classes"] = names, around

    def __getattr__(self, name: str) -> Any:
        package = self._names._at[0]
        others = [node for _, node in package.methods(name)]
        for node in [*(n for c in self._classes for n in ast.walk(c)), *others]:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                made = _function(node, self._names)
                said = " ".join(map(ast.unparse, node.decorator_list))
                if "property" in said:
                    return made(self)
                return made if "static" in said else partial(made, self)
            if isinstance(node, ast.Assign) and _ABOUT.search(ast.unparse(node)) and any(
                    (isinstance(t, ast.Attribute) and t.attr == name) or
                    (isinstance(t, ast.Name) and t.id == name) for t in node.targets):
                _, path, _, target, chance, depth = self._names._at
                inner = Names(package, path, node.lineno, target, chance, depth + 1)
                return _run(node.value, inner)
        return Anything(self._names._at[4])


def _around(tree: ast.Module, line: int, kind: type[ast.ClassDef]) -> list[ast.ClassDef]:
    return sorted((n for n in ast.walk(tree) if isinstance(n, kind)
                   and n.lineno <= line <= (n.end_lineno or 0)), key=lambda n: -n.lineno)


def _kept(function: Any = None, **keywords: object) -> Any:
    """lru_cache and the like: what is cached answers the same."""
    return function if callable(function) else lambda inner: inner


_PLAIN: dict[str, Any] = {
    "any": any, "all": all, "int": int, "str": str, "bool": bool, "tuple": tuple, "list": list,
    "set": set, "frozenset": frozenset, "len": len, "min": min, "max": max, "map": map,
    "sorted": sorted, "range": range, "isinstance": isinstance, "True": True, "False": False,
    "lru_cache": _kept, "cache": _kept, "partial": partial,
    "functools": SimpleNamespace(lru_cache=_kept, cache=_kept, partial=partial),
}


def _run(node: ast.expr, names: Names) -> Any:
    return eval(_compiled(node), names)


@cache
def _compiled(node: ast.expr) -> Any:
    return compile(ast.parse(ast.unparse(node), mode="eval"), "gate", "eval")


def _function(node: ast.FunctionDef, names: Names) -> Any:
    """The one function, without its decorators and annotations; without ``__import__``, too."""
    exec(_body(node), names)
    made = names.pop(node.name)
    chance = names._at[4]

    def call(*args: object, **keywords: object) -> Any:
        try:
            return made(*args, **keywords)
        except Exception:  # noqa: BLE001 - what it needs is not here: it may answer anything
            return Anything(chance)

    return call


@cache
def _body(node: ast.FunctionDef) -> Any:
    copy = ast.parse(ast.unparse(node)).body[0]
    assert isinstance(copy, ast.FunctionDef)
    copy.decorator_list, copy.returns = [], None
    for argument in [*copy.args.args, *copy.args.kwonlyargs]:
        argument.annotation = None
    copy.args.defaults = [ast.Constant(None) for _ in copy.args.args]
    return compile(ast.fix_missing_locations(ast.Module([copy], [])), "gate", "exec")


def _assigned(tree: ast.Module, name: str, line: int) -> ast.expr | None:
    """The last plain assignment of a name before a line, in the innermost function around it."""
    around = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)
              and n.lineno <= line <= (n.end_lineno or 0)]
    for scope in sorted(around, key=lambda n: -n.lineno):
        found = None
        for node in ast.walk(scope):
            if isinstance(node, ast.Assign) and node.lineno < line:
                found = _part_of(node, name) or found
            elif isinstance(node, ast.AnnAssign) and node.lineno < line and node.value \
                    and isinstance(node.target, ast.Name) and node.target.id == name:
                found = node.value
        if found is not None:
            return found
    return None


def _part_of(node: ast.Assign, name: str) -> ast.expr | None:
    target = node.targets[0]
    if isinstance(target, ast.Name) and target.id == name:
        return node.value
    if isinstance(target, ast.Tuple):
        for position, one in enumerate(target.elts):
            if isinstance(one, ast.Name) and one.id == name:
                return ast.Subscript(node.value, ast.Constant(position), ast.Load())
    return None


def answers(package: Package, path: str, line: int, expression: str, target: Target,
            trials: int = _TRIALS) -> set[bool]:
    """What the expression can be on a target, with everything unexplained left to chance."""
    node = ast.parse(expression, mode="eval").body
    found: set[bool] = set()
    for seed in range(trials):
        try:
            found.add(bool(_run(node, Names(package, path, line, target, Random(seed)))))
        except (KeyError, IndexError):
            found.add(False)  # a missing key: control does not go on
        except TypeError:
            continue  # chance gave a value of another kind
        if len(found) == 2:
            break
    return found
