"""The journal as JSON and back, strictly: a journal decides what gets written."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from patcher.edits import Edit, Span
from patcher.errors import InputError
from patcher.journal import (
    AppliedGroup,
    AppliedPatch,
    AppliedPatchset,
    FileEntry,
    FileKey,
    Journal,
    Kind,
    Owner,
    Shape,
)

VERSION = 1


def to_json(journal: Journal) -> dict[str, Any]:
    """The journal as a JSON document."""
    return {
        "version": VERSION,
        "patchsets": [_patchset(journal.patchsets[name]) for name in sorted(journal.patchsets)],
        "files": [file_to_json(key, journal.files[key]) for key in sorted(journal.files)],
        "folders": [[key.root, key.path] for key in sorted(journal.folders)],
    }


def from_json(document: Mapping[str, Any], where: str) -> Journal:
    """The inverse of ``to_json``; raises InputError for anything else."""
    try:
        if document["version"] != VERSION:
            raise InputError(f"written by another sm-patch (format {document['version']})",
                             where=where, next_step="use the sm-patch that wrote it")
        return Journal(
            {item["name"]: _read_patchset(item) for item in document["patchsets"]},
            dict(file_from_json(item) for item in document["files"]),
            frozenset(_key(root, path) for root, path in document["folders"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"not a journal: {error!r}", where=where,
                         next_step="restore the file, or reinstall the package and remove it"
                         ) from error


def _key(root: Any, path: Any) -> FileKey:
    if not isinstance(root, str) or not isinstance(path, str):
        raise TypeError(f"not a path: {root!r}, {path!r}")
    return FileKey(root, path)


def shape_to_json(shape: Shape) -> dict[str, Any]:
    document: dict[str, Any] = {"kind": shape.kind.value, "mode": shape.mode}
    if shape.sha256:
        document["sha256"] = shape.sha256
    if shape.target:
        document["target"] = shape.target
    return document


def shape_from_json(item: Mapping[str, Any]) -> Shape:
    mode, sha256 = item["mode"], item.get("sha256", "")
    if not isinstance(mode, int) or (sha256 and len(bytes.fromhex(sha256)) != 32):
        raise ValueError(f"not a shape: {item!r}")
    return Shape(Kind(item["kind"]), sha256, mode, str(item.get("target", "")))


def file_to_json(key: FileKey, entry: FileEntry) -> dict[str, Any]:
    return {
        "root": key.root, "path": key.path, "place": entry.place,
        "base": shape_to_json(entry.base), "pristine": entry.pristine,
        "edits": [{"owner": _owner(owner), "edits": [_edit(e) for e in entry.edits[owner]]}
                  for owner in sorted(entry.edits)],
        "wants": [{"owner": _owner(owner), "shape": shape_to_json(entry.wants[owner])}
                  for owner in sorted(entry.wants)],
    }


def file_from_json(item: Mapping[str, Any]) -> tuple[FileKey, FileEntry]:
    return _key(item["root"], item["path"]), FileEntry(
        shape_from_json(item["base"]),
        item["pristine"],
        {Owner(*one["owner"]): tuple(_read_edit(e) for e in one["edits"])
         for one in item["edits"]},
        {Owner(*one["owner"]): shape_from_json(one["shape"]) for one in item["wants"]},
        item["place"],
    )


def _owner(owner: Owner) -> list[str]:
    return [owner.patchset, owner.group, owner.patch]


def _edit(edit: Edit) -> dict[str, Any]:
    place = {"start": edit.span.start, "end": edit.span.end}
    try:
        return {**place, "text": edit.new.decode("utf-8")}
    except UnicodeDecodeError:
        return {**place, "base64": base64.b64encode(edit.new).decode("ascii")}


def _read_edit(item: Mapping[str, Any]) -> Edit:
    new = (item["text"].encode("utf-8") if "text" in item
           else base64.b64decode(item["base64"], validate=True))
    return Edit(Span(int(item["start"]), int(item["end"])), new)


def _patchset(applied: AppliedPatchset) -> dict[str, Any]:
    return {"name": applied.name, "digest": applied.digest, "groups": [
        {"id": group.id, "digest": group.digest, "patches": [
            {"id": patch.id, "package": patch.package, "version": patch.version,
             "root": patch.root, "files": list(patch.files)}
            for patch in group.patches]}
        for group in applied.groups.values()]}


def _read_patchset(item: Mapping[str, Any]) -> AppliedPatchset:
    return AppliedPatchset(item["name"], item["digest"], {
        group["id"]: AppliedGroup(group["id"], group["digest"], tuple(
            AppliedPatch(patch["id"], patch["package"], patch["version"], patch["root"],
                         tuple(patch["files"]))
            for patch in group["patches"]))
        for group in item["groups"]})
