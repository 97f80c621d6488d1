"""Prebuilt code that no device of the target's kind can run."""

from __future__ import annotations

from collections.abc import Iterable

from patcher.binary.fatbin import covers, gpu_code, targets_of
from patcher.doctor.checks.abi import EXTENSIONS, shared_objects
from patcher.doctor.model import Repair, Result, Status, Surroundings
from patcher.errors import PatcherError


def gpu_code_of_extensions(surroundings: Surroundings) -> Iterable[Result]:
    """Each extension library with GPU code: is any of it usable for the target?"""
    for name in (*EXTENSIONS, "flashinfer_jit_cache"):
        folder = surroundings.installed(name)
        for path in shared_objects(folder) if folder else ():
            shown = path.relative_to(folder.parent) if folder else path
            try:
                codes = gpu_code(path)
            except PatcherError as error:
                yield Result(f"gpu-code-{name}", Status.WARNING, f"cannot be read: {error}")
                continue
            if not codes:
                continue
            held = ", ".join(sorted(str(code) for code in codes))
            if covers(codes, surroundings.target):
                yield Result(f"gpu-code-{name}", Status.OK,
                             f"{shown} has code for {surroundings.target}", (held,))
            else:
                yield Result(
                    f"gpu-code-{name}", Status.ERROR,
                    f"{shown} has no code for {surroundings.target.capability}: "
                    f"only {', '.join(targets_of(codes)) or held}",
                    (held, ("expect: CUDA error: no kernel image is available for execution on "
                           "the device")),
                    Repair(commands=(("source patches cannot change a prebuilt library: build it "
                                     f"from source for {surroundings.target}, or use a backend "
                                     "that compiles at run time"),)))
