"""A patchset from somebody's edits: exact texts, each found by the fewest lines that name it.

What is written is read back and applied to the installed bytes: unless that
gives the files as they are, nothing is adopted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from patcher.audit.files import Change, Difference
from patcher.edits import Edit, apply_edits, merge_edits
from patcher.errors import Conflict
from patcher.operations.text import anchors, find
from patcher.package.model import Package
from patcher.patchset.load import parse_patchset
from patcher.patchset.schema import Count, CreateFile, RelativePath, Text
from patcher.snippets import OneFile

_MAX_LINES = 40  # of an anchor; a text that needs more is not one place in a file


@dataclass(frozen=True, slots=True)
class Adopted:
    """A patchset's text, and the files whose edits it cannot say."""

    name: str
    text: str
    files: tuple[str, ...]
    left: tuple[str, ...]


def adopt(package: Package, found: Iterable[Difference], name: str) -> Adopted:
    """Write what others did to these files as a patchset.

    Raises Conflict when nothing of it can be said as text (binary files, files
    that were deleted, bytes as installed not known).
    """
    patches: list[dict[str, Any]] = []
    done, left = [], []
    for difference in found:
        if not difference.is_foreign:
            continue
        operations = _operations(difference)
        if operations is None:
            left.append(difference.path)
            continue
        done.append(difference.path)
        stem = re.sub(r"[^a-z0-9]+", "-", difference.path.rpartition("/")[2].lower()).strip("-")
        for operation in operations:
            patches.append(_patch(operation, f"{stem}-{len(patches) + 1}"))
    if not patches:
        raise Conflict("nothing here can be said as a patchset", where=", ".join(left) or None,
                       next_step="sm-patch audit shows what differs; --pristine WHEEL what was")
    return Adopted(name, _document(package, name, patches), tuple(done), tuple(left))


def _operations(difference: Difference) -> Sequence[Text | CreateFile] | None:
    """None when text cannot say it."""
    after = difference.foreign
    if after is None or b"\0" in after or not _is_utf8(after):
        return None
    if difference.change is Change.ADDED:
        made = CreateFile(file=RelativePath(difference.path), content=after.decode())
        return [made]
    before = difference.before
    if before is None or not _is_utf8(before):
        return None
    return _texts(difference.path, before, after)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@dataclass(slots=True)
class _Hunk:
    """Old lines [start, end) become new lines [new_start, new_end)."""

    start: int
    end: int
    new_start: int
    new_end: int


def _texts(path: str, before: bytes, after: bytes) -> list[Text] | None:
    """Exact replacements that turn ``before`` into ``after``; None when there are none such."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    hunks = [_Hunk(i, j, k, m) for tag, i, j, k, m
             in SequenceMatcher(None, old, new).get_opcodes() if tag != "equal"]
    repeated = _repeated(path, before, old, new, hunks)
    made = repeated or _single(path, before, old, new, hunks)
    if made is None:
        return None
    edits: list[Edit] = []
    for operation in made:
        finding = find(operation, OneFile(before))
        if path not in finding.edits:
            return None
        edits += finding.edits[path]
    try:
        return made if apply_edits(before, merge_edits(edits)) == after else None
    except ValueError:
        return None


def _repeated(path: str, before: bytes, old: Sequence[bytes], new: Sequence[bytes],
              hunks: Sequence[_Hunk]) -> list[Text] | None:
    """The same replacement everywhere, as one patch with a count; and nothing else."""
    pairs = {(b"".join(old[h.start:h.end]), b"".join(new[h.new_start:h.new_end])) for h in hunks}
    found = []
    for was, becomes in sorted(pairs):
        count = sum(b"".join(old[h.start:h.end]) == was for h in hunks)
        operation = _text(path, was, becomes, count)
        if not was or len(anchors(operation, before, was)) != count:
            return None
        found.append(operation)
    return found


def _single(path: str, before: bytes, old: Sequence[bytes], new: Sequence[bytes],
            hunks: Sequence[_Hunk]) -> list[Text] | None:
    """One patch per place, its anchor the fewest lines that stand there only."""
    grown = [_grown(path, before, old, new, hunk) for hunk in hunks]
    merged = _merged([hunk for hunk in grown if hunk is not None])
    if None in grown:
        return None
    return [_text(path, b"".join(old[h.start:h.end]), b"".join(new[h.new_start:h.new_end]), 1)
            for h in merged]


def _grown(path: str, before: bytes, old: Sequence[bytes], new: Sequence[bytes],
           hunk: _Hunk) -> _Hunk | None:
    """The hunk with as few unchanged lines around it as make it unique."""
    for more in range(_MAX_LINES):
        for above in range(more + 1):
            found = _Hunk(hunk.start - above, hunk.end + more - above,
                          hunk.new_start - above, hunk.new_end + more - above)
            if _is_around(found, hunk, old, new) and _is_unique(path, before, old, found):
                return found
    return None


def _is_around(found: _Hunk, hunk: _Hunk, old: Sequence[bytes], new: Sequence[bytes]) -> bool:
    """True when both sides have these lines, and what was added to the hunk is equal in both."""
    if min(found.start, found.new_start) < 0 or found.end > len(old) or found.new_end > len(new):
        return False
    return (old[found.start:hunk.start] == new[found.new_start:hunk.new_start]
            and old[hunk.end:found.end] == new[hunk.new_end:found.new_end])


def _is_unique(path: str, before: bytes, old: Sequence[bytes], hunk: _Hunk) -> bool:
    needle = b"".join(old[hunk.start:hunk.end])
    return bool(needle) and before.count(needle) == 1 \
        and len(anchors(_text(path, needle, b"", 1), before, needle)) == 1


def _merged(hunks: Sequence[_Hunk]) -> list[_Hunk]:
    """Hunks that meet are one; a line between them that both took in counts once."""
    found: list[_Hunk] = []
    for hunk in hunks:
        if found and hunk.start <= found[-1].end:
            last = found[-1]
            last.end, last.new_end = max(last.end, hunk.end), max(last.new_end, hunk.new_end)
        else:
            found.append(hunk)
    return found


def _text(path: str, was: bytes, becomes: bytes, count: int) -> Text:
    plain, other = (part.replace(b"\r\n", b"\n").decode() for part in (was, becomes))
    return Text(file=RelativePath(path), find=plain, replace=other, count=Count(count))


def _patch(operation: Text | CreateFile, name: str) -> dict[str, Any]:
    if isinstance(operation, CreateFile):
        body: dict[str, Any] = {"create": {"file": operation.file, "content": operation.content}}
    else:
        body = {"text": {"file": operation.file, "find": operation.find,
                         "replace": operation.replace, "count": int(operation.count)}}
    return {"id": name, "affects": "all",
            "reason": "adopted as found; whom it concerns was not asked", **body}


def _document(package: Package, name: str, patches: list[dict[str, Any]]) -> str:
    """The YAML, read back once: what is handed out loads."""
    import yaml

    document = {"sm-patch": 1, "name": name,
                "summary": f"Edits found in {package.name} {package.version}",
                "package": package.name,
                "groups": [{"id": "adopted", "why": "somebody made these edits in place",
                            "versions": f"=={package.version}", "risk": "high",
                            "patches": patches}]}

    class Dumper(yaml.SafeDumper):
        """Texts of several lines as blocks."""

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    written: str = yaml.dump(document, Dumper=Dumper, sort_keys=False, width=100,
                             allow_unicode=True)
    parse_patchset(written.encode(), name)
    return written
