"""A package that a setup.py builds: its CUDA extensions, without running it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from patcher.cmake.project import gencodes
from patcher.cuda.model import TranslationUnit
from patcher.package.model import Package
from patcher.profiles.flags import read_flags
from patcher.profiles.generic import guessed_units
from patcher.profiles.native.ahead import AheadOfTime
from patcher.profiles.native.sources import (
    Group,
    Rule,
    Source,
    asked_capabilities,
    grouped,
    module_of,
)
from patcher.profiles.partial import HOLE, Interpreter, Unknown
from patcher.profiles.partial.values import Call, Function, Value, show
from patcher.profiles.search import SearchPath
from patcher.toolchain.model import Toolkit
from patcher.tree import Tree, exists, walk

_FILE = "setup.py"
_CALLS = ("CUDAExtension", "extension")  # the second is what a variable is often called
_BUDGET = 400_000
_MAX_BYTES = 1 << 20
_VENDORED = re.compile(r"(?:^|/)(?:cutlass|composable_kernel|third_party|examples?|tests?)/")
_GIVEN = {  # decisions that only another platform would take
    "torch.utils.cpp_extension.IS_HIP_EXTENSION": False, "sys.platform == 'win32'": False,
    "torch.version.hip": False, "setup.__name__ == '__main__'": True,
}


@dataclass(frozen=True)
class _Reading:
    sources: tuple[Source, ...]
    groups: tuple[Group, ...]


class SetupBuild(AheadOfTime[_Reading]):
    """Source trees whose setup.py names its sources; the rest is as ``Generic`` has it."""

    name = "setup"

    def translation_units(self, package: Package, toolkit: Toolkit) -> list[TranslationUnit]:
        """The extensions' sources, then every other ``.cu`` with guessed folders."""
        reading = self._read(package, toolkit)
        if reading is None:
            return super().translation_units(package, toolkit)
        search, modules = SearchPath(toolkit), module_of(reading.groups)
        units = [TranslationUnit(
            source.path, search.configuration(source.library, source.flags, guessed=False),
            modules.get(source.path, ())) for source in reading.sources]
        claimed = {source.path for source in reading.sources}
        rest = guessed_units(package, toolkit, claimed)
        # what other people's trees bring along is known not to be built
        return [*units, *(unit for unit in rest if not _VENDORED.search(unit.path))]

    def about(self, package: Package) -> tuple[str, ...]:
        """That units are guessed, unless its setup.py could be read."""
        if self._last(package):
            said = ("its extensions are read from setup.py; what other projects' folders in it "
                    "hold is not built and not scanned by itself")
            return (said,)
        return super().about(package)

    def _reading(self, package: Package, toolkit: Toolkit) -> _Reading | None:
        if not package.source_tree or not exists(package.tree, _FILE):
            return None
        sources = _sources(package.tree, toolkit)
        return _Reading(tuple(sources), tuple(grouped(sources))) if sources else None


def _sources(tree: Tree, toolkit: Toolkit) -> list[Source]:
    """The CUDA sources of every extension that setup.py makes with this toolkit."""
    text = tree.read(_FILE)
    found: list[Source] = []
    for call in _extensions(tree, text, toolkit):
        name = show(call.argument(0, "name"))
        options = _options(call.keywords.get("extra_compile_args"))
        flags = read_flags(options)
        flags.include += [f for f in _texts(call.keywords.get("include_dirs")) if "/" in f]
        codes = tuple(dict.fromkeys(gencodes(options)))
        rule = _rule(text, codes, call)
        for path in _texts(call.argument(1, "sources")):
            if path.endswith(".cu") and exists(tree, path):
                found.append(Source(path, name, rule, replace(flags), dict.fromkeys(
                    asked_capabilities(), codes), codes))
    return found


def _extensions(tree: Tree, text: bytes, toolkit: Toolkit) -> list[Call]:
    calls: list[Call] = []

    def record(call: Call) -> Value:
        calls.append(call)
        return Unknown("extension")

    interpreter = Interpreter(tree, budget=_BUDGET, overrides={"os.environ": {}}, intercepts={
        **dict.fromkeys(_CALLS, record),
        "get_cuda_bare_metal_version": lambda call: ("", toolkit.release),
        "get_cuda_version": lambda call: toolkit.release[0] * 100 + toolkit.release[1],
        "glob": lambda call: _globbed(tree, call), "parse": _version, "Version": _version})
    module = interpreter.module(_FILE.removesuffix(".py"))
    try:
        body = ast.parse(text).body if len(text) <= _MAX_BYTES else []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        body = []
    if module is None or not body:
        return []
    script = ast.parse("def script(): pass").body[0]
    assert isinstance(script, ast.FunctionDef)
    script.body = body
    interpreter.run(Function(module, script), _GIVEN)
    return calls


def _globbed(tree: Tree, call: Call) -> Value:
    """The files of the tree that a pattern names; ``**`` stands for any folders, or none."""
    pattern = call.args[0] if call.args else None
    ours = ast.unparse(call.node.func) in ("glob", "glob.glob")  # not a path's method
    if not ours or not isinstance(pattern, str) or HOLE in pattern or pattern.startswith("/"):
        return Unknown("glob")
    escaped = re.escape(pattern).replace(r"\*\*/", "(?:.*/)?")
    wanted = re.compile(escaped.replace(r"\*", "[^/]*").replace(r"\?", "[^/]"))
    fixed = pattern.partition("*")[0].rpartition("/")[0]
    return [path for path in walk(tree, fixed) if wanted.fullmatch(path)]


def _version(call: Call) -> Value:
    text = call.args[0] if call.args else None
    if not isinstance(text, str) or HOLE in text:
        return text
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def _options(value: Value) -> list[str]:
    """nvcc's part of ``extra_compile_args``."""
    return _texts(value.get("nvcc")) if isinstance(value, dict) else _texts(value)


def _texts(value: Value) -> list[str]:
    texts = [show(item) for item in value] if isinstance(value, list | tuple) else []
    return [text for text in texts if HOLE not in text]


def _rule(text: bytes, codes: Iterable[str], call: Call) -> Rule | None:
    """Where the newest code is named; where the extension is made when none is."""
    named = [code for code in codes if code.startswith("sm_")]
    lines = text.splitlines()
    for code in reversed(named):
        for number, line in enumerate(lines, 1):
            if f"code={code}".encode() in line:
                return Rule(_FILE, number, f"-gencode for {' '.join(named)}")
    return Rule(_FILE, call.node.lineno, f"-gencode for {' '.join(named)}") if named else None
