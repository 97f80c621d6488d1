"""FlashInfer's own parts: the version triple, and what stands prebuilt or built for this GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from shlex import quote

from patcher.binary.fatbin import covers, gpu_code
from patcher.caches.invalidate import places
from patcher.caches.jit import module_folders
from patcher.doctor.checks.fatbin import NO_CODE
from patcher.doctor.model import Repair, Result, Status, Surroundings
from patcher.errors import PatcherError
from patcher.tree import matching

_COMPANIONS = ("flashinfer-cubin", "flashinfer-jit-cache")
_OFF = "FLASHINFER_DISABLE_VERSION_CHECK"
_MAX_BUILT = 500


def version_triple(surroundings: Surroundings) -> Iterable[Result]:
    """Its import refuses companions of another version (jit/env.py, 0.5.3 to 0.7.4).

    The cubins must have the same version; the jit-cache's begins with it (``0.6.6+cu130``).
    """
    main = surroundings.version_of("flashinfer-python")
    if main is None:
        return
    found = {n: v for n in _COMPANIONS if (v := surroundings.version_of(n))}
    wrong = [n for n, v in found.items()
             if not (v.startswith(main) if n == "flashinfer-jit-cache" else v == main)]
    listed = tuple(f"{n} {v}" for n, v in {"flashinfer-python": main, **found}.items())
    if not wrong:
        yield Result("flashinfer-versions", Status.OK, f"FlashInfer's parts agree on {main}",
                     listed)
        return
    off = surroundings.variables.get(_OFF)
    yield Result(
        "flashinfer-versions", Status.WARNING if off else Status.ERROR,
        f"flashinfer-python is {main}, but {' and '.join(f'{n} is {found[n]}' for n in wrong)}"
        + (f" ({_OFF} is set)" if off else ": its import stops"),
        (*listed, (f"expect: RuntimeError: {wrong[0]} version ({found[wrong[0]]}) does not match "
         f"flashinfer version ({main})")),
        Repair(commands=("pip install " + " ".join(quote(f"{n}=={main}") for n in wrong),)))


def built_modules(surroundings: Surroundings) -> Iterable[Result]:
    """Modules in the JIT cache that hold no code for a target, by what they hold."""
    if surroundings.installed("flashinfer") is None or surroundings.environment.root is not None:
        return
    libraries = sorted({
        library for place, specs in places("flashinfer-python", surroundings.variables).items()
        for spec in specs for found in module_folders(spec, place) if not found.link
        for library in matching(found.path, "*.so")})[:_MAX_BUILT]
    held: Counter[str] = Counter()
    for library in libraries:
        try:
            codes = gpu_code(library)
        except PatcherError:
            held["unreadable"] += 1
            continue
        lacking = [t for t in surroundings.targets if codes and not covers(codes, t)]
        held[" ".join(map(str, sorted(codes))) if lacking else ""] += 1
    stale = {codes: count for codes, count in held.items() if codes}
    if not stale:
        if libraries:
            yield Result("jit-cache", Status.OK, f"{len(libraries)} built FlashInfer modules have "
                         "code for this target")
        return
    where = ", ".join(str(target.capability) for target in surroundings.targets)
    yield Result(
        "jit-cache", Status.WARNING,
        f"{sum(stale.values())} of {len(libraries)} built FlashInfer modules have no code for "
        f"{where}", (*(f"{count} hold {codes}" for codes, count in sorted(stale.items())),
                     NO_CODE),
        Repair(commands=("sm-patch caches list", "sm-patch status --built")))
