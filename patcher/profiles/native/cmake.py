"""A package that CMake builds: which sources a build for each device would compile, and how."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from patcher.arch import EMPTY, ArchSet, Capability
from patcher.cmake.model import Answer, Place, Project, Settings
from patcher.cmake.project import configure, gencodes, options_of
from patcher.cuda.model import TranslationUnit
from patcher.errors import InputError
from patcher.gates import Gate
from patcher.package.model import Package
from patcher.profiles.flags import Flags, read_flags
from patcher.profiles.generic import guessed_units
from patcher.profiles.known import data
from patcher.profiles.native.ahead import AheadOfTime
from patcher.profiles.native.macros import Tested, tested, without_unit
from patcher.profiles.native.sources import (
    Group,
    Rule,
    Source,
    asked_capabilities,
    grouped,
    module_of,
    runs,
)
from patcher.profiles.search import SearchPath
from patcher.toolchain.model import Toolkit
from patcher.tree import Tree, exists, walk

_SOURCES = re.compile(r"(?:SRCS|SOURCES)\s+\"?\$\{(\w+)")

_READ = (".cu", ".cuh", ".h", ".hpp", ".cc", ".cpp", ".inl")
_PLAIN = frozenset({"SRCS", "SRC", "SOURCES"})  # names that say nothing


@dataclass(frozen=True, slots=True)
class Reading:
    """A project, read once for each device and once as it is distributed."""

    groups: tuple[Group, ...]
    sources: tuple[Source, ...]
    standard: str
    macros: Mapping[Capability, frozenset[str]]
    unbacked: tuple[Gate, ...]
    notes: tuple[str, ...]


class CMakeBuild(AheadOfTime[Reading]):
    """Source trees with a CMakeLists.txt; anything else of the package is as ``Generic`` has it."""

    name = "cmake"

    def translation_units(self, package: Package, toolkit: Toolkit) -> list[TranslationUnit]:
        """The sources as distributed, then every other ``.cu`` with guessed folders."""
        reading = self._read(package, toolkit)
        if reading is None:
            return super().translation_units(package, toolkit)
        search = SearchPath(toolkit)
        modules = module_of(reading.groups)
        units = []
        for number, source in enumerate(reading.sources):
            flags = source.flags
            flags.std = f"c++{reading.standard}" if flags.std == "c++17" else flags.std
            name = f"{source.library}" if not number else f"{source.library}~{number}"
            units.append(TranslationUnit(
                source.path, search.configuration(name, flags, guessed=False),
                modules.get(source.path, ())))
        claimed = {source.path for source in reading.sources}
        units += guessed_units(package, toolkit, claimed, self._folder(package) or "")
        return _renamed(units)

    def build_gates(self, package: Package, toolkit: Toolkit) -> list[Gate]:
        """And macros that are set although the unit that they stand for is not built."""
        reading = self._read(package, toolkit)
        return [*super().build_gates(package, toolkit), *(reading.unbacked if reading else ())]

    def about(self, package: Package) -> tuple[str, ...]:
        """What the project says of itself, where one is here."""
        reading = self._last(package)
        return reading.notes if reading else super().about(package)

    def macros_for(self, package: Package, toolkit: Toolkit) -> Mapping[Capability, frozenset[str]]:
        """The build macros that a build for each device alone sets."""
        reading = self._read(package, toolkit)
        return reading.macros if reading else {}

    def _folder(self, package: Package) -> str | None:
        if not package.source_tree:
            return None
        folders = ("", self._known.folder if self._known else "")
        return next((f for f in folders if exists(package.tree, f"{f}/CMakeLists.txt".lstrip("/"))),
                    None)

    def _reading(self, package: Package, toolkit: Toolkit) -> Reading | None:
        folder = self._folder(package)
        devices = self._known.devices if self._known else ""
        return None if folder is None else read(package.tree, folder, toolkit, devices)


def settings(numbers: Sequence[str], toolkit: Toolkit, devices: str = "") -> Settings:
    """What a machine with this toolkit says to a build for these devices.

    ``devices`` is the project's own variable for their list.
    """
    facts = data()["cmake"]
    flags = " ".join(f"-gencode arch=compute_{n},code=sm_{n}" for n in numbers)
    version = toolkit.version
    variables = {**facts["variables"], "CMAKE_CUDA_FLAGS": flags,
                 "CMAKE_CUDA_COMPILER_VERSION": version, "CUDA_VERSION": version,
                 "CUDAToolkit_VERSION": version, "CMAKE_SYSTEM_PROCESSOR": toolkit.platform,
                 "CUDA_TOOLKIT_ROOT_DIR": str(toolkit.path or "")}
    if devices:
        variables |= {devices: ";".join(numbers)}
    answers = {name: [Answer(row["when"], row["argument"], row["value"]) for row in rows]
               for name, rows in facts["answers"].items()}
    return Settings(variables, answers=answers)


def read(tree: Tree, folder: str, toolkit: Toolkit, devices: str = "") -> Reading | None:
    """The project at ``folder``; None when it cannot be read as CMake."""
    try:
        fat, *each = (configure(tree, folder, settings(numbers, toolkit, devices)) for numbers in (
            data()["cmake"]["distributed"], *([str(c.number)] for c in asked_capabilities())))
        single = dict(zip(asked_capabilities(), each, strict=True))
    except InputError:
        return None
    sources: dict[tuple[str, str], Source] = {}
    for capability, project in single.items():
        for source, codes in _compiled(project, sources):
            source.codes[capability] = codes
    for source, codes in _compiled(fat, sources, flags=True):
        source.distributed = codes
    macros = {capability: _macros(project) for capability, project in single.items()}
    groups = grouped(sources.values())
    own = list(walk(tree, f"{folder}/csrc".lstrip("/"), _READ))
    known = frozenset(own)
    built: dict[str, ArchSet] = {}
    for source in sources.values():
        if source.path in known:
            built[source.path] = built.get(source.path, EMPTY) | ArchSet.of(*source.codes)
    named, defined = tested(tree, own)
    defined |= {name for project in (fat, *single.values()) for name in project.flags}
    return Reading(tuple(groups),
                   tuple(s for s in sources.values() if not s.path.startswith("@")),
                   fat.variables.get("CMAKE_CUDA_STANDARD", "17"), macros,
                   tuple(without_unit(tree, own, macros, built)),
                   (*_notes(fat, sources.values()), *_shadowed(groups),
                    *_never_set(t for t in named if t.name not in defined)))


def _compiled(project: Project, sources: dict[tuple[str, str], Source], *, flags: bool = False,
              ) -> Iterable[tuple[Source, tuple[str, ...]]]:
    """Every CUDA source of a project with its code, entered in ``sources``."""
    for target in project.targets:
        for path in target.sources:
            if not path.endswith(".cu"):
                continue
            source = sources.setdefault((target.name, path), Source(path, target.name))
            options = options_of(target, project, path)
            source.rule = source.rule or _rule(path, project, options)
            if flags or not source.flags.other:
                source.flags = _flags(options, target.include)
            yield source, tuple(dict.fromkeys(gencodes(options)))


def _flags(options: Iterable[str], include: Iterable[str]) -> Flags:
    flags = read_flags(list(options))
    flags.include = [*flags.include, *(p for p in include if not p.startswith(("@", "$")))]
    return flags


def _rule(path: str, project: Project, options: Iterable[str]) -> Rule | None:
    """Where the architectures of a source are listed: the call that made the list, if known.

    A source that is named under a condition on another list hangs on that one.
    """
    for option in project.source_options.get(path, ()):
        if next(gencodes([option.text]), None) is None:
            continue
        named = _SOURCES.search(option.place.text)
        around = [p for p in project.named.get(path, ()) if _is_list(p)]
        made = [p for p in option.origins if _is_list(p)]
        place = (around or made or [option.place])[-1]
        name = named[1] if named and named[1] not in _PLAIN else _stem(path)
        return Rule(place.path, place.line, place.text, name)
    for code in sorted(gencodes(options), key=_number, reverse=True):  # of the whole library
        for place in project.flags.get(code, ()):
            return Rule(place.path, place.line, place.text)
    return None


def _number(code: str) -> int:
    return int("".join(c for c in code if c.isdigit()) or 0)


def _stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]


def _is_list(place: Place) -> bool:
    return place.text.startswith(tuple(f"{name}(" for name in data()["cmake"]["list_functions"]))


def _macros(project: Project) -> frozenset[str]:
    """The build macros that some CUDA source of a project gets."""
    pattern = re.compile(data()["cmake"]["build_macros"])
    found: set[str] = set()
    for target in project.targets:
        if any(path.endswith(".cu") for path in target.sources):
            names = read_flags(options_of(target, project, "")).define
            found |= {name for name in names if pattern.match(name)}
    return frozenset(found)


def _notes(project: Project, sources: Iterable[Source]) -> Iterable[str]:
    if project.fatal:
        yield f"the build stops at {project.fatal}; what follows there is not read"
    away = sorted({s.path.split("/")[1] for s in sources if s.path.startswith("@fetched/")})
    if away:
        yield f"fetched when it is built, and not here: {', '.join(away)}"
    own = {u.text for u in project.undecided}
    if own:
        yield f"{len(own)} conditions of its CMake files depend on the machine: " + "; ".join(
            f"{u.path}:{u.line}" for u in project.undecided[:3])


def _never_set(macros: Iterable[Tested]) -> Iterable[str]:
    places = [f"{macro.name} ({macro.path}:{macro.line})" for macro in macros]
    if places:
        yield ("tested in its sources, but set by no CUDA build for any device: "
               + ", ".join(places[:6]) + (", ..." if places[6:] else ""))


def _shadowed(groups: Iterable[Group]) -> Iterable[str]:
    """Groups that a build for one device alone compiles for it, and one for all does not."""
    listed = [capability for capability in asked_capabilities()
              if str(capability.number) in data()["cmake"]["distributed"]]
    for group in groups:
        source = group.members[0]
        lost = [str(c) for c in listed if c in source.codes and ArchSet.of(c) <= group.served
                and source.distributed and not any(runs(x, c) for x in source.distributed)]
        if lost:
            yield (f"{group.name} is built for {' '.join(source.distributed)} when several "
                   f"architectures are asked for together; for {', '.join(lost)} only alone "
                   f"({group.rule.path}:{group.rule.line})")


def _renamed(units: list[TranslationUnit]) -> list[TranslationUnit]:
    """Equal configurations under one name, the others numbered."""
    names: dict[object, str] = {}
    counts: dict[str, int] = {}
    result = []
    for unit in units:
        configuration = unit.configuration
        library = configuration.id.partition("~")[0]
        key = replace(configuration, id=library)
        if key not in names:
            counts[library] = counts.get(library, 0) + 1
            number = counts[library]
            names[key] = library if number == 1 else f"{library}~{number}"
        result.append(replace(unit, configuration=replace(configuration, id=names[key])))
    return sorted(result, key=lambda u: (u.path, u.configuration.id))
