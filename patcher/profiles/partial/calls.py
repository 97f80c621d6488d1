"""Calls and attributes: functions and classes of the package, files of its tree, intercepts."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import PurePosixPath

from patcher.errors import PatcherError
from patcher.profiles.partial.expressions import Expressions
from patcher.profiles.partial.library import call_function, call_method
from patcher.profiles.partial.values import (
    HOLE,
    Call,
    Class,
    Frame,
    Function,
    Generated,
    Instance,
    Intercept,
    Method,
    Module,
    OpenFile,
    Stopped,
    Symbol,
    Text,
    Unknown,
    Value,
    show,
)
from patcher.profiles.references import called
from patcher.tree import Tree, exists, walk

MAX_DEPTH = 40


class Returned(Exception):
    """Carries a function's result to its call."""

    def __init__(self, value: Value) -> None:
        super().__init__()
        self.value = value


class Calls(Expressions):
    """Calls by name first look into ``intercepts``; the rest is interpreted or a library call."""

    def __init__(self, tree: Tree, overrides: Mapping[str, Value], budget: int,
                 intercepts: Mapping[str, Intercept]) -> None:
        super().__init__(tree, overrides, budget)
        self.intercepts = intercepts
        self.intercepted = 0
        self._kept: dict[Value, tuple[Value, set[str]]] = {}  # what cached functions returned
        self._varying: set[ast.AST] = set()  # cached functions whose results are not kept
        self.generated: dict[str, Generated] = {}
        self.entered: set[str] = set()  # the functions called in this run, as module.function
        self.stack: list[Function] = []  # the calls under way, outermost first

    def _eval_call(self, node: ast.Call, frame: Frame) -> Value:
        args = list(self._elements(node.args, frame))
        keywords: dict[str, Value] = {}
        for keyword in node.keywords:
            value = self.evaluate(keyword.value, frame)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, dict):
                keywords.update((k, v) for k, v in value.items() if isinstance(k, str))
        name = node.func.attr if isinstance(node.func, ast.Attribute) else (
            node.func.id if isinstance(node.func, ast.Name) else "")
        if intercept := self.intercepts.get(name):
            self.intercepted += 1
            return intercept(Call(node, frame, args, keywords))
        return self.call(self.evaluate(node.func, frame), args, keywords, node)

    def call(self, function: Value, args: list[Value], keywords: dict[str, Value],
             node: ast.AST) -> Value:
        """Call a value; unknown when it is nothing that can be followed."""
        if isinstance(function, Function):
            return self.call_function(function, args, keywords)
        if isinstance(function, Class):
            return self._construct(function, args, keywords)
        if isinstance(function, Method):
            return self._call_method(function, args, keywords, node)
        if isinstance(function, Symbol):
            return self._call_symbol(function.name, args, keywords, node)
        return Unknown(ast.unparse(node)[:80])

    def _call_symbol(self, name: str, args: list[Value], keywords: dict[str, Value],
                     node: ast.AST) -> Value:
        if name == "open" and args and "w" not in show(args[1] if len(args) > 1 else "r"):
            return OpenFile(PurePosixPath(show(args[0])))
        if name in ("map", "filter") and len(args) == 2 and isinstance(args[1], list):
            results = [self.call(args[0], [item], {}, node) for item in args[1]]
            if name == "map":
                return results
            kept = zip(args[1], results, strict=True)
            return [item for item, result in kept if self.known_truth(result) is not False]
        if name == "functools.partial" and args:
            return args[0]
        if name in ("shutil.copy", "shutil.copyfile", "shutil.copy2") and len(args) == 2:
            return self.write(args[1], self.read(PurePosixPath(show(args[0]))))
        if name == "json.load" and args and isinstance(args[0], OpenFile):
            return call_function("json.loads", [self.read(args[0].path)], {})
        if name in ("hasattr", "getattr"):
            return self._getattr(name, args, node)
        return call_function(name, args, keywords)

    def _getattr(self, name: str, args: list[Value], node: ast.AST) -> Value:
        if name == "getattr" and len(args) > 1 and isinstance(args[1], str):
            return self.attribute(args[0], args[1])
        return Unknown(ast.unparse(node)[:80])

    def call_function(self, function: Function, args: list[Value],
                      keywords: dict[str, Value]) -> Value:
        """Interpret a package function; missing arguments are unknown, by parameter name.

        What a function under ``functools.cache`` returned for plain arguments
        is kept, as it keeps it, when nothing of this run but them went into
        it; containers are copied, so that no run changes another's.
        """
        key = _cache_key(function, args, keywords)
        if key is None or function.node in self._varying:
            return self._interpret(function, args, keywords)
        if key not in self._kept:
            before, outer, self.entered = self._marks(), self.entered, set()
            try:
                value = self._interpret(function, args, keywords)
            finally:
                inner, self.entered = self.entered, outer | self.entered
            if before != self._marks() or not _is_settled(value):
                self._varying.add(function.node)
                return value
            self._kept[key] = value, inner
        value, inner = self._kept[key]
        self.entered |= inner
        return value.copy() if isinstance(value, list | dict | set) else value

    def _marks(self) -> tuple[int, ...]:
        """What changes when this run decides, chooses, writes or meets an intercept."""
        return len(self.trace), len(self.choices), len(self.generated), self.intercepted

    def _interpret(self, function: Function, args: list[Value],
                   keywords: dict[str, Value]) -> Value:
        if len(self.stack) >= MAX_DEPTH:
            raise Stopped(f"calls deeper than {MAX_DEPTH}")
        self.entered.add(f"{function.module.name}.{function.name}")
        frame = Frame(function.module, {}, function.closure, function.name)
        self._bind_arguments(function, args, keywords, frame)
        self.stack.append(function)
        try:
            if isinstance(function.node, ast.Lambda):
                return self.evaluate(function.node.body, frame)
            self.execute(function.node.body, frame)
        except Returned as returned:
            return returned.value
        finally:
            self.stack.pop()
        return self._yielded(function, frame)

    @staticmethod
    def _yielded(function: Function, frame: Frame) -> Value:
        return frame.names.get("@yielded")

    def _bind_arguments(self, function: Function, args: list[Value],
                        keywords: dict[str, Value], frame: Frame) -> None:
        spec = function.node.args
        outer = Frame(function.module, {}, function.closure, function.name)
        positional = [*spec.posonlyargs, *spec.args]
        defaults = dict(zip([a.arg for a in positional[::-1]], spec.defaults[::-1], strict=False))
        keyword_only = zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
        defaults.update((a.arg, default) for a, default in keyword_only if default)
        values = dict(zip([a.arg for a in positional], args, strict=False))
        values.update(keywords)
        for parameter in [*positional, *spec.kwonlyargs]:
            name = parameter.arg
            if name in values:
                frame.names[name] = values.pop(name)
            elif name in defaults:
                frame.names[name] = self.evaluate(defaults[name], outer)
            else:
                frame.names[name] = Unknown(name)
        if spec.vararg:
            frame.names[spec.vararg.arg] = tuple(args[len(positional):])
        if spec.kwarg:
            frame.names[spec.kwarg.arg] = values

    def _construct(self, cls: Class, args: list[Value], keywords: dict[str, Value]) -> Value:
        instance = Instance(cls, {})
        init = self._class_member(cls, "__init__")
        if isinstance(init, Function):
            self.call_function(init, [instance, *args], keywords)
            return instance
        fields = [s for s in cls.node.body
                  if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]
        given = dict(zip([f.target.id for f in fields if isinstance(f.target, ast.Name)], args,
                         strict=False))
        given.update(keywords)
        for item in fields:
            name = item.target.id  # type: ignore[union-attr]
            if name not in given and item.value is not None:
                given[name] = self.evaluate(item.value, Frame(cls.module, {}))
        instance.attributes.update(given)
        return instance

    def _class_member(self, cls: Class, name: str) -> Value:
        for statement in cls.node.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == name:
                return Function(cls.module, statement)
            targets = statement.targets if isinstance(statement, ast.Assign) else (
                [statement.target] if isinstance(statement, ast.AnnAssign) else [])
            if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                value = getattr(statement, "value", None)
                return self._class_constant(cls, name, value) if value else None
        for base in cls.node.bases:
            parent = self.evaluate(base, Frame(cls.module, {}))
            found = self._class_member(parent, name) if isinstance(parent, Class) else None
            if found is not None:
                return found
        return None

    def _class_constant(self, cls: Class, name: str, value: ast.expr) -> Value:
        if any("Enum" in ast.unparse(base) for base in cls.node.bases):
            return Symbol(f"{cls.node.name}.{name}")
        inner = Frame(cls.module, {})
        for statement in cls.node.body:  # class constants may use earlier ones
            if isinstance(statement, ast.Assign) and statement.value is not value:
                for target in statement.targets:
                    if isinstance(target, ast.Name) and isinstance(statement.value, ast.Constant):
                        inner.names[target.id] = statement.value.value
            elif getattr(statement, "value", None) is value:
                break
        return self.evaluate(value, inner)

    def _eval_attribute(self, node: ast.Attribute, frame: Frame) -> Value:
        owner = self.evaluate(node.value, frame)
        return self.resolve(self.attribute(owner, node.attr))

    def attribute(self, owner: Value, name: str) -> Value:
        """An attribute of a module, object, class, path or plain value."""
        if isinstance(owner, Module):
            return self.module_value(owner, name)
        if isinstance(owner, Symbol):
            full = f"{owner.name}.{name}"
            return self.overrides.get(full, Symbol(full))
        if isinstance(owner, Instance):
            return self._instance_attribute(owner, name)
        if isinstance(owner, Class):
            found = self._class_member(owner, name)
            return Unknown(f"{owner.node.name}.{name}") if found is None else found
        if isinstance(owner, PurePosixPath) and name in ("name", "stem", "suffix", "parent"):
            value: Value = getattr(owner, name)
            return value
        if isinstance(owner, PurePosixPath) and name in ("parents", "parts"):
            return tuple(getattr(owner, name))
        if isinstance(owner, Unknown):
            return Unknown(f"{owner.name}.{name}")
        return Method(owner, name)

    def _instance_attribute(self, owner: Instance, name: str) -> Value:
        if name in owner.attributes:
            return owner.attributes[name]
        member = self._class_member(owner.cls, name)
        if not isinstance(member, Function):
            return Unknown(f"{owner.cls.node.name}.{name}") if member is None else member
        decorators = getattr(member.node, "decorator_list", [])
        marks = {ast.unparse(d).rpartition(".")[2] for d in decorators}
        if marks & {"property", "cached_property"}:
            return self.call_function(member, [owner], {})
        return member if "staticmethod" in marks else Method(owner, name, member)

    def _call_method(self, method: Method, args: list[Value], keywords: dict[str, Value],
                     node: ast.AST) -> Value:
        owner = method.owner
        if method.function is not None:
            return self.call_function(method.function, [owner, *args], keywords)
        if isinstance(owner, OpenFile):
            return self.read(owner.path) if method.name == "read" else None
        if isinstance(owner, PurePosixPath):
            found = self._path_method(owner, method.name, args)
            if found is not None:
                return found[0]
        if isinstance(owner, Instance | Class | Function):
            return Unknown(ast.unparse(node)[:80])
        return call_method(owner, method.name, args, keywords)

    # Files of the tree.

    def _path_method(self, path: PurePosixPath, name: str, args: list[Value]) -> list[Value] | None:
        """The result in a list, None when the method does not touch the file system."""
        if name in ("exists", "is_file", "is_dir"):
            file = str(path) in self.generated or exists(self.tree, str(path))
            folder = bool(self.tree.names(str(path)) or self.tree.folders(str(path)))
            return [{"is_file": file, "is_dir": folder}.get(name, file or folder)]
        if name == "read_text":
            return [self.read(path)]
        if name == "write_text" and args:
            return [self.write(path, args[0])]
        if name in ("glob", "rglob") and args:
            pattern = show(args[0])
            files = [*self.generated, *walk(self.tree, str(path))]
            return [[PurePosixPath(f) for f in dict.fromkeys(files)
                     if f.startswith(f"{path}/") and PurePosixPath(f).match(pattern)]]
        return [None] if name in ("mkdir", "unlink", "touch", "open") else None

    def read(self, path: PurePosixPath) -> Value:
        """A file's text with its origin: written earlier in this run, or of the package."""
        if written := self.generated.get(str(path)):
            return Text(written.content, written.origin)
        if path.is_absolute():
            return Unknown(f"content of {path}")  # trees also hold the toolkit's headers
        try:
            return Text(self.tree.read(str(path)).decode("utf-8", "replace"), str(path))
        except (OSError, PatcherError):
            return Unknown(f"content of {path}")

    def write(self, path: Value, content: Value) -> Value:
        """Remember what would be written; nothing reaches the disk."""
        text = show(content) if isinstance(content, str) else ""
        origin = content.origin if isinstance(content, Text) else ""
        self.generated[show(path)] = Generated(show(path), text, origin)
        return None



def _cache_key(function: Function, args: list[Value], keywords: dict[str, Value]) -> Value:
    """What a cached function's result is kept by; None where it is not kept."""
    node = function.node
    if isinstance(node, ast.Lambda) or not node.decorator_list or function.closure:
        return None
    if not any("cache" in called(getattr(d, "func", d)) for d in node.decorator_list):
        return None
    plain = (*args, *(part for item in keywords.items() for part in item))
    if not all(isinstance(v, str | int | float | None) for v in plain):
        return None
    return None if any(HOLE in v for v in plain if isinstance(v, str)) else (node, *plain)


def _is_settled(value: Value) -> bool:
    """True when nothing at any depth is unknown."""
    if isinstance(value, dict):
        return all(map(_is_settled, value)) and all(map(_is_settled, value.values()))
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_settled, value))
    if isinstance(value, Instance):
        return all(map(_is_settled, value.attributes.values()))
    return not isinstance(value, Unknown) and not (isinstance(value, str) and HOLE in value)
