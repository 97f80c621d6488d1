"""The verbs: which module holds each, and the line that ``sm-patch --help`` shows for it.

The table is explicit so that ``--help`` imports no verb; a test holds every row to its module.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a verb's click command lives (``module:attribute``) and its one-line help."""

    target: str
    summary: str

    def load(self) -> click.Command:
        """The command; its module is imported on first use."""
        module, _, attribute = self.target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


VERBS: dict[str, Verb] = {
    "scan": Verb(
        "patcher.commands.scan:command",
        "Show the gates that exclude the target, grouped by feature.",
    ),
    "why": Verb(
        "patcher.commands.why:command",
        "Show one feature's layers from the public function to the binary.",
    ),
    "diff": Verb(
        "patcher.commands.diff:command",
        "Print the git-apply-able diff of a patchset; write nothing.",
    ),
    "apply": Verb(
        "patcher.commands.apply:command",
        "Write a patchset, in full or not at all, and drop stale builds.",
    ),
    "revert": Verb(
        "patcher.commands.revert:command",
        "Put back the exact bytes from before.",
    ),
    "status": Verb(
        "patcher.commands.status:command",
        "Show what is applied, and whether it is in effect.",
    ),
    "caches": Verb(
        "patcher.commands.caches:command",
        "Show JIT caches, or drop from them what patches made stale.",
    ),
    "env": Verb(
        "patcher.commands.env:command",
        "Print variables that give caches folders of their own.",
    ),
    "run": Verb(
        "patcher.commands.run:command",
        "Start a program only when its patches are in effect.",
    ),
    "verify": Verb(
        "patcher.commands.verify:command",
        "Prove with the compiler that what a patchset opens is not hollow.",
    ),
    "probe": Verb(
        "patcher.commands.probe:command",
        "Measure with a real ptxas which instructions each target has.",
    ),
    "warm": Verb(
        "patcher.commands.warm:command",
        "Build what a patchset changed before the server restarts.",
    ),
    "doctor": Verb(
        "patcher.commands.doctor:command",
        "Examine toolkits, headers, ABI and prebuilt code around the gates.",
    ),
    "abi": Verb(
        "patcher.commands.abi:command",
        "Say which torch a library was built for, and what it misses.",
    ),
    "audit": Verb(
        "patcher.commands.audit:command",
        "Show what somebody changed in an installed package.",
    ),
    "adopt": Verb(
        "patcher.commands.adopt:command",
        "Write a patchset from what somebody edited in place.",
    ),
    "check": Verb(
        "patcher.commands.check:command",
        "Say what a patchset would do to other releases, as a table.",
    ),
    "wheel": Verb(
        "patcher.commands.wheel:command",
        "Write a patched wheel that pip and uv install and lock.",
    ),
    "test": Verb(
        "patcher.commands.test:command",
        "Try a patchset on the snippets beside it.",
    ),
    "explain": Verb(
        "patcher.commands.explain:command",
        "Say the root cause of an error text or a log, and what to do.",
    ),
    "draft": Verb(
        "patcher.commands.draft:command",
        "Propose a patchset for what software alone keeps closed.",
    ),
    "export": Verb(
        "patcher.commands.export:command",
        "Write a patchset as patches for the project's repository.",
    ),
    "patchsets": Verb(
        "patcher.commands.patchsets:command",
        "List the shipped patchsets with groups, risk, proof and fit.",
    ),
}


@cache
def examples(verb: str) -> tuple[str, ...]:
    """Command lines that ``sm-patch VERB --help`` shows."""
    file = Path(__file__).resolve().parents[1] / "data" / "examples.json"
    return tuple(json.loads(file.read_text("utf-8"))["examples"].get(verb, ()))
