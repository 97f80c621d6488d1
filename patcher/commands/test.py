"""``sm-patch test``: try a patchset on the snippets beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from patcher.commands.options import Settings, common
from patcher.errors import Exit

if TYPE_CHECKING:
    from patcher.snippets import Outcomes


@click.command("test")
@click.argument("patchset", metavar="PATCHSET")
@common("format", "output")
def command(settings: Settings, patchset: str) -> Exit:
    """Run the snippets of NAME.test.yaml beside PATCHSET: valid ones must stay as they
    are, invalid ones must come out as written. Needs no package. Exit 1 when one fails."""
    from patcher.snippets import run_snippets

    found = run_snippets(patchset)
    settings.emit(_json(found) if settings.format == "json" else "\n".join(_text(found)))
    return Exit.CHECK_FAILED if found.failed else Exit.DONE


def _json(found: Outcomes) -> str:
    import json

    return json.dumps({
        "version": 1, "patchset": found.patchset.name, "digest": found.patchset.digest,
        "untested": list(found.untested),
        "results": [{"patch": r.patch, "kind": r.kind, "id": r.id, "verdict": r.verdict.value,
                     "reason": r.reason, "diff": r.diff} for r in found.results],
    }, indent=2, sort_keys=True)


def _text(found: Outcomes) -> Iterator[str]:
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
    yield f"next: correct {source} or its snippets" if bad else f"next: sm-patch diff {name}"
