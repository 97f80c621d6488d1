"""Which JIT modules a changed file concerns, from what the package's profile knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from patcher.caches.actions import Touched
from patcher.profiles.base import JitModule


def describer(name: str, version: str | None, root: str,
              modules: Callable[[], Sequence[JitModule]],
              reached: Mapping[str, frozenset[str]] | None = None,
              ) -> Callable[[frozenset[str]], Touched]:
    """A function from changed paths to an invalidation, for ``invalidate.Subject``.

    ``modules`` is asked only when a Python or source file changed. ``reached``
    names the modules that a header edit concerns, where a walk found them.
    """

    def describe(paths: frozenset[str]) -> Touched:
        known = modules() if any(path.endswith((".py", ".cu", ".cpp", ".cc")) for path in paths) \
            else ()
        gates = {module.name for module in known if _python_of(module) & paths}
        compiled = {module.name for module in known if paths & set(module.sources)}
        for path in paths:
            compiled |= (reached or {}).get(path, frozenset())
        return Touched(name, version, root, paths, frozenset(gates), frozenset(compiled))

    return describe


def _python_of(module: JitModule) -> set[str]:
    """The Python files that decide a module's flags and archs."""
    return {module.generator.path, *(gate.site.path for gate in module.gates)}
