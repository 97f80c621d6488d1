"""What a patchset says, as frozen values. The loader and the JSON Schema read these classes.

A field ``fixed_in`` is the key ``fixed-in``; a trailing underscore (``for_``)
only keeps clear of a Python keyword. A field without a default is required.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NewType

from patcher.arch import EMPTY, ArchSet

RelativePath = NewType("RelativePath", str)  # forward slashes, no "..", below the package root
Identifier = NewType("Identifier", str)  # lower case words joined by "-", "_" or "."
Specifier = NewType("Specifier", str)  # PEP 440, ">=0.5.3,<0.6.17"
Release = NewType("Release", str)  # one PEP 440 version
Reference = NewType("Reference", str)  # "flashinfer#3903" or an URL
Count = NewType("Count", int)  # at least 1


class Affects(str, Enum):
    """Whose code an edit changes: only the asked targets', or every architecture's."""

    ASKED = "asked"
    ALL = "all"


class Risk(str, Enum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Place(str, Enum):
    """Where a group makes sense: an installed package, or its source repository."""

    SITE_PACKAGES = "site-packages"
    SOURCE_TREE = "source-tree"


class Unreached(str, Enum):
    """What to do with a file that no translation unit includes."""

    REFUSE = "refuse"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonGate:
    """Open or close a gate in Python code.

    ``gate`` names what is tested (a keyword, constant, decorator, predicate or a
    whole expression), ``within`` the enclosing function or class. ``value`` is
    the source of the value that a new dict key gets.
    """

    file: RelativePath
    gate: str
    within: str = ""
    open: ArchSet = EMPTY
    close: ArchSet = EMPTY
    count: Count = Count(1)
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaGuard:
    """Open or close every arm of ``file`` whose condition matches, exactly ``count`` of them."""

    file: RelativePath
    condition: str
    count: Count = Count(1)
    within: str = ""
    open: ArchSet = EMPTY
    close: ArchSet = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Replace an exact text that occurs ``count`` times (inside ``within``, a function's name)."""

    file: RelativePath
    find: str
    replace: str
    count: Count = Count(1)
    within: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """Add a flag to the list ``list`` inside ``within``, in Python or CMake.

    Where several lists bear the name, ``holds`` is an element of the right ones,
    exactly ``count`` of them.
    """

    file: RelativePath
    flag: str
    list: str
    within: str = ""
    holds: str = ""
    count: Count = Count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """Add the files of folder ``from`` to folder ``to``; files of ``to`` are never replaced.

    ``beside`` are folders searched together with ``to``: the same path there
    must hold the same bytes, as two releases of one set do not mix.
    """

    from_: RelativePath
    to: RelativePath
    beside: tuple[RelativePath, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Symlink:
    """Create the link ``link`` pointing at ``target``, a path beside the link."""

    link: RelativePath
    target: RelativePath


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateFile:
    """Create a text file that does not exist."""

    file: RelativePath
    content: str
    executable: bool = False


Operation = PythonGate | CudaGuard | Text | Flag | Overlay | Symlink | CreateFile
OPERATIONS: dict[str, type[Operation]] = {
    "python-gate": PythonGate,
    "cuda-guard": CudaGuard,
    "text": Text,
    "flag": Flag,
    "overlay": Overlay,
    "symlink": Symlink,
    "create": CreateFile,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """One operation, and what is promised about it.

    ``affects: all`` needs a ``reason``; ``coarse`` accepts an effective set
    larger than the asked one; ``unreached: allow`` accepts a file no unit includes.
    """

    id: Identifier
    operation: Operation
    summary: str = ""
    package: str = ""
    affects: Affects = Affects.ASKED
    reason: str = ""
    coarse: bool = False
    unreached: Unreached = Unreached.REFUSE


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Patches for some versions. Versions only prefer a variant: gates choose it."""

    patches: tuple[Patch, ...]
    versions: Specifier = Specifier("")
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """A cache that a group makes stale, in addition to what is detected."""

    cache: str
    modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expectation:
    """How often ``name`` (a verdict or a mnemonic) occurs, as in ``> 0``."""

    name: str
    operator: str
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyUnit:
    """A unit to compile before and after, and what its code must then hold."""

    unit: RelativePath
    expect: tuple[Expectation, ...] = ()
    archs: ArchSet = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Patches that are applied together or not at all.

    ``include`` names groups of other patchsets, ``PATCHSET/GROUP``, which this one applies as
    one; the loader puts them into ``parts``. ``default`` is None when the document does not
    say; see ``Patchset.default_groups``.
    """

    id: Identifier
    patches: tuple[Patch, ...] = ()
    variants: tuple[Variant, ...] = ()
    include: tuple[str, ...] = ()
    parts: tuple[Group, ...] = ()
    summary: str = ""
    why: str = ""
    default: bool | None = None
    risk: Risk = Risk.MEDIUM
    warning: str = ""
    package: str = ""
    versions: Specifier = Specifier("")
    fixed_in: Release | None = None
    for_: ArchSet = EMPTY
    applies_to: Place | None = None
    requires: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    proof: str = ""
    caches: tuple[CacheUse, ...] = ()
    verify: tuple[VerifyUnit, ...] = ()


    @property
    def every_patch(self) -> tuple[Patch, ...]:
        """Its own patches, those of all variants too."""
        return (*self.patches, *(p for variant in self.variants for p in variant.patches))


@dataclass(frozen=True, slots=True, kw_only=True)
class Patchset:
    """A document. ``digest`` is over its meaning, ``source`` is where it was read from."""

    name: Identifier
    package: str
    groups: tuple[Group, ...]
    summary: str = ""
    archs: ArchSet = EMPTY
    digest: str = ""
    source: str = ""

    @property
    def default_groups(self) -> tuple[str, ...]:
        """The groups a plain apply takes.

        Once a group says ``default``, silence means no; when none does, all are taken.
        """
        if all(group.default is None for group in self.groups):
            return tuple(group.id for group in self.groups)
        return tuple(group.id for group in self.groups if group.default)

    @property
    def packages(self) -> tuple[str, ...]:
        """Every package that some group edits, this document's first."""
        found = [self.package]
        for group in self.groups:
            for part in (group, *group.parts):
                found += [self.package_of(part, patch) for patch in part.every_patch]
        return tuple(dict.fromkeys(found))

    def package_of(self, group: Group, patch: Patch) -> str:
        """The package a patch edits: its own word, else its group's, else the document's."""
        return patch.package or group.package or self.package
