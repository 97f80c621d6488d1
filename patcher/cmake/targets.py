"""The commands that say what is built: files, targets, sources, options."""

from __future__ import annotations

import fnmatch

from patcher.cmake.builtins import COMPUTING, note
from patcher.cmake.interpreter import BINARY, SOURCE, Builtin, Interpreter, Values
from patcher.cmake.model import BuildTarget, Option
from patcher.cmake.routines import Scope
from patcher.cmake.text import HOLE, join_list, split_list

_FETCHED = "/@fetched"
_LIBRARY_WORDS = frozenset({"STATIC", "SHARED", "MODULE", "OBJECT", "INTERFACE", "WITH_SOABI",
                            "EXCLUDE_FROM_ALL", "NO_EXTRAS", "THIN_LTO", "SYSTEM", "IMPORTED",
                            "GLOBAL", "WIN32", "MACOSX_BUNDLE", "ALIAS"})
_VISIBILITY = frozenset({"PRIVATE", "PUBLIC", "INTERFACE", "BEFORE", "AFTER", "SYSTEM"})


def source_path(machine: Interpreter, path: str) -> str:
    """A source's name in the result: the tree's path, or one that begins with ``@``."""
    full = machine.absolute(path)
    inside = machine.inside(full)
    return full[1:] if inside is None else inside


def _file(machine: Interpreter, values: Values) -> None:
    action, rest = (values or [""])[0], values[1:]
    if action in ("GLOB", "GLOB_RECURSE") and rest:
        machine.set(rest[0], join_list(_globbed(machine, action, rest[1:])))
    elif action == "READ" and len(rest) > 1:
        machine.set(rest[1], machine.read(rest[0]))
    elif action == "RELATIVE_PATH" and len(rest) > 2:
        base = machine.absolute(rest[1]) + "/"
        machine.set(rest[0], machine.absolute(rest[2]).removeprefix(base))
    elif action == "REAL_PATH" and len(rest) > 1:
        machine.set(rest[1], machine.absolute(rest[0]))
    elif action in ("STRINGS", "MD5", "SHA1", "SHA256", "SIZE", "TIMESTAMP") and len(rest) > 1:
        machine.set(rest[1], HOLE)


def _globbed(machine: Interpreter, action: str, values: Values) -> list[str]:
    found: list[str] = []
    for value in values:
        if value in ("CONFIGURE_DEPENDS", "RELATIVE", "FOLLOW_SYMLINKS"):
            continue
        folder, _, name = machine.absolute(value).rpartition("/")
        while "*" in folder or "?" in folder:  # a pattern in a folder's name, too
            folder, _, above = folder.rpartition("/")
            name = f"{above}/{name}"
        matched = [path for path in machine.files_below(folder)
                   if _fits(path[len(folder) + 1:], name, action == "GLOB_RECURSE")]
        found += sorted(matched)
    return list(dict.fromkeys(found))


def _fits(path: str, name: str, recursive: bool) -> bool:
    """Path and pattern part by part; at any depth when it goes down."""
    parts, patterns = path.split("/"), name.split("/")
    if len(parts) < len(patterns) or (not recursive and len(parts) > len(patterns)):
        return False
    return all(map(fnmatch.fnmatchcase, parts[-len(patterns):], patterns))


def _filename(machine: Interpreter, values: Values) -> None:
    if len(values) < 3:
        return
    out, path, mode = values[:3]
    folder, _, name = path.rpartition("/")
    stem, dot, extension = name.partition(".")
    last = name.rpartition(".")
    answers = {"DIRECTORY": folder, "PATH": folder, "NAME": name, "EXT": dot + extension,
               "NAME_WE": stem, "NAME_WLE": last[0] or name, "LAST_EXT": last[1] + last[2],
               "ABSOLUTE": machine.absolute(path), "REALPATH": machine.absolute(path)}
    machine.set(out, answers.get(mode, HOLE))


def _include(machine: Interpreter, values: Values) -> None:
    if values and ("/" in values[0] or values[0].endswith(".cmake")):
        machine.include(machine.absolute(values[0]))


def _subdirectory(machine: Interpreter, values: Values) -> None:
    if not values:
        return
    folder = machine.absolute(values[0])
    outer = machine.scope
    machine.scope = Scope(outer, {"CMAKE_CURRENT_SOURCE_DIR": folder})
    try:
        if not machine.include(f"{folder}/CMakeLists.txt"):
            machine.fetched.append(values[0])
    finally:
        machine.scope = outer


def _project(machine: Interpreter, values: Values) -> None:
    for name in values[:1]:
        machine.set("PROJECT_NAME", name)
        machine.set("CMAKE_PROJECT_NAME", machine.get("CMAKE_PROJECT_NAME") or name)
        here = machine.get("CMAKE_CURRENT_SOURCE_DIR") or SOURCE
        machine.set("PROJECT_SOURCE_DIR", here)
        machine.set(f"{name}_SOURCE_DIR", here)
        machine.set("PROJECT_BINARY_DIR", BINARY)


def _fetch(machine: Interpreter, values: Values) -> None:
    for name in values:
        machine.fetched.append(name)
        for case in {name, name.lower()}:
            machine.set(f"{case}_SOURCE_DIR", f"{_FETCHED}/{name.lower()}")
            machine.set(f"{case}_BINARY_DIR", f"{BINARY}/{name.lower()}")
            machine.set(f"{case}_POPULATED", "TRUE")


