"""Which function answers for which operation: the one place a new operation is entered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from patcher.errors import InputError
from patcher.operations import cuda_guard, files, flag, python_gate, text
from patcher.operations.base import Finding
from patcher.patchset import schema
from patcher.tree import Tree

_FINDERS: dict[type, Callable[[Any, Tree], Finding]] = {
    schema.PythonGate: python_gate.find,
    schema.CudaGuard: cuda_guard.find,
    schema.Text: text.find,
    schema.Flag: flag.find,
    schema.Overlay: files.overlay,
    schema.Symlink: files.symlink,
    schema.CreateFile: files.create,
}


def find(operation: schema.Operation, source: Tree) -> Finding:
    """What ``operation`` would do to the bases behind ``source``.

    Raises InputError for a file that cannot be read, UnsafePath for one that
    leads out of its root.
    """
    try:
        return _FINDERS[type(operation)](operation, source)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror or error}",
                         where=str(error.filename or source.root)) from error
