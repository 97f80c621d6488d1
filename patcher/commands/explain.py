"""``sm-patch explain``: what an error text, a log or a rule's code means, and what to do."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING

import click

from patcher.commands.options import Settings, common
from patcher.errors import Exit, InputError

if TYPE_CHECKING:
    from patcher.explain import Answer, Rule

_MAX_CHARACTERS = 256 << 20  # of a log; a server that repeats an error for days says no more
_LONGEST = 1 << 16


@click.command("explain")
@click.argument("text", metavar="TEXT|CODE|FILE|-")
@common("format", "output")
def command(settings: Settings, text: str) -> Exit:
    """Say the root cause of an error text, or of a whole log in a file or on standard
    input (-), the gate behind it and what to do; or what a rule's code (PY-MAJORS)
    stands for."""
    from patcher.explain import find_rule

    rule = find_rule(text) if text != "-" else None
    if rule is not None:
        settings.emit(_rule_json(rule) if settings.format == "json" else _rule(rule))
        return Exit.DONE
    answers = _explained(text)
    settings.emit(_json(answers) if settings.format == "json" else "\n".join(_text(answers)))
    return Exit.DONE


def _explained(text: str) -> list[Answer]:
    """What is known of the text itself, of the file of that name, or of standard input."""
    from patcher.explain import explain

    if text == "-":
        return explain(_lines(sys.stdin.buffer))
    if not _is_file(text):
        return explain(text.splitlines())
    try:
        with open(text, "rb") as stream:
            return explain(_lines(stream))
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=text,
                         next_step="sm-patch explain - < FILE, as a user who may read it"
                         ) from error


def _is_file(text: str) -> bool:
    try:
        return os.path.isfile(text)
    except ValueError:  # no name holds a NUL
        return False


def _lines(stream: IO[bytes]) -> Iterator[str]:
    """Lines of any length and encoding, bounded."""
    left = _MAX_CHARACTERS
    while left > 0 and (line := stream.readline(_LONGEST)):
        left -= len(line)
        yield line.decode("utf-8", "replace")


def _rule(rule: Rule) -> str:
    return "\n".join([f"{rule.id} ({rule.layer}): {rule.title}", f"  {rule.example}",
                      f"  {rule.means}", f"next: {rule.do}"])


def _rule_json(rule: Rule) -> str:
    import json
    from dataclasses import asdict

    return json.dumps({"version": 1, "rule": asdict(rule)}, indent=2, sort_keys=True)


def _json(answers: Iterable[Answer]) -> str:
    import json

    return json.dumps({"version": 1, "answers": [
        {"id": a.explanation.id, "level": a.explanation.level.value, "line": a.line,
         "text": a.text, "cause": a.cause, "layer": a.explanation.layer, "gate": a.gate,
         "do": list(a.do), "opened_by": list(a.opened_by),
         "references": list(a.explanation.references)} for a in answers]},
        indent=2, sort_keys=True)


def _text(answers: list[Answer]) -> Iterator[str]:
    if not answers:
        yield "no error that is known here"
        yield "next: sm-patch doctor"
        return
    root, *others = answers
    yield root.cause
    yield f"  line {root.line}: {root.text[:200]}"
    if root.gate:
        yield f"  gate: {root.gate}"
    for reference in root.explanation.references:
        yield f"  see {reference}"
    yield from (f"  {step}" for step in root.do)
    for other in others:
        yield f"also, line {other.line}: {other.cause}"
    yield f"next: {_next(root)}"


def _next(root: Answer) -> str:
    if root.opened_by:
        patchset, _, group = root.opened_by[0].partition("/")
        return f"sm-patch diff {patchset} --group {group}"
    commands = [step for step in root.do if step.startswith("sm-patch ")]
    return (commands or root.do or ("sm-patch doctor",))[0].partition("  (")[0]
