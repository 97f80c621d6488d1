"""Link-time names that pip's CUDA wheels leave out: lib64, libcudart.so, a libcuda to link to."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from shlex import quote

from patcher.doctor.model import Repair, Result, Status, Surroundings
from patcher.tree import matching, plain_text

_LIBRARIES = ("lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")


def link_libraries(surroundings: Surroundings) -> Iterable[Result]:
    """What ``-L$CUDA_HOME/lib64 -lcudart`` would find in each toolkit."""
    for toolkit in surroundings.toolkits:
        root = toolkit.path
        if root is None or toolkit.nvcc is None:
            continue
        patchable = surroundings.owns(root)
        yield from _lib64(root, patchable)
        yield from _cudart(root, patchable)


def _folder(root: Path) -> Path | None:
    return next((root / n for n in ("lib64", *_LIBRARIES) if os.path.isdir(root / n)), None)


def _lib64(root: Path, patchable: bool) -> Iterable[Result]:
    link = root / "lib64"
    target = next((name for name in _LIBRARIES if os.path.isdir(root / name)), None)
    if os.path.exists(link) or target is None:
        return
    # with a folder targets, as conda has it, nvcc searches that (_TARGET_SIZE_ is empty then)
    searched = target == "lib" and not os.path.isdir(root / "targets") and (
        "lib$(_TARGET_SIZE_)" in plain_text(root / "bin" / "nvcc.profile"))
    who = "nvcc itself and JIT builds search" if searched else "JIT builds search"
    yield Result(
        "toolkit-lib64", Status.ERROR,
        f"{_absence(link)}, which {who}; the libraries are in {target}",
        (f"in {root}", "expect: ld: cannot find -lcudart, -lcudadevrt or -lcudart_static"),
        _repair(link, target, patchable and target == "lib"),
    )


def _absence(link: Path) -> str:
    return (f"{link.name} is a broken link to {os.readlink(link)}" if os.path.islink(link) else
            f"there is no {link.name}")


def _repair(link: Path, target: str, patchable: bool) -> Repair:
    """The patchset, which replaces nothing; a broken link is for its owner to replace."""
    names = f"{quote(target)} {quote(str(link))}"
    if os.path.islink(link):
        return Repair(commands=(f"ln -sfn {names}",))
    return Repair("cuda-libraries" if patchable else None, (f"ln -s {names}",))


def _cudart(root: Path, patchable: bool) -> Iterable[Result]:
    folder = _folder(root)
    if folder is None or os.path.exists(folder / "libcudart.so"):
        return
    versions = [p.name for p in matching(folder, "libcudart.so.*") if os.path.isfile(p)]
    if not versions:
        yield Result(
            "toolkit-cudart", Status.ERROR, "there is no CUDA runtime library at all",
            (f"in {root}", "expect: cannot find -lcudart",),
            Repair(commands=("pip install nvidia-cuda-runtime",)),
        )
        return
    link = folder / "libcudart.so"
    yield Result(
        "toolkit-cudart", Status.ERROR,
        f"{_absence(link)}, only {versions[0]}: -lcudart fails",
        (f"in {folder}", "expect: /usr/bin/ld: cannot find -lcudart"),
        _repair(link, versions[0], patchable),
    )


def driver_library(surroundings: Surroundings) -> Iterable[Result]:
    """JIT builds link -lcuda, which a driver or the toolkit's stubs provide."""
    from patcher.binary.loader import ld_cache

    if surroundings.environment.root is not None:
        return
    cache = ld_cache()
    stubs = [
        folder / "libcuda.so"
        for toolkit in surroundings.toolkits if toolkit.path
        for folder in (toolkit.path / "lib64" / "stubs", toolkit.path / "lib" / "stubs",
                       *matching(toolkit.path / "targets", "*-linux/lib/stubs"))
    ]
    if "libcuda.so" in cache or any(os.path.exists(stub) for stub in stubs):
        yield Result("driver-library", Status.OK, "-lcuda can be linked")
        return
    driver = cache.get("libcuda.so.1")
    place = _stub_place(surroundings)
    link = place or (driver.parent if driver else Path()) / "libcuda.so"
    make = f"mkdir -p {quote(str(place.parent))} && " if place else ""
    if driver:
        yield Result(
            "driver-library", Status.WARNING,
            f"the driver is {driver}, but there is no libcuda.so to link against",
            ("expect: /usr/bin/ld: cannot find -lcuda",),
            Repair(commands=(f"{make}ln -s {driver} {quote(str(link))}",)))
    else:
        yield Result("driver-library", Status.SKIPPED,
                     "no driver here: what links -lcuda, as FlashInfer's modules do, can only be "
                     "built where there is one, or one that stands in for it")


def _stub_place(surroundings: Surroundings) -> Path | None:
    """Where builds search for a libcuda.so to link with, in the toolkit that they use."""
    root = next((t.path for t in surroundings.toolkits if t.path and t.nvcc), None)
    folder = _folder(root) if root else None
    return folder / "stubs" / "libcuda.so" if folder else None
