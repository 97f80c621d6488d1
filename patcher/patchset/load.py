"""Load a patchset: by path, by the name of a shipped one, or from bytes."""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from patcher.errors import InputError, SchemaError
from patcher.patchset import schema
from patcher.patchset.document import MAX_BYTES, Value, parse_document
from patcher.patchset.parse import Problems, read, read_object, shown, type_name
from patcher.patchset.shipped import shipped

SCHEMA_VERSION = 1


def load_patchset(name: str) -> schema.Patchset:
    """Load ``name``: an existing path, or a shipped patchset's name.

    ``patchsets/NAME.yaml`` names the shipped one when there is no such file.
    Raises InputError (no such patchset, unreadable) and SchemaError (all problems at once).
    """
    path = find_patchset(name)
    try:
        with path.open("rb") as handle:
            data = handle.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=str(path)) from error
    patchset = parse_patchset(data, str(path))
    return included(patchset) if any(group.include for group in patchset.groups) else patchset


def typed(patchset: schema.Patchset) -> str:
    """How a command line names this patchset: a shipped one by its name, any other by its path."""
    known = shipped().get(patchset.name)
    if known is not None and patchset.source == str(known):
        return patchset.name
    return shlex.quote(patchset.source)


def is_patchset(name: str) -> bool:
    """True for a YAML file's path or a shipped name; what else may be typed is a package."""
    return name.endswith((".yaml", ".yml")) or name in shipped()


def find_patchset(name: str) -> Path:
    """Where ``name`` lies; raises InputError with the nearest shipped names."""
    path = Path(name)
    if path.is_file():
        return path
    if os.path.lexists(path) and path.suffix in (".yaml", ".yml"):
        raise InputError("not a file" if path.exists() else "a link that leads nowhere", where=name)
    known = shipped()
    bare = path.stem if path.suffix in (".yaml", ".yml") else path.name
    if bare in known and str(path.parent) in (".", "patchsets"):
        return known[bare]
    head, _, group = name.partition("/")
    if head in known and group:  # as reports name a group
        raise InputError("no such patchset", where=name, next_step=f"{head} --group {group}")
    near = difflib.get_close_matches(bare, known, 3, 0.4) or sorted(known)
    advice = f"shipped: {', '.join(near)}" if near else "give the path of a YAML file"
    raise InputError("no such patchset", where=name, next_step=advice)


@lru_cache(maxsize=64)  # several shipped ones include the same
def parse_patchset(data: bytes, where: str) -> schema.Patchset:
    """Read a patchset from its bytes; raises SchemaError with every problem and its path."""
    value, notes = parse_document(data, where)
    problems = Problems()
    problems.found.extend(notes)
    patchset = _read_patchset(value, where, problems)
    if not problems.found:
        _check_names(patchset, problems)
    if problems.found:
        raise SchemaError(problems.found, where=where)
    return patchset


def included(patchset: schema.Patchset) -> schema.Patchset:
    """The patchset with the groups that its groups include; its digest covers them.

    Raises SchemaError for a group that does not exist or includes others itself.
    """
    problems, digests = Problems(), [patchset.digest]
    groups = []
    for index, group in enumerate(patchset.groups):
        parts = []
        for name in group.include:
            other, part = _named(name, patchset.source, f"groups[{index}].include", problems)
            if other is not None and part is not None:
                digests.append(other.digest)
                parts.append(_as_part(other, part, group))
        groups.append(_whole(group, parts))
    if problems.found:
        raise SchemaError(problems.found, where=patchset.source)
    return replace(patchset, groups=tuple(groups), digest=digest_of(list(digests)))


def _named(name: str, source: str, path: str, problems: Problems
           ) -> tuple[schema.Patchset | None, schema.Group | None]:
    """``PATCHSET/GROUP``, looked for beside the document, then among the shipped ones."""
    other_name, _, wanted = name.rpartition("/")
    beside = Path(source).with_name(f"{other_name}.yaml")
    other = None
    if other_name and (beside.is_file() or other_name in shipped()):
        other = load_patchset(str(beside) if beside.is_file() else other_name)
    found = next((g for g in other.groups if g.id == wanted), None) if other else None
    if found is None:
        problems.add(path, f"no group {name!r}; write PATCHSET/GROUP")
    elif found.include:
        problems.add(path, f"{name!r} includes others itself")
    return other, found


def _as_part(other: schema.Patchset, part: schema.Group, whole: schema.Group) -> schema.Group:
    """A group as a part of another: its patches say their package, and whose they are."""
    def own(patches: tuple[schema.Patch, ...]) -> tuple[schema.Patch, ...]:
        return tuple(replace(patch, id=schema.Identifier(f"{part.id}.{patch.id}"),
                             package=other.package_of(part, patch)) for patch in patches)

    variants = tuple(replace(v, patches=own(v.patches)) for v in part.variants)
    return replace(part, id=whole.id, package=part.package or other.package, requires=(),
                   patches=own(part.patches), variants=variants)


def _whole(group: schema.Group, parts: list[schema.Group]) -> schema.Group:
    """A group with its parts, and with what holds for them."""
    needs = (*group.needs, *(need for part in parts for need in part.needs))
    return replace(
        group, parts=tuple(parts), needs=tuple(dict.fromkeys(needs)),
        caches=(*group.caches, *(use for part in parts for use in part.caches)),
        verify=(*group.verify, *(unit for part in parts for unit in part.verify)))


