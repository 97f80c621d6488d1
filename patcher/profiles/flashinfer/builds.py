"""FlashInfer's JIT modules, by evaluating its own build functions without running them.

``gen_*`` functions end in ``gen_jit_spec``, which makes a spec; what the spec
compiles, with which flags, is what ``generate_ninja_build_for_op`` would write
for it. All three are read from the package at hand, so that include order,
default flags and lists of architectures are those of its version.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from patcher.package.model import Package
from patcher.profiles.base import PythonGate, Site
from patcher.profiles.flashinfer.generators import fmha_v2_unit, instantiations
from patcher.profiles.partial import HOLE, Generated, Interpreter, Run, Unknown
from patcher.profiles.partial.values import Call, Function, Module, Symbol, Value, show
from patcher.tree import exists, walk

BUILD_CALL = b"gen_jit_spec"
SPEC = b"JitSpec"
ANY_TARGET = "-gencode=@targets"  # stands for one flag per GPU of the machine that builds
MANIFEST = "build.json"
MISSING = "@missing"
DEFAULT = "@default"
MAX_STEPS = 40_000_000  # of all build functions; 0.7.4 takes 3.4 million
RUN_STEPS = 1_000_000  # of one way through a function; the longest of 0.7.4 takes 0.5 million


@dataclass
class Spec:
    """What one call of the build function asks for, and how it came to it."""

    name: str
    sources: list[str]
    site: Site = field(default_factory=lambda: Site("", "", 0))
    build_file: str = ""
    gates: list[PythonGate] = field(default_factory=list)
    generated: dict[str, Generated] = field(default_factory=dict)
    entry: str = ""
    entered: frozenset[str] = frozenset()
    tabled: bool = False  # one of many that its function makes from a table


@dataclass(frozen=True, slots=True)
class Machine:
    """What the build functions would ask the machine; empty texts where it is not known."""

    cuda: tuple[int, int]
    cuda_home: str
    python_include: str
    tvm_include: str
    dlpack_include: str


class BuildReader:
    """Evaluates one package's build functions for one machine."""

    def __init__(self, package: Package, machine: Machine) -> None:
        self._package = package
        self._machine = machine
        self._specs: list[Spec] = []
        self._gates: list[PythonGate] = []
        self._made: dict[str, Spec] = {}  # the first spec of each set of flags
        here = f"{package.import_name}.jit.env"
        self.interpreter = Interpreter(
            package.tree, budget=RUN_STEPS, begin=self._begin,
            overrides={
                f"{here}.FLASHINFER_GEN_SRC_DIR": PurePosixPath("@generated"),
                f"{here}.FLASHINFER_JIT_DIR": PurePosixPath("@cached_ops"),
                f"{here}.FLASHINFER_WORKSPACE_DIR": PurePosixPath("@workspace"),
                f"{here}.FLASHINFER_CUBIN_DIR": PurePosixPath("@cubins"),
                f"{package.import_name}.jit.core.logger": Unknown("logger"),
                "os.environ": {},  # nothing set: what the package does by default
            },
            intercepts={
                "gen_jit_spec": self._make, "JitSpec": self._record, "JitSpecNvcc": self._record,
                "get_nvcc_flags_list": self._targets,
                "is_cuda_version_at_least": self._cuda_at_least,
                "get_cuda_version": lambda call: machine.cuda,
                "get_cuda_path": lambda call: machine.cuda_home or MISSING,
                "CompilationContext": lambda call: Unknown("CompilationContext()"),
                "register": lambda call: None,
                "Version": _version, "check_cuda_arch": lambda call: None,
                "get_path": lambda call: machine.python_include or MISSING,
                "get_config_var": lambda call: None,
                "find_include_path": lambda call: machine.tvm_include or MISSING,
                "find_dlpack_include_path": lambda call: machine.dlpack_include or MISSING,
                # wheels of PyTorch use the new ABI since 2.6 (pytorch/pytorch#143423)
                "_get_glibcxx_abi_build_flags": lambda call: ["-D_GLIBCXX_USE_CXX11_ABI=1"],
                "write_if_different": self._write, "generate_gemm_operations": self._instantiate,
                "enumerate_kernels": self._fmha_v2, "generate_jit_sources": self._fmha_v2,
                "get_cubin": lambda call: Unknown("get_cubin()"),
                "get_artifact": lambda call: Unknown("get_artifact()"),
                "get_meta_hash": lambda call: Unknown("get_meta_hash()"),
            },
        )

    def _begin(self) -> None:
        self._specs, self._gates = [], []

    def default(self) -> Spec | None:
        """What a module without flags of its own would get; None when that cannot be read."""
        core = self.interpreter.module(f"{self._package.import_name}.jit.core")
        function = core and self.interpreter.module_value(core, "gen_jit_spec")
        if not isinstance(function, Function):
            return None
        self._specs = []
        self.interpreter.run(function, {}, [DEFAULT, [PurePosixPath("unit.cu")]])
        return self._specs[0] if self._specs else None

    def specs(self) -> list[Spec]:
        """Every spec; of a helper that others call with real arguments, only theirs."""
        found: list[Spec] = []
        self._specs = []
        spent = 0
        for function in self._entries():
            for run in self.interpreter.explore(function, every_key=self._walks(function)):
                made = self._finish(run, function)
                found += made
                spent += self.interpreter.steps
                if run.given and made and not any(map(self._is_there, made)):
                    break  # a table of sources that this package was shipped without
            if spent > MAX_STEPS:
                break  # sources that only later functions name keep default flags
        called = {name for spec in found for name in spec.entered if name != spec.entry}
        return [spec for spec in found if spec.entry not in called]

    def _walks(self, function: Function) -> bool:
        """False for a library that ships its sources outside the package's data.

        Those are built from a manifest beside their loader, for one target
        each: 3,000 units of 0.7.4 that would take a third of a scan.
        """
        folder = function.module.path.rpartition("/")[0]
        return not exists(self._package.tree, f"{folder}/{MANIFEST}")

    def _is_there(self, spec: Spec) -> bool:
        """Whether a spec has a source that can be read, or is made when it is built."""
        return any(HOLE in s or s in spec.generated or exists(self._package.tree, s)
                   for s in spec.sources)

    def _entries(self) -> Iterator[Function]:
        """Top-level functions that build: ``gen_*``, and any that calls the build function."""
        core = f"{self._package.import_name}.jit.core"
        for path in package_sources(self._package):
            text = self._package.tree.read(path)
            if BUILD_CALL not in text and SPEC not in text:
                continue
            name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            module = self.interpreter.module(name)
            if module is None or name == core:
                continue
            by_method = BUILD_CALL in text and _builds_by_method(module)
            for statements in module.bindings.values():
                node = statements[-1]
                if isinstance(node, ast.FunctionDef) and (
                        _returns_specs(node) or (BUILD_CALL in text and _builds(node))
                        or (by_method and not ast.unparse(node.args))):
                    yield Function(module, node)

    def _finish(self, run: Run, function: Function) -> list[Spec]:
        """The specs of a run, with where they come from and what was written for them."""
        specs, self._specs, self._gates = self._specs, [], []
        for spec in specs:
            spec.site = Site(function.module.path, function.name, function.node.lineno)
            spec.entry = f"{function.module.name}.{function.name}"
            spec.entered = run.entered
            spec.tabled = bool(run.given) or len(specs) > 1
            spec.generated = dict(run.generated)
        return specs

    def _make(self, call: Call) -> Value:
        """A module is asked for: evaluated for the first of each set of flags.

        The others differ from it in their name and sources only; that is
        what ``gen_jit_spec`` does with these, and what a test compares.
        """
        function = self.interpreter.evaluate(call.node.func, call.frame)
        if not isinstance(function, Function):
            return Unknown("gen_jit_spec()")
        spec = function.node.args
        given = dict(zip((a.arg for a in spec.args), call.args, strict=False)) | call.keywords
        rest = sorted((k, v) for k, v in given.items() if k not in ("name", "sources"))
        sources = given.get("sources")
        names = [show(s) for s in sources] if isinstance(sources, list | tuple) else []
        key = repr(([PurePosixPath(n).suffix for n in names], rest)) if _comparable(rest) else ""
        first = self._made.get(key)
        if first is None:
            before = len(self._specs)
            value = self.interpreter.call_function(function, call.args, call.keywords)
            if key and names and len(self._specs) == before + 1:
                self._made[key] = self._specs[-1]
            return value
        text = _with_sources(first.build_file, dict(zip(first.sources, names, strict=True)))
        self._specs.append(Spec(show(given.get("name")), names, build_file=text,
                                gates=list(self._gates)))
        return Unknown(f"spec of {self._specs[-1].name}")

    def _record(self, call: Call) -> Value:
        """A spec is made: remember it, with the build file that it would get."""
        sources = call.keywords.get("sources")
        names = [show(s) for s in sources] if isinstance(sources, list | tuple) else []
        spec = Spec(show(call.keywords.get("name")), names, gates=list(self._gates))
        spec.build_file = self._build_file(call.keywords)
        self._specs.append(spec)
        return Unknown(f"spec of {spec.name}")

    def _build_file(self, keywords: dict[str, Value]) -> str:
        module = self.interpreter.module(f"{self._package.import_name}.jit.cpp_ext")
        writer = module and self.interpreter.module_value(module, "generate_ninja_build_for_op")
        if not isinstance(writer, Function):
            return ""
        spec = writer.node.args
        wanted = {a.arg for a in [*spec.args, *spec.kwonlyargs]}
        text = self.interpreter.call_function(
            writer, [], {k: v for k, v in keywords.items() if k in wanted})
        return text if isinstance(text, str) else ""

    def _targets(self, call: Call) -> Value:
        """The flags for the machine's GPUs; a list of supported majors is a gate."""
        majors = call.argument(0, "supported_major_versions")
        written = next((k.value for k in call.node.keywords if k.arg == "supported_major_versions"),
                       call.node.args[0] if call.node.args else None)
        if written is not None and majors is not None:
            numbers = majors if isinstance(majors, list | tuple) else None
            known = numbers is not None and all(isinstance(n, int) for n in numbers)
            self._gates.append(PythonGate(
                Site(call.frame.module.path, call.frame.function, written.lineno),
                ast.unparse(written),
                tuple(n for n in numbers or () if isinstance(n, int)) if known else None))
        context = self.interpreter.module(f"{self._package.import_name}.compilation_context")
        common: Value = None
        if context is not None:
            owner = self.interpreter.module_value(context, "CompilationContext")
            common = self.interpreter.attribute(owner, "COMMON_NVCC_FLAGS")
        return [ANY_TARGET, *(common if isinstance(common, list) else [])]

    def _cuda_at_least(self, call: Call) -> Value:
        return self._machine.cuda >= release(show(call.argument(0, "version_str")))

    def _write(self, call: Call) -> Value:
        return self.interpreter.write(call.argument(0, "path"), call.argument(1, "content"))

    def _instantiate(self, call: Call) -> Value:
        for generated in instantiations(self.interpreter, call):
            self.interpreter.generated[generated.path] = generated
        return None

    def _fmha_v2(self, call: Call) -> Value:
        """The generator of fused attention kernels: one unit stands for what it writes."""
        unit = fmha_v2_unit(self.interpreter, call)
        if unit is None:
            return Unknown("fmha_v2 sources")
        self.interpreter.generated[unit.path] = unit
        return [PurePosixPath(unit.path)]


