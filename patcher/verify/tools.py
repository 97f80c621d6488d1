"""The compilers of a toolkit, checked for what a verification needs of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from patcher.arch import Target, known_targets
from patcher.errors import ToolFailed
from patcher.instructions import release
from patcher.toolchain.model import Toolkit
from patcher.verify.bench import Tools
from patcher.verify.compile import Compilers


def find_tools(toolkit: Toolkit, targets: Iterable[Target]) -> Tools:
    """nvcc and what is behind it in a toolkit that knows the targets.

    Raises ToolFailed when there is no nvcc, it is older than a target, or a part is missing.
    """
    if toolkit.nvcc is None or toolkit.path is None:
        raise ToolFailed(
            "no nvcc here, so nothing can be proved", where=toolkit.reason,
            next_step="pip install 'sm-patch[nvcc]', or name a toolkit with --cuda PATH")
    for target in targets:
        if not knows(toolkit, target):
            limit = f"needs {target.since}" if target.since else f"ended with {target.until}"
            raise ToolFailed(
                f"CUDA {_release(toolkit)} does not know {target}, which {limit}",
                where=str(toolkit.path), next_step="name another toolkit with --cuda PATH")
    root = toolkit.nvcc.parent.parent
    cicc, ptxas = root / "nvvm" / "bin" / "cicc", root / "bin" / "ptxas"
    for part in (cicc, ptxas):
        if not part.is_file():
            raise ToolFailed(f"this toolkit has no {part.name}", where=str(part),
                             next_step="pip install 'sm-patch[nvcc]' brings all parts")
    return Tools(toolkit.nvcc, Compilers(str(cicc), str(ptxas), identity(cicc, ptxas)))


def knows(toolkit: Toolkit, target: Target) -> bool:
    """Whether this release builds for a target, by the table of targets."""
    have = release(_release(toolkit))
    since = target.since is None or have >= release(target.since)
    return since and (target.until is None or have <= release(target.until))


def _release(toolkit: Toolkit) -> str:
    """The compiler's own release: its headers may be of another one."""
    return toolkit.tool or toolkit.version


def buildable(toolkit: Toolkit) -> tuple[Target, ...]:
    """Every target that this toolkit builds for."""
    return tuple(target for target in known_targets() if knows(toolkit, target))


@cache
def identity(cicc: Path, ptxas: Path) -> str:
    """Which compilers these are, by their bytes."""
    digest = hashlib.sha256()
    for part in (cicc, ptxas):
        with open(part, "rb") as handle:
            while block := handle.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
