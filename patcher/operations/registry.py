"""Which function answers for which operation: the one place a new operation is entered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from patcher.errors import PatcherError
from patcher.operations import cuda_guard, files, flag, python_gate, text
from patcher.operations.base import Evidence, Finding, Outcome
from patcher.patchset import schema
from patcher.tree import Tree, exists

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

    A file that cannot be read, or leads out of its root, is a conflict of this
    operation alone: the rest of a plan is still worth knowing.
    """
    try:
        found = _FINDERS[type(operation)](operation, source)
    except PatcherError as error:
        return Finding(Outcome.CONFLICT, str(error), evidence=Evidence.NONE)
    except OSError as error:
        return Finding(Outcome.CONFLICT, f"{error.filename or source.root}: cannot read: "
                       f"{error.strerror or error}", evidence=Evidence.NONE)
    if found.outcome is Outcome.MISSING:
        for path in found.files:
            if exists(source, path):
                return replace(found, reason=f"{path} is a link that leads nowhere: "
                               "reinstall the package")
    return found
