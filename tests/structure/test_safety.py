"""What the code may touch: only named modules write, and none turns data into code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.structure.imports import Module, modules

# Who may write, and what.
WRITERS = {
    "patcher.apply": "files of a target",
    "patcher.atomic": "files of our own stores",
    "patcher.scratch": "folders for temporary files",
    "patcher.state": "the state home",
    "patcher.locks": "the lock file in it",
    "patcher.caches": "JIT caches",
    "patcher.cuda.store": "what a scan remembers; the library stands alone",
    "patcher.doctor.learn": "symbols of torch releases that a user taught it",
    "patcher.probe": "what an assembler reads, in a scratch folder",
    "patcher.verify": "shadow trees and the verdict store, outside of any target",
    "patcher.repack": "the wheel that is written into -o",
    "patcher.releases": "the cache of fetched wheels",
    "patcher.commands.options": "the file named by -o",
}
_METHODS = {
    "write_text",
    "write_bytes",
    "unlink",
    "rename",
    "mkdir",
    "rmdir",
    "chmod",
    "symlink_to",
    "hardlink_to",
}
_FUNCTIONS = {
    "os": {
        "replace",
        "rename",
        "renames",
        "unlink",
        "remove",
        "removedirs",
        "rmdir",
        "link",
        "symlink",
        "truncate",
        "utime",
        "chmod",
        "chown",
        "mkdir",
        "makedirs",
    },
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move", "rmtree", "copymode", "chown"},
}


def _calls(module: Module) -> Iterator[tuple[int, str]]:
    """Line and text of every call that writes."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute):
            owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
            name = node.func.attr
            in_place = name in _METHODS and owner not in {"os", "re"}
            touches = name == "touch" and not node.args  # Path's takes only keywords
            if name in _FUNCTIONS.get(owner, ()) or in_place or touches:
                yield node.lineno, ast.unparse(node.func)
            elif name == "open" and _writes(node, 1 if owner == "io" else 0):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node.func, ast.Name) and node.func.id == "open" and _writes(node, 1):
            yield node.lineno, ast.unparse(node)


def _writes(call: ast.Call, position: int) -> bool:
    if call.args and ast.unparse(call.args[0]) == "os.devnull":
        return False  # keeps nothing
    modes = [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    modes += call.args[position : position + 1]
    values = [mode.value for mode in modes if isinstance(mode, ast.Constant)]
    return any(
        isinstance(value, str) and set(value) & set("wax+") and set(value) <= set("rwaxbt+")
        for value in values
    )


def _is_in(module: Module, name: str) -> bool:
    return module.name == name or module.name.startswith(f"{name}.")


def test_only_named_modules_write() -> None:
    found = {
        f"{module.path}:{line}: {call}"
        for module in modules().values()
        if not any(_is_in(module, name) for name in WRITERS)
        for line, call in _calls(module)
    }
    assert not found


def test_every_named_writer_exists_and_writes() -> None:
    idle = {
        name
        for name in WRITERS
        if not any(list(_calls(m)) for m in modules().values() if _is_in(m, name))
    }
    assert not idle, "these need no leave to write any more"


def test_the_detector_sees_what_it_should() -> None:
    source = (
        "import os, shutil\nopen('a', 'w')\nopen('a', mode='r+')\npath.open('wb')\n"
        "path.write_text('')\nos.replace('a', 'b')\nshutil.rmtree('a')\n"
        "open('a')\npath.open()\ntext.replace('a', 'b')\nopen('a', 'rb')\n"
    )
    module = Module("x", Path("x"), ast.parse(source), frozenset(), frozenset())
    assert [line for line, _ in _calls(module)] == [2, 3, 4, 5, 6, 7]


CODE_FROM_DATA = {
    "eval",
    "exec",
    "__import__",
    "import_module",
    "run_path",
    "run_module",
    "exec_module",
}


def test_data_never_becomes_code() -> None:
    found = set()
    for module in modules().values():
        found |= {
            f"{module.name}: {name}"
            for name in module.external & {"pickle", "marshal", "shelve", "runpy", "dill"}
        }
        if module.name != "patcher.commands":  # that one imports our own verbs from its own table
            found |= {f"{module.name}: {name}" for name in _called(module) & CODE_FROM_DATA}
    assert not found


def _called(module: Module) -> set[str]:
    return {
        node.func.id if isinstance(node.func, ast.Name) else node.func.attr
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute)
    }


def test_no_shell() -> None:
    found = set()
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.keyword) and node.arg == "shell":
                found.add(f"{module.name}: shell={ast.unparse(node.value)}")
            elif isinstance(node, ast.Attribute) and ast.unparse(node) in {"os.system", "os.popen"}:
                found.add(f"{module.name}: {ast.unparse(node)}")
    assert not found
