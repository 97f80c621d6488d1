"""The compilers of a toolkit, checked for what a verification needs of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from patcher.arch import Target
from patcher.errors import ToolFailed
from patcher.toolchain.model import Toolkit
from patcher.verify.run import Tools

_PARTS = ("bin/nvcc", "bin/ptxas", "nvvm/bin/cicc", "bin/cudafe++")


def find_tools(toolkit: Toolkit, targets: Iterable[Target], *, assemble: bool) -> Tools:
    """nvcc and ptxas of a toolkit that knows the targets.

    Raises ToolFailed when there is no nvcc, or it is older than a target.
    """
    if toolkit.nvcc is None or toolkit.path is None:
        raise ToolFailed(
            "no nvcc here, so nothing can be proved", where=toolkit.reason,
            next_step="pip install 'sm-patch[nvcc]', or name a toolkit with --cuda PATH")
    for target in targets:
        if target.since and _release(toolkit.version) < _release(target.since):
            raise ToolFailed(
                f"CUDA {toolkit.version} does not know {target}, which needs {target.since}",
                where=str(toolkit.path), next_step="name a newer toolkit with --cuda PATH")
    ptxas = toolkit.nvcc.parent / "ptxas"
    return Tools(toolkit.nvcc, ptxas if assemble and ptxas.is_file() else None,
                 _identity(toolkit.path, [toolkit.path / part for part in _PARTS]))


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def _identity(root: Path, parts: Sequence[Path]) -> str:
    """Which compilers these are: content of nvcc and ptxas, size of the large cicc."""
    digest = hashlib.sha256()
    for part in parts:
        if not part.is_file():
            continue
        digest.update(part.relative_to(root).as_posix().encode() + b"\0")
        with open(part, "rb") as handle:
            digest.update(hashlib.file_digest(handle, "sha256").digest()
                          if hasattr(hashlib, "file_digest") else _digest(part))
    return digest.hexdigest()


def _digest(path: Path) -> bytes:
    """hashlib.file_digest came with Python 3.11."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    return digest.digest()
