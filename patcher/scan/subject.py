"""What the profile says of a package, in a form that can be kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

from patcher.changes import Create
from patcher.cuda.model import Configuration, TranslationUnit
from patcher.package.model import Package
from patcher.profiles.base import JitModule, Profile
from patcher.toolchain.model import Toolkit
from patcher.tree import ChangedTree, Tree


@dataclass(frozen=True, slots=True)
class Made:
    """A generated file."""

    path: str
    content: bytes


@dataclass(frozen=True, slots=True)
class UnitRow:
    """A unit; hundreds share one of the numbered configurations."""

    path: str
    configuration: int
    modules: tuple[str, ...]
    content: bytes | None


@dataclass(frozen=True, slots=True)
class Subject:
    """The units, modules and generated files of a package."""

    configurations: tuple[Configuration, ...]
    rows: tuple[UnitRow, ...]
    modules: tuple[JitModule, ...]
    made: tuple[Made, ...]

    def units(self) -> list[TranslationUnit]:
        """The units in the profile's order."""
        return [TranslationUnit(row.path, self.configurations[row.configuration], row.modules,
                                row.content) for row in self.rows]

    def over(self, tree: Tree) -> Tree:
        """A package's tree with the generated files."""
        return ChangedTree(tree, [Create(made.path, made.content) for made in self.made])


def read_subject(profile: Profile, package: Package, toolkit: Toolkit, tree: Tree) -> Subject:
    """Ask the profile; it reads from this tree of the package."""
    package = replace(package, tree=tree)
    generated = profile.tree(package, toolkit)
    made = [Made(path, generated.read(path)) for path in sorted(generated.changed_paths)
            ] if isinstance(generated, ChangedTree) else []
    numbers: dict[Configuration, int] = {}
    rows = [UnitRow(unit.path, numbers.setdefault(unit.configuration, len(numbers)),
                    unit.modules, unit.content)
            for unit in profile.translation_units(package, toolkit)]
    return Subject(tuple(numbers), tuple(rows), tuple(profile.modules(package, toolkit)),
                   tuple(made))
