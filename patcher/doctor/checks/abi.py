"""Extensions that were built against another torch than the one installed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote

from patcher.binary.abi import MissingSymbol
from patcher.doctor.fit import LibraryFit, common_releases, judge, minor, releases_for
from patcher.doctor.model import Repair, Result, Status, Surroundings
from patcher.errors import PatcherError

_SHOWN = 4
_AGAIN = "pip install --force-reinstall --no-deps"


def torch_abi(surroundings: Surroundings) -> Iterable[Result]:
    """Symbols each extension asks of torch against what the installed torch exports."""
    libraries = surroundings.libraries
    for name, paths in libraries.extensions.items():
        fits: list[LibraryFit] = []
        for path in paths:
            try:
                if libraries.needs_torch(path):
                    fits.append(judge(libraries.dynamic(path), libraries.exports))
            except PatcherError as error:
                yield Result(f"abi-{name}", Status.WARNING, f"{path.name} cannot be read: "
                             f"{error.what}", (str(path), "truncated, or still being installed"),
                             Repair(commands=(f"{_AGAIN} {quote(name)}",)))
        if fits:
            yield from _of_package(name, fits, surroundings)


def _of_package(name: str, fits: Sequence[LibraryFit],
                surroundings: Surroundings) -> Iterator[Result]:
    torch = surroundings.version_of("torch") or "of an unknown version"
    if surroundings.libraries.exports is None:
        problem = surroundings.libraries.torch_problem
        yield Result(f"abi-{name}", Status.WARNING if problem else Status.SKIPPED,
                     f"{name} is not judged: {problem or 'there is no torch to compare with'}",
                     repair=Repair(commands=(f"{_AGAIN} torch",) if problem else ()))
        return
    broken = [fit for fit in fits if fit.missing]
    if not broken:
        yield Result(f"abi-{name}", Status.OK, f"{name} has all it asks of torch {torch}")
        return
    site = next(s for s in surroundings.environment.site_packages
                if s in broken[0].path.parents)
    built = common_releases(fits)
    if _is_cpu_build(surroundings, broken):
        yield Result(
            f"abi-{name}", Status.ERROR,
            f"the installed torch {torch} is a build without CUDA, and {name} needs one with it",
            (f"needed by {broken[0].path.relative_to(site)}: libc10_cuda.so",
             "expect: ImportError: libc10_cuda.so: cannot open shared object file"),
            Repair(commands=(f"pip install 'torch=={minor(built[-1])}.*'",) if built else (),
                   advice=("torch has an index of its own for each CUDA release",)))
        return
    lost = {symbol.symbol: symbol for fit in broken for symbol in fit.missing or ()}
    built_for = f" for torch {' or '.join(dict.fromkeys(map(minor, built)))}" if built else ""
    yield Result(
        f"abi-{name}", Status.ERROR,
        f"{name} was built{built_for or ' for another torch'}, installed is {torch}: "
        f"{len(lost)} of its symbols are missing",
        (*(shown(symbol) for symbol in list(lost.values())[:_SHOWN]),
         *(f"in {fit.path.relative_to(site)}" for fit in broken[:_SHOWN]),
         f"expect: ImportError: undefined symbol: {next(iter(lost))}"),
        Repair(commands=ways_out(name, built, torch)),
    )


def _is_cpu_build(surroundings: Surroundings, broken: Sequence[LibraryFit]) -> bool:
    """The wheel without CUDA: a library asks for torch's CUDA half, which is not there."""
    libraries = surroundings.libraries
    asked = any("libc10_cuda.so" in libraries.dynamic(fit.path).needed for fit in broken)
    return asked and not (libraries.torch and os.path.exists(libraries.torch / "libc10_cuda.so"))


def shown(symbol: MissingSymbol) -> str:
    """A missing symbol in words, with how its look-alike differs."""
    return f"{symbol.readable}: {symbol.difference}" if symbol.difference else symbol.readable


def ways_out(name: str, built_for: Sequence[str], torch: str) -> tuple[str, ...]:
    """Commands that end a mismatch, least effort first."""
    distribution = quote(name.replace("_", "-"))
    ways = []
    for requirement in releases_for(distribution, torch)[:1]:
        # a successor under another name brings the same files; pip would not remove the old ones
        renamed = not requirement.startswith(f"{distribution}==")
        remove = f"pip uninstall -y {distribution} && " if renamed else ""
        ways.append(f"{remove}pip install '{requirement}'")
    if built_for:
        ways.append(f"pip install 'torch=={minor(built_for[-1])}.*'")
    ways.append(f"pip install --no-binary {distribution} --no-build-isolation {distribution}")
    return tuple(ways)
