"""Which JIT modules a changed file concerns, from what the package's profile knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from patcher.caches.actions import Touched
from patcher.profiles.base import JitModule

Reach = Callable[[frozenset[str]], frozenset[str]]
_SOURCES = (".py", ".cu", ".cpp", ".cc")


def describer(name: str, version: str | None, root: str, modules: Callable[[], Sequence[JitModule]],
              reach: Reach = lambda _paths: frozenset(),
              ) -> Callable[[frozenset[str]], Touched]:
    """A function from changed paths to an invalidation, for ``invalidate.Subject``.

    ``modules`` is asked only when a Python or source file changed. ``reach``
    tells the modules that may compile a changed header; what ninja recorded
    tells that exactly for what is built, so only prebuilt modules need it.
    """

    def describe(paths: frozenset[str]) -> Touched:
        known = modules() if any(path.endswith(_SOURCES) for path in paths) else ()
        gates = {module.name for module in known if _python_of(module) & paths}
        compiled = {module.name for module in known if paths & set(module.sources)}
        headers = frozenset(path for path in paths if not path.endswith(_SOURCES))
        compiled |= reach(headers) if headers else frozenset()
        return Touched(name, version, root, paths, frozenset(gates), frozenset(compiled))

    return describe


def _python_of(module: JitModule) -> set[str]:
    """The Python files that decide a module's flags and archs."""
    return {module.generator.path, *(gate.site.path for gate in module.gates)}