def _library(machine: Interpreter, values: Values) -> None:
    if not values:
        return
    name, rest = values[0], values[1:]
    if "USE_SABI" in rest:
        at = rest.index("USE_SABI")
        rest = rest[:at] + rest[at + 2:]
    sources = [item for value in rest if value not in _LIBRARY_WORDS for item in split_list(value)]
    target = machine.targets.setdefault(name, BuildTarget(name, machine.place))
    target.sources += [source_path(machine, source) for source in sources]
    for key in ("options", "definitions", "include"):
        getattr(target, key).extend(split_list(machine.properties.get(f"directory {key}", "")))


def _custom_target(machine: Interpreter, values: Values) -> None:
    for name in values[:1]:
        machine.targets.setdefault(name, BuildTarget(name, machine.place))


def _added(key: str, prefix: str = "") -> Builtin:
    """``target_*``: values of a target."""

    def run(machine: Interpreter, values: Values) -> None:
        target = machine.targets.get(values[0]) if values else None
        given = [v for v in values[1:] if v not in _VISIBILITY]
        if target is None:
            return
        if key == "sources":
            target.sources += [source_path(machine, v) for v in given]
        elif key == "include":
            target.include += [v if v.startswith("$") else source_path(machine, v) for v in given]
        else:
            note(machine, [prefix + v.removeprefix(prefix) for v in given])
            getattr(target, key).extend(given)

    return run


def _everywhere(key: str, prefix: str = "") -> Builtin:
    """``add_compile_options`` and its like: of every target that follows."""

    def run(machine: Interpreter, values: Values) -> None:
        given = [v for v in values if v not in _VISIBILITY]
        if key == "include":
            given = [source_path(machine, v) for v in given]
        else:
            note(machine, [prefix + v.removeprefix(prefix) for v in given])
        name = f"directory {key}"
        machine.properties[name] = join_list([*split_list(machine.properties.get(name, "")),
                                              *given])

    return run


def _set_property(machine: Interpreter, values: Values) -> None:
    if "PROPERTY" not in values:
        return
    at = values.index("PROPERTY")
    subjects, (name, *given) = values[1:at], values[at + 1:] or [""]
    subjects = [item for value in subjects if value not in ("APPEND", "APPEND_STRING")
                for item in split_list(value)]
    if values[0] == "SOURCE":
        _on_sources(machine, subjects, name, join_list(given))
    elif values[0] == "GLOBAL":
        old = split_list(machine.properties.get(name, "")) if "APPEND" in values[:at] else []
        machine.properties[name] = join_list([*old, *given])
    elif values[0] == "TARGET":
        for subject in subjects:
            if subject in machine.targets:
                machine.targets[subject].properties[name] = join_list(given)


def _get_property(machine: Interpreter, values: Values) -> None:
    if len(values) >= 4 and values[1] == "GLOBAL":
        machine.set(values[0], machine.properties.get(values[3]))
    elif values:
        machine.set(values[0], HOLE)


def _source_properties(machine: Interpreter, values: Values) -> None:
    if "PROPERTIES" in values:
        at = values.index("PROPERTIES")
        sources = [item for value in values[:at] for item in split_list(value)]
        pairs = values[at + 1:]
        for name, value in zip(pairs[::2], pairs[1::2], strict=False):
            _on_sources(machine, sources, name, value)


def _on_sources(machine: Interpreter, sources: Values, name: str, text: str) -> None:
    if name not in ("COMPILE_OPTIONS", "COMPILE_FLAGS", "COMPILE_DEFINITIONS"):
        return
    if name == "COMPILE_DEFINITIONS":
        text = join_list([f"-D{v.removeprefix('-D')}" for v in split_list(text)])
    if name == "COMPILE_FLAGS":
        text = text.replace(" ", ";")
    note(machine, [text])
    origins = machine.origins_of_place()
    for source in sources:
        options = machine.source_options.setdefault(source_path(machine, source), [])
        options.append(Option(text, machine.place, origins))


def _target_properties(machine: Interpreter, values: Values) -> None:
    if "PROPERTIES" in values:
        at = values.index("PROPERTIES")
        pairs = values[at + 1:]
        for name in values[:at]:
            if name in machine.targets:
                machine.targets[name].properties.update(
                    zip(pairs[::2], pairs[1::2], strict=False))


COMMANDS: dict[str, Builtin] = {
    **COMPUTING,
    "file": _file, "get_filename_component": _filename, "include": _include,
    "add_subdirectory": _subdirectory, "project": _project,
    "fetchcontent_makeavailable": _fetch,
    "fetchcontent_populate": lambda machine, values: _fetch(machine, values[:1]),
    "add_library": _library, "add_executable": _library, "python_add_library": _library,
    "pybind11_add_module": _library, "cuda_add_library": _library,
    "add_custom_target": _custom_target, "target_sources": _added("sources"),
    "target_compile_options": _added("options"),
    "target_compile_definitions": _added("definitions", "-D"),
    "target_include_directories": _added("include"),
    "add_compile_options": _everywhere("options"), "add_definitions": _everywhere("options"),
    "add_compile_definitions": _everywhere("definitions", "-D"),
    "include_directories": _everywhere("include"),
    "set_property": _set_property, "get_property": _get_property,
    "get_target_property": lambda machine, values: machine.set(values[0], HOLE),
    "set_source_files_properties": _source_properties,
    "set_target_properties": _target_properties,
}
