"""A group's changes as SARIF replacements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_MAX = 65536  # characters of one fix; a larger change is read as a diff


def fix_of(group: str | None, files: Mapping[str, Sequence[dict[str, Any]]],
           artifact: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """The ``fixes`` of a result; none when the group is not a change of lines alone."""
    changed = files.get(group or "", ())
    if not changed or not all(file["hunks"] for file in changed):
        return {}
    size = sum(len(line) for file in changed for hunk in file["hunks"] for line in hunk["lines"])
    if size > _MAX:
        return {}
    return {"fixes": [{
        "description": {"text": f"Apply all of {group}: sm-patch apply "
                                f"{' --group '.join((group or '').split('/'))}"},
        "artifactChanges": [
            {"artifactLocation": artifact(file["path"]),
             "replacements": [one for hunk in file["hunks"] for one in replacements(hunk)]}
            for file in changed],
    }]}


def replacements(hunk: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One replacement for each run of changed lines, numbered as in the file before."""
    line, old, new = hunk["old"], list[str](), list[str]()
    for text in [*hunk["lines"], " "]:
        if text[:1] == "-":
            old.append(text[1:])
        elif text[:1] == "+":
            new.append(text[1:])
        else:
            if old or new:
                yield _replacement(line, old, new)
            line, old, new = line + len(old) + 1, [], []


def _replacement(line: int, old: Sequence[str], new: Sequence[str]) -> dict[str, Any]:
    if old and new:  # inside of the lines, so that the last one needs no line end
        region = {"startLine": line, "startColumn": 1, "endLine": line + len(old) - 1,
                  "endColumn": len(old[-1]) + 1}
        return {"deletedRegion": region, "insertedContent": {"text": "\n".join(new)}}
    region = {"startLine": line, "startColumn": 1, "endLine": line + len(old), "endColumn": 1}
    return {"deletedRegion": region,
            "insertedContent": {"text": "".join(f"{text}\n" for text in new)}}
