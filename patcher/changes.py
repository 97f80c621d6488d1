"""What a transaction does to a tree, as values; every change has an inverse.

Paths are relative to the package root with forward slashes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Modify:
    path: str
    old: bytes
    new: bytes


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    new: bytes
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    old: bytes
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Link:
    """Create a symlink that did not exist."""

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class Unlink:
    """Remove a symlink."""

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class Move:
    """Rename a file or folder inside the root (an AOT module set aside)."""

    path: str
    new_path: str


Change = Modify | Create | Delete | Link | Unlink | Move


def invert(change: Change) -> Change:
    """The change that undoes this one."""
    if isinstance(change, Modify):
        return Modify(change.path, change.new, change.old)
    if isinstance(change, Create):
        return Delete(change.path, change.new, change.mode)
    if isinstance(change, Delete):
        return Create(change.path, change.old, change.mode)
    if isinstance(change, Link):
        return Unlink(change.path, change.target)
    if isinstance(change, Unlink):
        return Link(change.path, change.target)
    return Move(change.new_path, change.path)
