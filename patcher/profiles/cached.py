"""Exact units out of an existing JIT cache: what was really compiled, with which flags."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patcher.errors import PatcherError
from patcher.package.model import Package
from patcher.profiles.flags import Flags, read_flags
from patcher.profiles.ninja import compile_commands
from patcher.tree import read_plain


@dataclass(frozen=True, slots=True)
class CachedUnit:
    """One CUDA source of a built module; ``source`` is a package path where it is one."""

    module: str
    source: str
    flags: Flags
    build_file: Path


def cached_units(package: Package, folders: list[Path]) -> Iterator[CachedUnit]:
    """The CUDA units of every ``cached_ops/MODULE/build.ninja`` below the folders.

    A unit whose source is gone is left out. Build files that cannot be read are skipped:
    the cache belongs to others and may change while we look.
    """
    real = os.path.realpath(package.root)
    for folder in folders:
        for file in sorted(folder.glob("cached_ops/*/build.ninja")):
            try:
                text = read_plain(str(file)).decode("utf-8", "replace")
            except (OSError, PatcherError):
                continue
            for command in compile_commands(text):
                if command.source.endswith(".cu") and os.path.isfile(command.source):
                    flags = _inside(read_flags(command.arguments[1:]), real)
                    yield CachedUnit(file.parent.name, _relative(command.source, real), flags, file)


def _inside(flags: Flags, root: str) -> Flags:
    flags.include = [_relative(f, root) for f in flags.include]
    flags.system = [_relative(f, root) for f in flags.system]
    return flags


def _relative(path: str, root: str) -> str:
    """A path below the package as a package path; any other stays absolute."""
    real = os.path.realpath(path)
    return real[len(root) + 1:] if real.startswith(f"{root}/") else path
