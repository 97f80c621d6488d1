"""pyinfra: a fact that says what a patchset would change on a host, and an operation for it.

    from sm_patchset import patchset
    patchset(name="Open the all-reduce kernels", patchsets=["flashinfer-sm120"], python="/opt/venv")
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Generator, Iterable, Sequence
from typing import Any

from pyinfra.api.exceptions import OperationError
from pyinfra.api.facts import FactBase
from pyinfra.api.operation import operation
from pyinfra.context import host


def command(patchsets: Sequence[str], options: Sequence[str], executable: str,
            reverted: bool) -> str:
    """The command line; the words of the patchsets and options are quoted for a shell."""
    verb = "revert" if reverted else "apply"
    words = [*patchsets, *options] if patchsets or not reverted else ["--all", *options]
    return f"{executable} {verb} {shlex.join(words)}"


class Plan(FactBase[dict[str, Any]]):
    """The JSON of ``--check``: what would change, and the digests before and after."""

    def command(self, line: str) -> str:
        # 1 says that something would change; any other failure is one of the fact, too
        return f"{line} --check --format json || test $? -eq 1"

    def process(self, output: Iterable[str]) -> dict[str, Any]:
        """Read it; an empty answer is a refusal, whose reason pyinfra has printed."""
        text = "\n".join(output)
        return json.loads(text) if text.strip() else {}


@operation()
def patchset(patchsets: Sequence[str], options: Sequence[str] = (), executable: str = "sm-patch",
             reverted: bool = False) -> Generator[str, None, None]:
    """Apply patchsets, or revert them; nothing to do when every digest is as wanted.

    Raises:
        OperationError: The host refuses; nothing was written there.
    """
    line = command(patchsets, options, executable, reverted)
    plan = host.get_fact(Plan, line=line)
    if not plan:
        raise OperationError(f"refused: {line}")
    digests = " ".join(f"{p['name']} {p['digest_after'][:12]}" for p in plan["packages"])
    if not plan["changed"]:
        host.noop(f"{', '.join(patchsets) or 'nothing'}: {digests or 'nothing applied'}")
        return
    yield line
