"""The profile itself: everything is read from the package at hand, and read once."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from patcher.changes import Create
from patcher.gates import Gate
from patcher.package.model import Package
from patcher.profiles.base import JitModule, PublicFunction, Resolved
from patcher.profiles.beside import first, sites
from patcher.profiles.flashinfer.builds import Machine, Spec
from patcher.profiles.flashinfer.functions import FunctionIndex
from patcher.profiles.flashinfer.modules import Build, builds_of
from patcher.profiles.flashinfer.remembered import read_builds
from patcher.profiles.flashinfer.targets import resolve_target
from patcher.profiles.flashinfer.units import translation_units, units_of_cache
from patcher.toolchain.model import Toolkit
from patcher.tree import ChangedTree, Tree

if TYPE_CHECKING:
    from patcher.cuda.model import TranslationUnit

CACHES = ("flashinfer_nvcc_jit", "flashinfer_aot", "flashinfer_cubin", "flashinfer_cute_dsl",
          "flashinfer_nvrtc", "flashinfer_autotune")


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was read of one package for one CUDA release; it keeps the tree alive."""

    tree: Tree
    builds: tuple[Build, ...]
    default: Spec | None


class FlashInfer:
    """FlashInfer from 0.5 on. Nothing of it is imported or run."""

    name = "flashinfer"

    def __init__(self) -> None:
        self._readings: dict[tuple[int, tuple[int, int], str], _Reading] = {}
        self._index: FunctionIndex | None = None

    def translation_units(self, package: Package, toolkit: Toolkit) -> list[TranslationUnit]:
        """Every unit with its configuration; each ``.cu`` of the package is in at least one."""
        reading = self._read(package, toolkit)
        return translation_units(package, toolkit, reading.builds, reading.default)

    def tree(self, package: Package, toolkit: Toolkit) -> Tree:
        """The package's tree plus generated headers and units, as the compiler would see it."""
        made: dict[str, bytes] = {}
        for build in self._read(package, toolkit).builds:
            for template in (*build.module.headers, *build.module.templates):
                made.setdefault(template.path, template.content)
        return ChangedTree(package.tree, [Create(path, data) for path, data in made.items()])

    def modules(self, package: Package, toolkit: Toolkit) -> list[JitModule]:
        """What the package compiles at run time, in the package's order."""
        return [build.module for build in self._read(package, toolkit).builds]

    def functions_of(self, package: Package, module: JitModule) -> list[PublicFunction]:
        """The public functions that reach a module, with bindings and exporting sources."""
        if self._index is None or self._index.package.tree is not package.tree:
            self._index = FunctionIndex(package)
        return self._index.functions_of(module)

    def resolve_target(self, device: str, package: Package, toolkit: Toolkit) -> Resolved:
        """The target that a device, capability or target name means for this package."""
        return resolve_target(device, package, toolkit)

    def surroundings(self, package: Package, toolkit: Toolkit) -> tuple[str, ...]:
        """The folders of headers that are found beside the package or in its environment."""
        return tuple(map(str, astuple(_machine(package, toolkit))))

    def aot_folders(self, package: Package) -> list[str]:
        """Where prebuilt modules are looked for: the package's own, and jit-cache packages.

        Their order differs by version (0.6.3 asks the jit-cache package first,
        0.7.4 the own folder); a module in any of them shadows its source.
        """
        if package.read_only:
            return []
        found = [str(package.root / package.import_name / "data" / "aot")]
        for site in sites(package):
            for folder in sorted(site.glob("flashinfer_jit_cache*")):
                if not folder.name.endswith(".dist-info"):
                    found.append(str(folder / "jit_cache"))
        return found

    def cache_ids(self) -> tuple[str, ...]:
        """The caches of the atlas that hold what FlashInfer builds."""
        return CACHES

    def build_gates(self, package: Package, toolkit: Toolkit) -> list[Gate]:
        """None beside those in its Python code: modules are built one by one at run time."""
        return []

    def libraries(self, package: Package) -> list[str]:
        """The prebuilt modules in its AOT folders."""
        return [str(path) for folder in self.aot_folders(package)
                for path in sorted(Path(folder).glob("*/*.so"))]

    def about(self, package: Package) -> tuple[str, ...]:
        """Nothing: its build functions are read."""
        return ()

    def cached_units(self, package: Package, toolkit: Toolkit) -> list[TranslationUnit]:
        """What this user's JIT cache of this version was really built from: exact flags."""
        return units_of_cache(package, toolkit)

    def _read(self, package: Package, toolkit: Toolkit) -> _Reading:
        home = str(toolkit.path or "")
        key = (id(package.tree), toolkit.release, home)
        if key not in self._readings:
            default, specs = read_builds(package, _machine(package, toolkit))
            builds = builds_of(specs, package.tree)
            self._readings[key] = _Reading(package.tree, tuple(builds), default)
        return self._readings[key]


def _machine(package: Package, toolkit: Toolkit) -> Machine:
    environment = package.environment
    places = sites(package)
    include = environment.include if environment else None
    return Machine(toolkit.release, str(toolkit.path or ""), str(include or ""),
                   first(places, "tvm", "tvm_ffi/include"),
                   # as tvm_ffi.libinfo looks for it (0.1.15)
                   first(places, "dlpack", "tvm_ffi/include", "tvm_ffi/3rdparty/dlpack/include"))
