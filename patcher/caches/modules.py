"""Which JIT modules a changed file concerns, from what the package's profile knows."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from patcher.caches.actions import Touched
from patcher.edits import Span
from patcher.profiles.base import JitModule, Site

Reach = Callable[[frozenset[str]], frozenset[str]]
Edited = Callable[[str], "frozenset[str] | None"]
_SOURCES = (".py", ".cu", ".cpp", ".cc")


def describer(name: str, version: str | None, root: str, modules: Callable[[], Sequence[JitModule]],
              reach: Reach = lambda _paths: frozenset(), edited: Edited = lambda _path: None,
              ) -> Callable[[frozenset[str]], Touched]:
    """A function from changed paths to an invalidation, for ``invalidate.Subject``.

    ``modules`` is asked only when a Python or source file changed. ``reach``
    tells the modules that may compile a changed header; what ninja recorded
    tells that exactly for what is built, so only prebuilt modules need it.
    ``edited`` names the functions of a Python file that changed ("" for what
    stands outside of any), None when that is not known: then all count.
    """

    def describe(paths: frozenset[str]) -> Touched:
        known = modules() if any(path.endswith(_SOURCES) for path in paths) else ()
        # only functions that decide a module are worth parsing a file
        deciding = {site.path for module in known for site in _sites(module)}
        functions = {path: edited(path) for path in paths & deciding if path.endswith(".py")}
        gates = {module.name for module in known
                 if any(_changed(site, functions) for site in _sites(module))}
        compiled = {module.name for module in known if paths & set(module.sources)}
        headers = frozenset(path for path in paths if not path.endswith(_SOURCES))
        compiled |= reach(headers) if headers else frozenset()
        return Touched(name, version, root, paths, frozenset(gates), frozenset(compiled))

    return describe


def _sites(module: JitModule) -> list[Site]:
    """The places that decide a module's flags and archs."""
    return [module.generator, *(gate.site for gate in module.gates)]


def _changed(site: Site, functions: dict[str, frozenset[str] | None]) -> bool:
    if site.path not in functions:
        return False
    edited = functions[site.path]
    return edited is None or not {site.function, ""}.isdisjoint(edited)


def functions_at(source: bytes, spans: Iterable[Span]) -> frozenset[str] | None:
    """The functions that spans of a Python file lie in, inner and outer ones.

    "" stands for a place outside of any; None for a file that does not parse.
    """
    found = _functions(source)
    if found is None:
        return None
    names: set[str] = set()
    for span in spans:
        line = source.count(b"\n", 0, span.start) + 1
        names |= {name for name, first, last in found if first <= line <= last} or {""}
    return frozenset(names)


@lru_cache(maxsize=4)  # each module asks about the same one or two files
def _functions(source: bytes) -> tuple[tuple[str, int, int], ...] | None:
    """Name, first and last line of every function; None when the file does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    return tuple((node.name, node.lineno, node.end_lineno or node.lineno) for node in ast.walk(tree)
                 if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
