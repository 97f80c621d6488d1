"""What the version of a package says about a group: a label, where gates decide."""

from __future__ import annotations

from enum import Enum


class Label(Enum):
    """What a package's version says about a group."""

    INSIDE = "inside"
    OUTSIDE = "outside"
    FIXED = "fixed"  # at or above fixed-in
    NONE = "none"  # it says nothing


def label_of(version: str | None, versions: str, fixed_in: str | None) -> Label:
    """What ``version`` says, given a group's ``versions`` and ``fixed-in``."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        known = Version(version or "")
    except InvalidVersion:
        return Label.NONE
    if "unknown" in (known.local or "") or not any(known.release):
        return Label.NONE
    if fixed_in is not None and known >= Version(fixed_in):
        return Label.FIXED
    if SpecifierSet(versions).contains(known, prereleases=True):
        return Label.INSIDE
    return Label.NONE if known.is_prerelease else Label.OUTSIDE
