"""SGLang's kernels that ``load_jit`` compiles at run time, read from its calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from patcher.arch import Capability, Target, target
from patcher.changes import Create
from patcher.cuda.model import TranslationUnit
from patcher.package.model import Package
from patcher.profiles.base import JitModule, Resolved, Site, Template
from patcher.profiles.beside import first, sites
from patcher.profiles.devices import parse_device
from patcher.profiles.flags import read_flags
from patcher.profiles.generic import Generic, guessed_units
from patcher.profiles.known import Known
from patcher.profiles.partial import HOLE, Interpreter, Unknown
from patcher.profiles.partial.values import Call, Function, Value, show
from patcher.profiles.search import SearchPath, distinct
from patcher.toolchain.model import Toolkit
from patcher.tree import ChangedTree, Tree, walk

_CALL = "load_jit"
_HOMES = ("kernels/jit", "jit_kernel")  # where csrc and include are: since 0.5.20, before
_ARCH = "SGL_CUDA_ARCH"  # ten times the device's number, given as -D by the package
_PRELUDE = f"#ifdef __CUDA_ARCH__\n#define {_ARCH} __CUDA_ARCH__\n#endif\n"
_PREFIX = "sgl_kernel_jit_"
_RUNS = 6  # ways through one function; the longest of 0.5.23 has 5
_FALSE = ("is_hip_runtime", "is_musa_runtime", "is_sail_runtime", "is_hip", "is_npu")
_BUDGET = 20_000


@dataclass
class Build:
    """One call of ``load_jit``; ``files`` are CUDA sources as package paths or patterns."""

    name: str
    files: tuple[str, ...]
    site: Site
    flags: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    generated: bool = True
    unread: bool = False


@dataclass(frozen=True)
class _Reading:
    tree: Tree
    builds: tuple[Build, ...]
    home: str
    names_arch: bool


class SGLang(Generic):
    """Modules are compiled through a generated unit that includes their sources."""

    name = "sglang"

    def __init__(self, known: Known | None = None) -> None:
        super().__init__(known)
        self._readings: dict[int, _Reading] = {}

    def modules(self, package: Package, toolkit: Toolkit) -> list[JitModule]:
        """One for each call of ``load_jit`` with other sources or flags."""
        reading = self._read(package)
        return [_module(build, reading) for build in reading.builds]

    def tree(self, package: Package, toolkit: Toolkit) -> Tree:
        """The package's tree plus the generated units."""
        reading = self._read(package)
        made = {t.path: t.content for build in reading.builds
                for t in _module(build, reading).templates}
        return ChangedTree(package.tree, [Create(path, data) for path, data in made.items()])

    def translation_units(self, package: Package, toolkit: Toolkit) -> list[TranslationUnit]:
        """The modules' units, and each ``.cu`` that none names with guessed folders."""
        reading = self._read(package)
        search = SearchPath(toolkit)
        units: dict[object, TranslationUnit] = {}
        for build in reading.builds:
            module = _module(build, reading)
            flags = read_flags([*module.flags, "-std=c++20"])
            flags.include = distinct([*flags.include, *module.include,
                                      *_needed(build.needs, package), *_ffi(package)])
            configuration = search.configuration(build.name, flags, guessed=build.unread)
            if reading.names_arch:  # no value in the host pass: the device decides it there
                configuration = replace(configuration, open_macros=frozenset({_ARCH}))
            contents = {t.path: t.content for t in module.templates}
            for path in module.sources:
                units[path, configuration.id] = TranslationUnit(
                    path, configuration, (module.name,), contents.get(path))
        claimed = {path for build in reading.builds for path in build.files}
        return [*units.values(), *guessed_units(package, toolkit, claimed)]

    def about(self, package: Package) -> tuple[str, ...]:
        """What its row says, and which modules could not be read exactly."""
        said = super().about(package)
        reading = self._read(package)
        unread = sorted({b.name for b in reading.builds if b.unread})
        more = ((f"{len(unread)} JIT modules are read from their calls alone: "
                f"{', '.join(unread[:4])}{', ...' if unread[4:] else ''}"),) if unread else ()
        return (*said[:1], *more)

    def resolve_target(self, device: str, package: Package, toolkit: Toolkit) -> Resolved:
        """The target that its own ``_cuda_arch_suffix`` picks, where it has one."""
        resolved = super().resolve_target(device, package, toolkit)
        named = None if device == "auto" else parse_device(device)
        if isinstance(named, Target):
            return resolved
        capability = resolved.target.capability
        suffix = _suffix(package, capability, toolkit)
        if suffix is None or suffix == resolved.target.suffix:
            return resolved
        return Resolved(target(f"sm_{capability.number}{suffix}"),
                        f"{device} is {capability}: {package.name} {package.version or ''} with "
                        f"CUDA {toolkit.version} builds suffix {suffix!r}", resolved.assumed)

    def surroundings(self, package: Package, toolkit: Toolkit) -> tuple[str, ...]:
        """The folders of headers that are found beside the package."""
        needs = ("cutlass", "flashinfer", "flashinfer_nv_internal")
        return (*_needed(needs, package), *_ffi(package))

    def _read(self, package: Package) -> _Reading:
        key = id(package.tree)
        if key not in self._readings:
            self._readings[key] = read(package)
        return self._readings[key]


