"""What every profile can fall back on: all CUDA files, with guessed folders and flags."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from patcher.arch import Capability, Target, target
from patcher.cuda.model import TranslationUnit
from patcher.gates import Gate
from patcher.package.model import Package
from patcher.profiles.base import JitModule, PublicFunction, Resolved
from patcher.profiles.devices import ASSUMED, AUTO, detect, parse_device
from patcher.profiles.flags import Flags
from patcher.profiles.known import Known
from patcher.profiles.search import SearchPath
from patcher.tree import Tree, walk

if TYPE_CHECKING:
    from patcher.toolchain.model import Toolkit

_INCLUDE_NAMES = ("include", "csrc", "src", "inc")
_HEADERS = (".h", ".hpp", ".cuh", ".inl")
_SKIPPED = frozenset({"__pycache__", ".git", "build", "node_modules"})


class Generic:
    """Units and targets of a package whose build is not read; it has no modules.

    ``known`` is what its row says of it, None for an unknown package.
    """

    name = "generic"

    def __init__(self, known: Known | None = None) -> None:
        self._known = known

    def translation_units(self, package: Package, toolkit: Toolkit) -> list[TranslationUnit]:
        """Every ``.cu`` file, each with the include folders of the package; all guessed."""
        return guessed_units(package, toolkit)

    def tree(self, package: Package, toolkit: Toolkit) -> Tree:
        """The package's own tree: nothing is generated."""
        return package.tree

    def surroundings(self, package: Package, toolkit: Toolkit) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def modules(self, package: Package, toolkit: Toolkit) -> list[JitModule]:
        """None: what is built at run time is not known."""
        return []

    def functions_of(self, package: Package, module: JitModule) -> list[PublicFunction]:
        """None, as there are no modules."""
        return []

    def resolve_target(self, device: str, package: Package, toolkit: Toolkit) -> Resolved:
        """A capability from 9.0 on becomes its ``a`` target, the one with every instruction."""
        if device == AUTO:
            for capability, reason in detect():
                return Resolved(_arch_specific(capability), reason)
            return Resolved(target(ASSUMED), "no GPU here", assumed=True)
        named = parse_device(device)
        if isinstance(named, Target):
            return Resolved(named, f"named as {device}")
        return Resolved(_arch_specific(named), f"{device} is {named}; its arch-specific target")

    def aot_folders(self, package: Package) -> list[str]:
        """None is known."""
        return []

    def cache_ids(self) -> tuple[str, ...]:
        """Those that its row names."""
        return self._known.caches if self._known else ()

    def build_gates(self, package: Package, toolkit: Toolkit) -> list[Gate]:
        """None: its build files are not read."""
        return []

    def libraries(self, package: Package) -> list[str]:
        """Every shared library of the package."""
        return shared_libraries(package)

    def about(self, package: Package) -> tuple[str, ...]:
        """That its units are guessed, and what its row says."""
        said = (self._known.wheel,) if self._known and not package.source_tree else ()
        if package.read_only and not package.source_tree:
            said = (*said, "an archive: libraries in it are not looked into")
        if next(walk(package.tree, package.top, (".cu",)), None) is None:
            return said
        guessed = ("how its CUDA files are built is not read: each stands for itself, with every "
                   "include folder of the package")
        return (*said, guessed)


def guessed_units(package: Package, toolkit: Toolkit, skip: Collection[str] = (),
                  top: str | None = None) -> list[TranslationUnit]:
    """Every ``.cu`` but those in ``skip``, each with the include folders of the package."""
    if top is None:
        top = package.top
    paths = [path for path in walk(package.tree, top, (".cu",)) if path not in skip]
    if not paths:
        return []
    configuration = SearchPath(toolkit).configuration(
        "guessed", Flags(include=_include_folders(package.tree, top)), guessed=True)
    return [TranslationUnit(path, configuration) for path in paths]


def shared_libraries(package: Package) -> list[str]:
    """The shared libraries below the package's folder; none of an archive or a source tree."""
    if package.read_only or package.source_tree:
        return []
    return [path for path in walk(package.tree, package.import_name)
            if path.endswith(".so") or ".so." in path.rpartition("/")[2]]


def _arch_specific(capability: Capability) -> Target:
    return target(f"sm_{capability.number}{'a' if capability.major >= 9 else ''}")


def _include_folders(tree: Tree, top: str) -> list[str]:
    """Folders named like include folders, outermost first, then the package's own folder."""
    found: list[str] = []
    level = [top]
    while level:
        following: list[str] = []
        for folder in level:
            for name in sorted(tree.folders(folder)):
                if name in _SKIPPED:
                    continue
                path = f"{folder}/{name}" if folder else name
                following.append(path)
                if name in _INCLUDE_NAMES and _has_headers(tree, path):
                    found.append(path)
        level = following
    return [*found, top] if top else found


def _has_headers(tree: Tree, folder: str) -> bool:
    return any(True for _ in walk(tree, folder, _HEADERS))
