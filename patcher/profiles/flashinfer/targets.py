"""The target FlashInfer builds for a device, by its own CompilationContext."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from patcher.arch import Capability, Target, target
from patcher.errors import UsageError
from patcher.package.model import Package
from patcher.profiles.base import Resolved
from patcher.profiles.devices import ASSUMED, AUTO, detect, parse_device
from patcher.profiles.flashinfer.builds import release
from patcher.profiles.partial import Interpreter
from patcher.profiles.partial.values import Class, Instance, Value, show
from patcher.toolchain.model import Toolkit

ARCH_LIST = "FLASHINFER_CUDA_ARCH_LIST"


def resolve_target(device: str, package: Package, toolkit: Toolkit) -> Resolved:
    """The target behind a device name, capability, target or ``auto``.

    A target that was named stands. A capability becomes what this version
    builds for it with this CUDA release, or what FLASHINFER_CUDA_ARCH_LIST of
    this environment says. Raises UsageError for an unknown device.
    """
    if device == AUTO:
        return _automatic(package, toolkit)
    named = parse_device(device)
    if isinstance(named, Target):
        return Resolved(named, f"named as {device}")
    return _built_for(named, device, package, toolkit)


def _automatic(package: Package, toolkit: Toolkit) -> Resolved:
    for capability, reason in detect():
        return _built_for(capability, reason, package, toolkit)
    for found, place in cached_targets(package):
        return Resolved(found, f"no GPU here; the JIT cache {place} was built for it")
    return Resolved(target(ASSUMED), "no GPU and no JIT cache here", assumed=True)


def _built_for(capability: Capability, device: str, package: Package,
               toolkit: Toolkit) -> Resolved:
    listed = os.environ.get(ARCH_LIST)
    if listed:
        for found in _targets(package, toolkit, capability, {ARCH_LIST: listed}):
            if found.capability == capability:
                return Resolved(found, f"{device}: {ARCH_LIST}={listed} in this environment")
    label = f"{package.name} {package.version or ''} with CUDA {toolkit.version}".replace("  ", " ")
    for found in _targets(package, toolkit, capability, {}):
        return Resolved(found, f"{device} is {capability}: {label} builds {found.name}")
    suffix = "a" if capability.major >= 9 else ""
    return Resolved(target(f"sm_{capability.number}{suffix}"),
                    f"{device} is {capability}: {label} builds nothing for it")


def _targets(package: Package, toolkit: Toolkit, capability: Capability,
             environ: dict[str, Value]) -> Iterator[Target]:
    """What ``CompilationContext()`` would hold on a machine with one such GPU."""
    interpreter = Interpreter(package.tree, overrides={"os.environ": environ}, intercepts={
        "device_count": lambda call: 1,
        "get_device_capability": lambda call: (capability.major, capability.minor),
        "is_cuda_version_at_least": lambda call: toolkit.release >= release(
            show(call.argument(0, "version_str"))),
    })
    module = interpreter.module(f"{package.import_name}.compilation_context")
    context = interpreter.module_value(module, "CompilationContext") if module else None
    run = interpreter.run(context, {}) if isinstance(context, Class) else None
    if run is None or not isinstance(run.value, Instance):
        return
    pairs = run.value.attributes.get("TARGET_CUDA_ARCHS")
    for pair in sorted(pairs, key=show) if isinstance(pairs, set) else ():
        if isinstance(pair, tuple) and len(pair) == 2:
            try:
                yield target(f"sm_{show(pair[0])}{show(pair[1])}")
            except UsageError:
                continue


def cache_folders(package: Package) -> list[Path]:
    """The folders of this user's JIT cache that this version uses, one per set of targets."""
    return [f for f in _all_cache_folders() if f.parent.name == package.version]


def _all_cache_folders() -> list[Path]:
    base = Path(os.environ.get("FLASHINFER_WORKSPACE_BASE") or Path.home())
    found = (base / ".cache" / "flashinfer").glob("*/*")
    return sorted(folder for folder in found if (folder / "cached_ops").is_dir())


def cached_targets(package: Package) -> Iterator[tuple[Target, Path]]:
    """Targets of this user's JIT cache, newest folder first, those of this version preferred."""
    folders = _all_cache_folders()
    folders.sort(key=lambda f: (f.parent.name == package.version, f.stat().st_mtime), reverse=True)
    for folder in folders:
        for part in folder.name.split("_"):
            if re.fullmatch(r"\d{2,3}[af]?", part):
                try:
                    yield target(f"sm_{part}"), folder
                except UsageError:
                    continue
