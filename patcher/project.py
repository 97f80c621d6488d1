"""The project file: which patchsets a project wants, and in which environment.

``sm-patch.toml``, or the table ``[tool.sm-patch]`` of ``pyproject.toml``, in
the working folder or the nearest one above it::

    patchsets = ["flashinfer-sm120", "patches/ours.yaml"]
    groups = ["flashinfer-sm120/trtllm-comm"]  # default: those a plain apply takes
    python = ".venv"                           # or: root = "image/site-packages"

Paths are relative to the file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patcher.errors import InputError, Refused, SchemaError
from patcher.patchset.parse import Problems, read_object
from patcher.toml import parse_toml

_OWN, _SHARED = "sm-patch.toml", "pyproject.toml"
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    patchsets: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    python: str | None = None
    root: str | None = None


@dataclass(frozen=True, slots=True)
class Project:
    """What a project file says; paths are absolute. ``groups`` are as typed after --group."""

    path: Path
    patchsets: tuple[str, ...]
    groups: tuple[str, ...] = ()
    python: str | None = None
    root: str | None = None


def find_project(start: Path) -> Project | None:
    """The nearest project file at or above ``start``; None when there is none.

    Raises InputError for one that cannot be read, SchemaError with all its
    problems, Refused for one that somebody else could have put there.
    """
    here = Path(os.path.abspath(start))
    for folder in (here, *here.parents):
        for name in (_OWN, _SHARED):
            path = folder / name
            if not path.is_file():
                continue
            table = _table(path)
            if table is not None:
                _check_owner(path)
                return _project(path, table)
    return None


def _table(path: Path) -> dict[str, Any] | None:
    """The table; None for a pyproject.toml without one, whatever else is in it."""
    try:
        data = path.read_bytes()[:_MAX_BYTES + 1]
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read: {error}", where=str(path)) from error
    if len(data) > _MAX_BYTES:
        raise InputError(f"larger than {_MAX_BYTES >> 10} KiB", where=str(path))
    if path.name == _SHARED and "sm-patch" not in text:
        return None
    document = parse_toml(text, str(path))
    if path.name == _OWN:
        return document
    tool = document.get("tool")
    table = tool.get("sm-patch") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise SchemaError(["tool.sm-patch: expected a table"], where=str(path))
    return table


def _check_owner(path: Path) -> None:
    """It decides what is patched: only we and root may have written it."""
    info = path.stat()
    if info.st_uid not in (0, os.geteuid()) or info.st_mode & 0o002:
        raise Refused("this project file belongs to somebody else, or others may write it",
                      where=str(path), next_step="name patchsets, or take the file over")


def _project(path: Path, table: dict[str, Any]) -> Project:
    problems = Problems()
    document = read_object(_Document, table, "", problems)
    if not problems.found and document.python and document.root:
        problems.add("root", "name either python or root")
    if not problems.found and not document.patchsets:
        problems.add("patchsets", "expected at least one")
    if problems.found:
        raise SchemaError(problems.found, where=str(path))
    folder = path.parent
    return Project(path, tuple(_patchset(folder, name) for name in document.patchsets),
                   document.groups, _absolute(folder, document.python),
                   _absolute(folder, document.root))


def _patchset(folder: Path, name: str) -> str:
    """A file's name is a path beside the project file; a bare name may be a shipped one."""
    is_path = "/" in name or name.endswith((".yaml", ".yml"))
    return str(folder / name) if is_path else name


def _absolute(folder: Path, path: str | None) -> str | None:
    return str(folder / path) if path else None