def read(package: Package) -> _Reading:
    """Every build of the package; nothing of it is imported or run."""
    top, tree = package.import_name, package.tree
    home = next((f"{top}/{h}" for h in _HOMES if "csrc" in tree.folders(f"{top}/{h}")),
                f"{top}/{_HOMES[0]}")
    reader = _Reader(package, home)
    builds = tuple(reader.builds())
    names_arch = any(_ARCH.encode() in tree.read(p) for p in walk(tree, home, (".py",)))
    return _Reading(tree, builds, home, names_arch)


class _Reader:
    """Evaluates the functions that call ``load_jit``."""

    def __init__(self, package: Package, home: str) -> None:
        self._tree, self._home, self._top = package.tree, home, package.import_name
        self._calls: list[Call] = []
        machine = {name: (lambda call: False) for name in _FALSE}
        self._interpreter = Interpreter(
            package.tree, budget=_BUDGET, overrides={"os.environ": {}},
            intercepts={_CALL: self._record, "make_cpp_args": lambda call: [HOLE], **machine})
        self._headers = [p for p in walk(package.tree, f"{home}/csrc") if p.endswith(
            (".cuh", ".cu", ".h", ".hpp"))]

    def builds(self) -> Iterator[Build]:
        seen: set[tuple[object, ...]] = set()
        names: dict[str, int] = {}
        for function in self._functions():
            before = len(self._calls)
            for count, _ in enumerate(self._interpreter.explore(function), 1):
                if count >= _RUNS:
                    break
            found = [self._build(call, function) for call in self._calls[before:]]
            for build in found or self._written(function):
                key = (build.name, build.files, build.flags, build.needs)
                if build.files and key not in seen:
                    seen.add(key)
                    names[build.name] = names.get(build.name, 0) + 1
                    if names[build.name] > 1:
                        build.name = f"{build.name}~{names[build.name]}"
                    yield build

    def _functions(self) -> Iterator[Function]:
        for path in walk(self._tree, self._top, (".py",)):
            if f"{_CALL}(".encode() not in self._tree.read(path):
                continue
            name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            module = self._interpreter.module(name)
            for statements in module.bindings.values() if module else ():
                node = statements[-1]
                if isinstance(node, ast.FunctionDef) and node.name != _CALL and _calls(node):
                    yield Function(module, node)  # type: ignore[arg-type]

    def _record(self, call: Call) -> Value:
        self._calls.append(call)
        return Unknown("module")

    def _build(self, call: Call, function: Function) -> Build:
        words = [_word(value) for value in call.args]
        name = re.sub(r"(?:_?\*)+$", "", "_".join(words)) or "unnamed"
        texts, unread = _texts(call.keywords.get("cuda_files"))
        files = [path for text in texts for path in self._found(text)]
        flags, _ = _texts(call.keywords.get("extra_cuda_cflags"))
        needs, _ = _texts(call.keywords.get("extra_dependencies"))
        include, _ = _texts(call.keywords.get("extra_include_paths"))
        header_only = call.keywords.get("header_only", True)
        node = function.node
        return Build(
            name.replace("*", "") if name.strip("*_") else "unnamed", tuple(dict.fromkeys(files)),
            Site(function.module.path, function.name, getattr(node, "lineno", 0)),
            tuple(f for f in flags if HOLE not in f), tuple(n for n in needs if HOLE not in n),
            tuple(i for i in include if HOLE not in i), header_only is not False, unread)

    def _written(self, function: Function) -> Iterator[Build]:
        """The calls of a function that no way through it came to, as they are written."""
        for node in _calls(function.node):
            given = {k.arg: k.value for k in node.keywords}
            listed = given.get("cuda_files")
            values = [self._constant(e, function) for e in getattr(listed, "elts", ())]
            files = [path for value in values if value for path in self._found(value)]
            words = [self._constant(e, function) or "*" for e in node.args[:1]]
            yield Build("_".join(words).strip("*") or "unnamed", tuple(files),
                        Site(function.module.path, function.name, node.lineno), unread=True)

    def _constant(self, node: ast.expr, function: Function) -> str | None:
        value: Value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(node, ast.Name):
            value = self._interpreter.module_value(function.module, node.id)
        return value if isinstance(value, str) else None

    def _found(self, text: str) -> list[str]:
        """The files that a name means; a part of it that is not known stands for any."""
        path = text if text.startswith(f"{self._top}/") else f"{self._home}/csrc/{text}"
        pattern = re.compile(".*".join(map(re.escape, path.split(HOLE))))
        if HOLE not in path:
            folder, _, leaf = path.rpartition("/")
            return [path] if leaf in self._tree.names(folder) else []
        return [p for p in self._headers if pattern.fullmatch(p)]


