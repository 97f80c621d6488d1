"""Which function answers for which operation: the one place a new operation is entered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from patcher.operations import cuda_guard, files, flag, python_gate, text
from patcher.operations.base import Finding, Source
from patcher.patchset import schema

_FINDERS: dict[type, Callable[[Any, Source], Finding]] = {
    schema.PythonGate: python_gate.find,
    schema.CudaGuard: cuda_guard.find,
    schema.Text: text.find,
    schema.Flag: flag.find,
    schema.Overlay: files.overlay,
    schema.Symlink: files.symlink,
    schema.CreateFile: files.create,
}


def find(operation: schema.Operation, source: Source) -> Finding:
    """What ``operation`` would do to the bases behind ``source``."""
    return _FINDERS[type(operation)](operation, source)
