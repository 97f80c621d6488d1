"""What a profile tells about one package: how its CUDA code is built, by whom, for what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from patcher.arch import Target
from patcher.gates import Gate
from patcher.package.model import Package

if TYPE_CHECKING:
    from patcher.cuda.model import TranslationUnit
    from patcher.toolchain.model import Toolkit
    from patcher.tree import Tree


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a Python file; ``line`` is 1-based."""

    path: str
    function: str
    line: int


@dataclass(frozen=True, slots=True)
class PythonGate:
    """Where a module's list of architectures stands, and the list as written."""

    site: Site
    expression: str  # "[9, 10]", or the name of a constant
    majors: tuple[int, ...] | None  # None when it could not be evaluated


@dataclass(frozen=True, slots=True)
class Template:
    """A unit rendered from a template, or by a generator, as ``@generated/MODULE/NAME``."""

    path: str
    source: str  # the template or the generator it comes from
    content: bytes
    stands_for: int  # how many generated units this one represents


@dataclass(frozen=True, slots=True)
class JitModule:
    """What one call of the build function compiles.

    ``name`` may hold ``*`` where it depends on arguments (dtypes, head sizes);
    ``uri`` is the regular expression that the names in a cache match.
    ``sources`` are CUDA and C++ files, package paths or ``@generated/...``;
    ``flags`` the module's own compiler flags in order; ``targets`` those that it
    names itself instead of taking the machine's. ``guessed`` says why the answer
    is not exact, empty when it is.
    """

    name: str
    uri: str
    generator: Site
    sources: tuple[str, ...]
    flags: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    gates: tuple[PythonGate, ...] = ()
    targets: tuple[str, ...] = ()
    templates: tuple[Template, ...] = ()
    headers: tuple[Template, ...] = ()  # generated files that units include
    guessed: str = ""
    tabled: bool = False  # one of many that its function makes from a table


@dataclass(frozen=True, slots=True)
class PublicFunction:
    """A public Python function that reaches a module.

    ``bindings`` are the exported names it calls, ``sources`` the CUDA files that
    export them; both empty when the calls could not be followed.
    """

    name: str
    path: str
    line: int
    bindings: tuple[str, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resolved:
    """A device's target as this package, CUDA version and launcher would build it.

    ``assumed`` is set when the device itself was not found but supposed;
    ``reason`` says what decided, with its source.
    """

    target: Target
    reason: str
    assumed: bool = False


class Profile(Protocol):
    """The knowledge about one package; ``package`` and ``toolkit`` come from the caller."""

    name: str

    def translation_units(self, package: Package, toolkit: Toolkit) -> list[TranslationUnit]:
        """Every unit with its configuration; each ``.cu`` of the package is in at least one."""

    def tree(self, package: Package, toolkit: Toolkit) -> Tree:
        """The package's tree plus generated headers, as the units see it."""

    def modules(self, package: Package, toolkit: Toolkit) -> Sequence[JitModule]:
        """What the package compiles at run time, in a stable order."""

    def functions_of(self, package: Package, module: JitModule) -> list[PublicFunction]:
        """The public functions that reach a module."""

    def resolve_target(self, device: str, package: Package, toolkit: Toolkit) -> Resolved:
        """The target that a device, capability or target name means for this package."""

    def surroundings(self, package: Package, toolkit: Toolkit) -> tuple[str, ...]:
        """What its answers depend on besides the package's tree and the toolkit."""

    def aot_folders(self, package: Package) -> list[str]:
        """Folders of prebuilt modules that win over source; absolute or package paths."""

    def cache_ids(self) -> tuple[str, ...]:
        """The caches of the atlas that hold what this package builds."""

    def build_gates(self, package: Package, toolkit: Toolkit) -> list[Gate]:
        """What its build files compile for some targets only; layer build."""

    def libraries(self, package: Package) -> list[str]:
        """Its prebuilt shared libraries, as package paths or absolute ones."""

    def about(self, package: Package) -> tuple[str, ...]:
        """Sentences for the reader: how it is built, and what is guessed here."""
