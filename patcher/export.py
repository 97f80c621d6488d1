"""Patches that ``git am`` takes: one mail per patch, with the paths of the repository.

The text is the same on every machine: no time, no name of the user, no object
ids. What each mail holds stands on top of those before it.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from email.header import Header
from functools import cache
from pathlib import Path

from patcher import __version__
from patcher.changes import Change, Create, Link, Modify
from patcher.errors import Refused
from patcher.package.model import Package
from patcher.preview import PatchPreview, change_diff

AUTHOR = "sm-patch <sm-patch@noreply.invalid>"
_REPOSITORIES = Path(__file__).parent / "data" / "repositories.json"
_ID = "0" * 40  # there is no commit; git am does not look
_DATE = "Thu, 1 Jan 1970 00:00:00 +0000"
_ENDS_MESSAGE = re.compile(r"(?:---|diff -|Index: |From )")  # for git, at the start of a line


@dataclass(frozen=True, slots=True)
class Mail:
    """One patch: its file's name and bytes. ``keep_cr`` when git am has to be told so."""

    package: str
    name: str
    data: bytes
    keep_cr: bool


def repository_path(package: Package, path: str) -> str:
    """Where a package's path is in its repository: by the source tree at hand, else by what is
    known of the project, else the same."""
    inside = getattr(package.tree, "inside", None)
    if inside is not None:
        return str(inside(path))
    if package.source_tree:
        return path
    known = _maps().get(package.name, {})
    for wheel in sorted(known, key=len, reverse=True):
        if path == wheel or path.startswith(f"{wheel}/"):
            return known[wheel] + path[len(wheel):]
    return path


@cache
def _maps() -> dict[str, dict[str, str]]:
    rows = json.loads(_REPOSITORIES.read_text("utf-8"))
    return {name: row["map"] for name, row in rows.items()}


def mails(previews: Iterable[PatchPreview], package_of: Callable[[str], Package],
          author: str = AUTHOR) -> list[Mail]:
    """The patches as mails, numbered per package. Raises Refused for what no diff can say."""
    by_package: dict[str, list[PatchPreview]] = {}
    for preview in previews:
        by_package.setdefault(preview.patch.package, []).append(preview)
    return [_mail(preview, package_of(name), number, len(found), author)
            for name, found in by_package.items() for number, preview in enumerate(found, 1)]


def _mail(preview: PatchPreview, package: Package, number: int, count: int, author: str) -> Mail:
    diff = "".join(change_diff(_moved(change, package)) for change in preview.changes)
    subject = subject_of(preview)
    head = [f"From {_ID} Mon Sep 17 00:00:00 2001", f"From: {_encoded(author)}", f"Date: {_DATE}",
            f"Subject: {_encoded(f'[PATCH {number}/{count}] {subject}')}", "MIME-Version: 1.0",
            "Content-Type: text/plain; charset=UTF-8", "Content-Transfer-Encoding: 8bit", ""]
    text = "\n".join([*head, *_body(preview), "---", ""]) + diff + f"-- \n{__version__}\n\n"
    slug = re.sub(r"[^a-z0-9]+", "-", subject.lower()).strip("-")[:52].strip("-")
    return Mail(package.name, f"{number:04}-{slug or 'patch'}.patch",
                text.encode("utf-8", "surrogateescape"), "\r\n" in diff)


def subject_of(preview: PatchPreview) -> str:
    """What the patch does, as the first line of a commit."""
    patch, group = preview.patch.patch, preview.group.group
    text = " ".join((patch.summary or f"{group.summary or group.id}: {patch.id}").split())
    return text[:1].upper() + text[1:]


def _body(preview: PatchPreview) -> Iterator[str]:
    patch, group = preview.patch.patch, preview.group.group
    paragraphs = [patch.reason or group.why or group.summary,
                  f"Group {preview.patchset.name}/{group.id}, patch {patch.id}.",
                  " ".join(group.references)]
    for paragraph in filter(None, paragraphs):
        for line in textwrap.wrap(paragraph, 72, break_long_words=False, break_on_hyphens=False):
            yield f" {line}" if _ENDS_MESSAGE.match(line) else line
        yield ""


def _encoded(text: str) -> str:
    """As a mail's header holds it; plain where that is possible."""
    return text if text.isascii() else Header(text, "utf-8", maxlinelen=998).encode()


def _moved(change: Change, package: Package) -> Change:
    """The change under its path in the repository."""
    if not isinstance(change, Modify | Create | Link):
        raise Refused("this change is for installed packages only", where=change.path,
                      next_step="leave its group out")
    return replace(change, path=repository_path(package, change.path))
