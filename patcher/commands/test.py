"""``sm-patch test``: try a patchset on the snippets beside it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from patcher.commands import completion
from patcher.commands.options import Settings, common
from patcher.errors import Exit

if TYPE_CHECKING:
    from patcher.snippets import Outcomes


@click.command("test")
@click.argument("patchsets", metavar="PATCHSET...", nargs=-1, required=True,
                shell_complete=completion.patchsets)
@common("format", "output")
def command(settings: Settings, patchsets: tuple[str, ...]) -> Exit:
    """Run the snippets of NAME.test.yaml beside each PATCHSET: valid ones must stay as they
    are, invalid ones must come out as written. Needs no package. Exit 1 when one fails.

    The file of snippets stands for its patchset, too, as a hook may be given either.
    """
    from patcher.snippets import run_snippets

    names = dict.fromkeys(re.sub(r"\.test(\.ya?ml)$", r"\1", name) for name in patchsets)
    found = {name: run_snippets(name) for name in names}
    if settings.format == "json":
        documents = [_document(one) for one in found.values()]
        whole = documents[0] if len(documents) == 1 else {"version": 1, "patchsets": documents}
        settings.emit(json.dumps(whole, indent=2, sort_keys=True))
    else:
        settings.emit("\n".join(line for typed, one in found.items() for line in _text(one, typed)))
    return Exit.CHECK_FAILED if any(one.failed for one in found.values()) else Exit.DONE


def _document(found: Outcomes) -> dict[str, Any]:
    return {
        "version": 1, "patchset": found.patchset.name, "digest": found.patchset.digest,
        "untested": list(found.untested),
        "results": [{"patch": r.patch, "kind": r.kind, "id": r.id, "verdict": r.verdict.value,
                     "reason": r.reason, "diff": r.diff} for r in found.results],
    }


def _text(found: Outcomes, typed: str) -> Iterator[str]:
    total, bad = len(found.results), found.failed
    name = found.patchset.name
    if bad:
        yield f"{len(bad)} of {total} snippets of {name} fail"
    else:
        yield f"all {total} snippets of {name} pass"
    for result in bad:
        yield f"{result.patch}: {result.kind} snippet {result.id!r} {result.reason}"
        yield from (f"  {line}" for line in result.diff.splitlines())
    for patch in found.untested:
        yield f"no snippet for {patch}"
    source = found.patchset.source
    yield (f"next: correct {source} or its snippets" if bad
           else f"next: sm-patch diff {shlex.quote(typed)}")