def _calls(node: ast.AST) -> list[ast.Call]:
    return [child for child in ast.walk(node) if isinstance(child, ast.Call)
            and getattr(child.func, "id", getattr(child.func, "attr", "")) == _CALL]


def _word(value: Value) -> str:
    text = show(value)
    return "*" if isinstance(value, Unknown) or not text.strip(HOLE) else text.replace(HOLE, "*")


def _texts(value: Value) -> tuple[list[str], bool]:
    """A list's texts, and whether it is one that could not be read."""
    if value is None:
        return [], False
    if not isinstance(value, list | tuple):
        return [], True
    return [str(v) if isinstance(v, str | PurePosixPath) else HOLE for v in value], any(
        isinstance(v, Unknown) for v in value)


def _module(build: Build, reading: _Reading) -> JitModule:
    include = (f"{reading.home}/include", *build.include)
    uri = re.escape(_PREFIX + build.name.partition("~")[0]) + ".*"
    guessed = "the function that builds it could not be followed" if build.unread else ""
    if not build.generated:
        return JitModule(build.name, uri, build.site, build.files, build.flags, include,
                         guessed=guessed)
    lines = [_PRELUDE] if reading.names_arch else []
    lines += [f'#include "{path}"\n' for path in build.files]
    path = f"@generated/{build.name}/cuda.cu"
    template = Template(path, build.site.path, "".join(lines).encode(), 1)
    # the unit names its sources from the package's root, which is one of its folders
    return JitModule(build.name, uri, build.site, (path,), build.flags, (*include, "."),
                     templates=(template,), guessed=guessed)


def _needed(names: tuple[str, ...], package: Package) -> list[str]:
    """Header folders of registered dependencies, as far as they stand beside the package."""
    data = first(sites(package), "cutlass/include", "flashinfer/data")
    folders = {
        "cutlass": ("cutlass/include", "cutlass/tools/util/include"),
        "flashinfer": ("include", "csrc", "cutlass/include", "cutlass/tools/util/include",
                       "spdlog/include"),
        "flashinfer_nv_internal": ("csrc/nv_internal", "csrc/nv_internal/include"),
    }
    return [f"{data}/{folder}" for name in names for folder in folders.get(name, ()) if data]


def _ffi(package: Package) -> list[str]:
    places = sites(package)
    found = (first(places, "tvm", "tvm_ffi/include"),
             first(places, "dlpack", "tvm_ffi/include", "tvm_ffi/3rdparty/dlpack/include"))
    return [folder for folder in dict.fromkeys(found) if folder]


def _suffix(package: Package, capability: Capability, toolkit: Toolkit) -> str | None:
    interpreter = Interpreter(package.tree, budget=_BUDGET, overrides={"os.environ": {}},
                              intercepts={"_jit_cuda_version": lambda call: toolkit.release})
    module = interpreter.module(f"{package.import_name}.kernels.jit.utils.arch")
    function = interpreter.module_value(module, "_cuda_arch_suffix") if module else None
    if not isinstance(function, Function):
        return None
    run = interpreter.run(function, {}, [capability.major, capability.minor])
    return run.value if isinstance(run.value, str) else None