def digest_of(value: Value) -> str:
    """SHA-256 of the parsed YAML as canonical JSON: comments and layout do not count."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _read_patchset(value: Value, where: str, problems: Problems) -> schema.Patchset:
    if not isinstance(value, dict):
        raise SchemaError([f"expected a mapping, got {type_name(value)}"], where=where)
    version = value.get("sm-patch")
    if version is None:
        problems.add("", "'sm-patch: 1' is required; is this a patchset?")
    elif version != SCHEMA_VERSION or version is True:
        problems.add("sm-patch", f"expected {SCHEMA_VERSION}, got {shown(version)}; "
                                 "a newer document needs a newer sm-patch")
    extra = {"groups": _groups(value.get("groups"), problems),
             "digest": digest_of(value), "source": where}
    return read_object(schema.Patchset, value, "", problems, extra, ("sm-patch", "groups"))


def _groups(value: Any, problems: Problems) -> tuple[schema.Group, ...]:
    items = _list(value, "groups", problems)
    return tuple(_group(item, f"groups[{i}]", problems) for i, item in enumerate(items))


def _list(value: Any, path: str, problems: Problems) -> list[Any]:
    if not isinstance(value, list) or not value:
        got = "nothing" if value is None or value == [] else type_name(value)
        problems.add(path, f"expected a list with at least one entry, got {got}")
        return []
    return value


def _group(value: Any, path: str, problems: Problems) -> schema.Group:
    if not isinstance(value, dict):
        return read_object(schema.Group, value, path, problems)
    if sum(key in value for key in ("patches", "variants", "include")) != 1:
        problems.add(path, "expected one of 'patches', 'variants' and 'include'")
    extra: dict[str, Any] = {"patches": (), "variants": (), "parts": ()}
    if "patches" in value:
        extra["patches"] = _patches(value["patches"], f"{path}.patches", problems)
    if "variants" in value:
        items = _list(value["variants"], f"{path}.variants", problems)
        extra["variants"] = tuple(_variant(item, f"{path}.variants[{i}]", problems)
                                  for i, item in enumerate(items))
    return read_object(schema.Group, value, path, problems, extra, ("patches", "variants"))


def _variant(value: Any, path: str, problems: Problems) -> schema.Variant:
    if not isinstance(value, dict):
        return read_object(schema.Variant, value, path, problems)
    extra = {"patches": _patches(value.get("patches"), f"{path}.patches", problems)}
    return read_object(schema.Variant, value, path, problems, extra, ("patches",))


def _patches(value: Any, path: str, problems: Problems) -> tuple[schema.Patch, ...]:
    items = _list(value, path, problems)
    return tuple(_patch(item, f"{path}[{i}]", problems) for i, item in enumerate(items))


def _patch(value: Any, path: str, problems: Problems) -> schema.Patch:
    if not isinstance(value, dict):
        return read_object(schema.Patch, value, path, problems)
    named = [key for key in value if key in schema.OPERATIONS]
    operation = None
    if len(named) != 1:
        known = ", ".join(schema.OPERATIONS)
        problems.add(path, f"expected exactly one operation of {known}; got {len(named)}")
    for key in named:
        operation = read(schema.OPERATIONS[key], value[key], f"{path}.{key}", problems)
        _check_operation(operation, f"{path}.{key}", problems)
    patch = read_object(schema.Patch, value, path, problems, {"operation": operation},
                        tuple(schema.OPERATIONS))
    if value.get("affects") == "all" and not value.get("reason"):
        problems.add(path, "'affects: all' needs a 'reason'")
    return patch


def _check_operation(operation: Any, path: str, problems: Problems) -> None:
    """What one operation's fields must say together."""
    gated = isinstance(operation, schema.PythonGate | schema.CudaGuard)
    if gated and bool(operation.open) == bool(operation.close):
        problems.add(path, "expected either 'open' or 'close'")
    if isinstance(operation, schema.Text):
        if not operation.find:
            problems.add(f"{path}.find", "must not be empty")
        if operation.find == operation.replace:
            problems.add(f"{path}.replace", "is the same text as 'find'")
    if isinstance(operation, schema.CudaGuard) and not operation.condition.strip():
        problems.add(f"{path}.condition", "must not be empty")


def _check_names(patchset: schema.Patchset, problems: Problems) -> None:
    """Names must be unique, and required groups of this document must exist."""
    seen: set[str] = set()
    for index, group in enumerate(patchset.groups):
        if group.id in seen:
            problems.add(f"groups[{index}].id", f"{group.id!r} stands twice")
        seen.add(group.id)
        for where, patches in _patch_lists(group):
            ids = [patch.id for patch in patches]
            for twice in sorted({name for name in ids if ids.count(name) > 1}):
                problems.add(f"groups[{index}].{where}", f"patch {twice!r} stands twice")
    for index, group in enumerate(patchset.groups):
        for name in group.requires:
            if "/" not in name and name not in seen - {group.id}:
                problems.add(f"groups[{index}].requires", f"no other group is called {name!r}")


def _patch_lists(group: schema.Group) -> Iterator[tuple[str, tuple[schema.Patch, ...]]]:
    yield "patches", group.patches
    for index, variant in enumerate(group.variants):
        yield f"variants[{index}].patches", variant.patches
