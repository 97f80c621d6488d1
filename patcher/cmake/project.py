"""A whole project: its CMakeLists.txt run once, and the options a source is compiled with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from patcher.cmake.interpreter import BINARY, SOURCE, Interpreter, Stop
from patcher.cmake.model import BuildTarget, Project, Settings
from patcher.cmake.targets import COMMANDS, source_path
from patcher.cmake.text import is_unknown, split_list
from patcher.tree import Tree

_LANGUAGE = re.compile(r"\$<\$<COMPILE_LANGUAGE:([\w,]+)>:((?:[^<>]|<[^<>]*>)*)>")


def configure(tree: Tree, folder: str, settings: Settings) -> Project:
    """What ``folder/CMakeLists.txt`` would build; raises InputError when it is no CMake.

    Nothing is run, fetched or written, and nothing outside the tree is read.
    """
    machine = Interpreter(tree, folder.strip("/"), settings, COMMANDS)
    source = f"{SOURCE}/{machine.folder}".rstrip("/")
    machine.cache.update(settings.variables)
    for name in ("CMAKE_SOURCE_DIR", "CMAKE_CURRENT_SOURCE_DIR"):
        machine.cache[name] = source
    for name in ("CMAKE_BINARY_DIR", "CMAKE_CURRENT_BINARY_DIR"):
        machine.cache[name] = BINARY
    fatal = ""
    try:
        machine.include(f"{source}/CMakeLists.txt")
    except Stop as stop:
        fatal = f"{machine.place.path}:{machine.place.line} {stop}"
    return Project(
        tuple(machine.targets.values()),
        {path: tuple(options) for path, options in machine.source_options.items()},
        {name: value for name, value in machine.scope.values.items()
         if value is not None and not is_unknown(value)},
        {name: tuple(places) for name, places in machine.flags.items()},
        {source_path(machine, path): places for path, places in machine.named.items()},
        tuple(machine.undecided), tuple(dict.fromkeys(machine.fetched)), fatal)


def options_of(target: BuildTarget, project: Project, source: str,
               language: str = "CUDA") -> list[str]:
    """The compiler's options for one source of a target, in order, macros as -D."""
    given = [f"-D{item.removeprefix('-D')}" for item in for_language(target.definitions, language)]
    given += for_language(target.options, language)
    for option in project.source_options.get(source, ()):
        given += for_language([option.text], language)
    return [item for item in given if not is_unknown(item) and "$<" not in item]


def for_language(values: Iterable[str], language: str = "CUDA") -> list[str]:
    """The items that hold for a language; other generator expressions stay as they are."""
    text = _LANGUAGE.sub(lambda m: m[2] if language in m[1].split(",") else "", ";".join(values))
    return [item for item in split_list(text) if item]


def gencodes(options: Iterable[str]) -> Iterator[str]:
    """The code that ``-gencode arch=...,code=X`` asks for: ``sm_120a`` or ``compute_90``."""
    for option in options:
        match = re.search(r"(?<![\w-])code=\[?([\w,]+)", option)
        if match:
            yield from match[1].split(",")