def package_sources(package: Package) -> Iterator[str]:
    """The package's own Python files; vendored trees below ``data`` are not its code."""
    data = f"{package.import_name}/data/"
    return (path for path in walk(package.tree, package.import_name, (".py",))
            if not path.startswith(data))


def _comparable(value: Value) -> bool:
    """True for a value that its ``repr`` describes wholly and shortly."""
    if isinstance(value, list | tuple):
        return all(map(_comparable, value))
    return value is None or isinstance(value, str | int | float | PurePosixPath | Unknown | Symbol)


def _with_sources(text: str, other: dict[str, str]) -> str:
    """A build file whose statements compile other sources."""
    if all(first == source for first, source in other.items()):
        return text
    names = "|".join(map(re.escape, other))
    return re.sub(rf"(?m)(?<=: )(\w+ )({names})$",
                  lambda match: match[1] + other[match[2]], text)


def _returns_specs(node: ast.FunctionDef) -> bool:
    """A public function that lists specs which another module makes for it."""
    public = not node.name.startswith(("_", "gen_"))
    return public and node.returns is not None and "JitSpec" in ast.unparse(node.returns)


def _builds_by_method(module: Module) -> bool:
    """True where a class makes specs: functions without parameters may build all of its kind."""
    return any(_asks(statement) for statements in module.bindings.values()
               for statement in statements if isinstance(statement, ast.ClassDef))


def _builds(node: ast.FunctionDef) -> bool:
    named = node.name.startswith("gen_") and node.name != "gen_jit_spec"
    return named or _asks(node)


def _asks(node: ast.AST) -> bool:
    called = (child.func for child in ast.walk(node) if isinstance(child, ast.Call))
    return any(getattr(f, "id", getattr(f, "attr", "")) == "gen_jit_spec" for f in called)


def release(text: str) -> tuple[int, ...]:
    """A version as numbers: ``"12.9"`` is (12, 9)."""
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def _version(call: Call) -> Value:
    text = call.args[0] if call.args else None
    return release(text) if isinstance(text, str) and HOLE not in text else text
