"""FlashInfer's translation units: every CUDA source with the configurations it is built in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from patcher.cuda.model import TranslationUnit
from patcher.package.model import Package
from patcher.profiles.cached import cached_units
from patcher.profiles.flags import Flags
from patcher.profiles.flashinfer.builds import Spec
from patcher.profiles.flashinfer.modules import Build, present_flags
from patcher.profiles.flashinfer.targets import cache_folders
from patcher.profiles.ninja import compile_commands
from patcher.profiles.search import SearchPath, distinct
from patcher.toolchain.model import Toolkit
from patcher.tree import walk

_Key = tuple[str, tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...], str]


def translation_units(package: Package, toolkit: Toolkit, builds: Iterable[Build],
                      default: Spec | None) -> list[TranslationUnit]:
    """All units; a source that no module claims gets the package's defaults, marked as guessed."""
    collector = _Collector(SearchPath(toolkit))
    for build in builds:
        for part in build.compiled:
            if part.source.endswith(".cu"):
                collector.add(part.source, part.flags, build.module.name,
                              bool(build.module.guessed), part.content)
    _add_unclaimed(package, collector, default)
    return collector.units()


def units_of_cache(package: Package, toolkit: Toolkit) -> list[TranslationUnit]:
    """The units of this version's JIT caches; sources generated there keep their own path."""
    collector = _Collector(SearchPath(toolkit))
    for unit in cached_units(package, cache_folders(package)):
        collector.add(unit.source, unit.flags, unit.module, guessed=False)
    return collector.units()


class _Collector:
    """Units by source and configuration; equal ones of several modules become one."""

    def __init__(self, search: SearchPath) -> None:
        self._search = search
        self._units: dict[_Key, TranslationUnit] = {}
        self._names: Counter[str] = Counter()
        self._ids: dict[tuple[str, _Key], str] = {}

    def add(self, source: str, flags: Flags, module: str, guessed: bool,
            content: bytes | None = None) -> None:
        wanted = self._search.configuration(module or "default", flags, guessed)
        key = (source, wanted.include, wanted.system, wanted.defines, wanted.std)
        names = (module,) if module else ()
        unit = self._units.get(key)
        if unit is None:
            identity = self._identity(wanted.id, key)
            self._units[key] = TranslationUnit(source, replace(wanted, id=identity), names, content)
        elif module and module not in unit.modules:
            self._units[key] = replace(unit, modules=(*unit.modules, module))

    def _identity(self, name: str, key: _Key) -> str:
        """The module's name, numbered from the second of its configurations on."""
        known = (name, ("", *key[1:]))
        if known not in self._ids:
            self._names[name] += 1
            number = self._names[name]
            self._ids[known] = name if number == 1 else f"{name}~{number}"
        return self._ids[known]

    @property
    def sources(self) -> dict[str, TranslationUnit]:
        return {unit.path: unit for unit in self._units.values()}

    def units(self) -> list[TranslationUnit]:
        return sorted(self._units.values(), key=lambda u: (u.path, u.configuration.id))


def _add_unclaimed(package: Package, collector: _Collector, default: Spec | None) -> None:
    """Sources that no module names, with default flags and the folders of a near module."""
    commands = compile_commands(default.build_file) if default else []
    flags = present_flags(commands[0]) if commands else Flags()
    claimed = collector.sources
    searches = list(dict.fromkeys(_own_folders(unit) for unit in claimed.values()))
    for path in walk(package.tree, f"{package.import_name}/data/csrc", (".cu",)):
        if path not in claimed:
            near = max(searches, key=lambda search: _nearness(search, path), default=())
            extra = near if _nearness(near, path) else ()
            collector.add(path, replace(flags, include=distinct([*extra, *flags.include])),
                          "", guessed=True)


def _own_folders(unit: TranslationUnit) -> tuple[str, ...]:
    return tuple(f for f in unit.configuration.include if not f.startswith(("/", "@")))


def _nearness(search: Iterable[str], path: str) -> int:
    """How deep a search path leads into the folders above a file."""
    return max((len(f) for f in search if path.startswith(f"{f}/")), default=0)
