"""sm-patch: find, review and open the architecture gates that keep SM120/SM121 out.

The functions of this package do what the verbs of the command line do::

    import patcher

    found = patcher.scan("flashinfer", arch="sm_120a")
    for gate in found.findings:
        print(gate.severity.value, gate.location.path, gate.location.line, gate.opened_by)
    planned = patcher.plan("flashinfer-sm120")
    print(planned.diff)

Importing it costs nothing: each function comes with its first use.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from patcher.api import Applied, Planned, Proof, Scanned, apply, plan, scan, verify

__version__ = "0.1.0"
__all__ = ["Applied", "Planned", "Proof", "Scanned", "__version__", "apply", "plan", "scan",
           "verify"]


class _Package(ModuleType):
    """Keeps the functions in place: parts of the same name (``patcher.scan``) are imported by
    their full name, which would otherwise put the module over the function."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from patcher import api

    return getattr(api, name)


sys.modules[__name__].__class__ = _Package
