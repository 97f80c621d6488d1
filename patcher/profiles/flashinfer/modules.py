"""From evaluated build functions to JIT modules and the commands that compile them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from patcher.profiles.base import JitModule, Template
from patcher.profiles.flags import Flags, read_flags
from patcher.profiles.flashinfer.builds import ANY_TARGET, MISSING, Spec
from patcher.profiles.ninja import CompileCommand, compile_commands
from patcher.profiles.partial import HOLE, Generated
from patcher.tree import Tree, exists

GENERATED = "@generated"


@dataclass(frozen=True, slots=True)
class Compiled:
    """One source of a module with the flags it gets; ``content`` for a generated one."""

    source: str
    flags: Flags
    content: bytes | None


@dataclass(frozen=True, slots=True)
class Build:
    """A module and what compiles it."""

    module: JitModule
    compiled: tuple[Compiled, ...]


def builds_of(specs: Iterable[Spec], tree: Tree) -> list[Build]:
    """One build per distinct spec, in the package's order.

    Ways through one function may give modules of one name pattern with other
    generated files; from the second on these are in ``@generated/MODULE~2``.
    """
    found: dict[tuple[object, ...], Build] = {}
    made: dict[str, bytes] = {}
    for spec in specs:
        module = (build := _Reader(spec, tree).read()).module
        files = (*module.headers, *module.templates)
        key = (module.name, module.sources, module.flags, module.include, files)
        if key in found or not (module.sources or module.gates):
            continue
        number = 1
        while any(made.get(f.path, f.content) != f.content for f in files):
            number += 1
            build = _Reader(spec, tree, number).read()
            files = (*build.module.headers, *build.module.templates)
        made.update((f.path, f.content) for f in files)
        found[key] = build
    return list(found.values())


class _Reader:
    """Turns one spec into a build; generated files move to ``@generated/MODULE``."""

    def __init__(self, spec: Spec, tree: Tree, number: int = 1) -> None:
        self._spec = spec
        self._tree = tree
        self._name = _module_name(spec)
        self._home = f"{GENERATED}/{self._name}" + (f"~{number}" if number > 1 else "")
        self._templates: dict[tuple[str, bytes], Template] = {}
        self._folders: set[str] = set()  # where the build function would write
        self._copied: list[str] = []  # folders of headers that it only copies
        self._has_headers = False

    def read(self) -> Build:
        spec = self._spec
        commands = {c.source: c for c in compile_commands(spec.build_file)}
        placed = {source: self._place(source) for source in spec.sources}
        headers = self._headers(set(placed))
        flags = {s: self._flags(commands[s]) for s in spec.sources if s in commands}
        compiled: dict[str, Compiled] = {}
        for source, path in placed.items():
            if path and source in flags and path not in compiled and self._is_there(path):
                compiled[path] = Compiled(path, flags[source], self._content(path))
        module = self._module(tuple(dict.fromkeys(p for p in placed.values() if p)), headers,
                              next((f for s, f in sorted(flags.items(), key=_cuda_first)), Flags()))
        return Build(module, tuple(compiled.values()))

    def _module(self, sources: tuple[str, ...], headers: tuple[Template, ...],
                flags: Flags) -> JitModule:
        spec = self._spec
        known = spec.name.replace(HOLE, "").strip("_")
        absent = [s for s in sources if not self._is_there(s)]
        unread = sum(not s.startswith(GENERATED) and ("*" in s or s.startswith("@"))
                     for s in sources)
        reasons = [
            "its name is an argument" if not known else "",
            "parts of its flags are arguments" if any(HOLE in f for f in _texts(flags)) else "",
            f"{unread} sources are made at run time" if unread else "",
            f"{len(absent)} sources are not in this package" if absent else "",
            "" if sources else "its sources could not be followed",
        ]
        return JitModule(
            name=self._name,
            uri=".+?".join(re.escape(part) for part in spec.name.split(HOLE)) if known else "",
            generator=spec.site, sources=sources, flags=_texts(flags), include=tuple(flags.include),
            gates=tuple(dict.fromkeys(spec.gates)),
            targets=tuple(t for t in flags.targets if not t.startswith("@")),
            templates=tuple(self._templates.values()), headers=headers,
            guessed="; ".join(r for r in reasons if r), tabled=spec.tabled,
        )

    def _place(self, source: str) -> str:
        """The package path or the generated path of a source, empty for a duplicate template."""
        generated = self._spec.generated.get(source) or self._substitute(source)
        if generated is None:
            return source.replace(HOLE, "*")
        self._folders.add(source.rpartition("/")[0])
        copied = generated.origin.endswith((".cu", ".cpp", ".cc"))
        if copied and exists(self._tree, generated.origin):
            return generated.origin  # copied as it is
        content = generated.content.replace(HOLE, "unknown").encode()
        key = (generated.origin, _directives(content))
        known = self._templates.get(key)
        if known is not None:
            self._templates[key] = Template(known.path, known.source, known.content,
                                            known.stands_for + 1)
            return ""
        path = f"{self._home}/{source.rpartition('/')[2].replace(HOLE, '*')}"
        self._templates[key] = Template(path, generated.origin, content, 1)
        return path

    def _substitute(self, source: str) -> Generated | None:
        """The one unit that a generator left for sources it was not seen to write."""
        if exists(self._tree, source):
            return None
        spare = [g for path, g in self._spec.generated.items()
                 if path.endswith(".cu") and path not in self._spec.sources]
        return spare[0] if len(spare) == 1 else None

    def _is_there(self, path: str) -> bool:
        """False for a source with a known path that the package does not hold."""
        return "*" in path or path.startswith("@") or exists(self._tree, path)

    def _content(self, path: str) -> bytes | None:
        return next((t.content for t in self._templates.values() if t.path == path), None)

    def _headers(self, sources: set[str]) -> tuple[Template, ...]:
        found = []
        for path, generated in self._spec.generated.items():
            if path in sources or path.endswith((".cu", ".cpp")):
                continue
            self._folders.add(path.rpartition("/")[0])
            if exists(self._tree, generated.origin) and not generated.origin.endswith(".jinja"):
                self._copied.append(generated.origin.rpartition("/")[0])  # read where it came from
            else:
                self._has_headers = True
                found.append(Template(f"{self._home}/{path.rpartition('/')[2]}", generated.origin,
                                      generated.content.replace(HOLE, "unknown").encode(), 1))
        return tuple(found)

    def _flags(self, command: CompileCommand) -> Flags:
        """The command's flags; folders the build function writes to become the module's own."""
        flags = present_flags(command)
        include = list(dict.fromkeys(map(self._folder, flags.include)))
        # a generated unit finds its headers beside itself; a copied one is read in place
        own = [self._home] if self._has_headers and self._home not in include else []
        flags.include = list(dict.fromkeys([*own, *self._copied, *include]))
        flags.other = ["-gencode=…" if f == ANY_TARGET else f for f in flags.other]
        return flags

    def _folder(self, folder: str) -> str:
        virtual = folder.startswith("@")
        if virtual and any(f"{f}/".startswith(f"{folder}/") for f in self._folders):
            return self._home
        return folder.replace(HOLE, "*")


def present_flags(command: CompileCommand) -> Flags:
    """A command's flags without the folders of what this machine does not have."""
    flags = read_flags(command.arguments[1:])
    flags.system = [f for f in flags.system if not f.startswith(MISSING)]
    return flags


def _cuda_first(item: tuple[str, Flags]) -> bool:
    return not item[0].endswith(".cu")


def _module_name(spec: Spec) -> str:
    name = spec.name.replace(HOLE, "*")
    if not name.replace("*", "").strip("_"):  # wholly an argument: named after its function
        return spec.site.function.removeprefix("gen_").removesuffix("_module")
    return name


def _directives(content: bytes) -> bytes:
    return b"\n".join(line for line in content.splitlines() if line.lstrip().startswith(b"#"))


def _texts(flags: Flags) -> tuple[str, ...]:
    """Defines and other flags as one would write them."""
    defines = [f"-D{name}" if value == "1" else f"-D{name}={value}"
               for name, value in flags.define.items()]
    return (*flags.other, *defines)
